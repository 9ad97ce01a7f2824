// Recordings of regions: captures of a block with its operands at several addresses.
#include "region_recording.h"

#include <algorithm>
#include <utility>

namespace wrapperir {
namespace {

// Makes the recording of a region.
class Recorder {
 public:
  Recorder(const RegionCall& region, const std::vector<uint64_t>& addresses)
      : region_(region),
        functions_(region.call.functions()),
        at_(addresses),
        made_(std::make_unique<RegionRecording>(functions_)) {
    made_->pool = std::make_unique<HeldPool>(region.call, region.fact.stream, region.line);
  }

  std::unique_ptr<RegionRecording> record(const std::set<size_t>& to_copy) {
    made_->is_copied.resize(region_.given_count());
    for (size_t i : to_copy) give_memory(i);
    capture(at_, false);  // for the results' layouts, and memory that the pool lacks
    make_targets();
    record_at_two_places();
    return std::move(made_);
  }

 private:
  bool is_block(size_t operand) const { return operand == region_.tensors.size(); }

  // The bytes of an operand from its address on.
  int64_t room_of(size_t operand) const {
    if (operand < region_.tensors.size())
      return std::max<int64_t>(region_.tensor(operand).bytes, 0);  // negative if it has no elements
    if (operand < region_.given_count()) return region_.call.block_bytes();
    return made_->results[operand - region_.given_count()].bytes;
  }

  // Let the recording have an operand in memory of its own. Nothing in the call's block is
  // needed but the operands there.
  void give_memory(size_t operand) {
    const bool is_tensor = !is_block(operand);
    const int64_t bytes = is_tensor ? region_.tensor(operand).bytes : 0;
    const int64_t written = is_tensor ? region_.tensor(operand).written_bytes : 0;
    if (written && written != bytes)
      throw GraphError{"it writes an operand with gaps, which cannot be copied"};
    void* memory = functions_.allocate(room_of(operand), region_.line);
    made_->copied.push_back({operand, reinterpret_cast<uint64_t>(memory), bytes, written != 0});
    made_->is_copied[operand] = true;
  }

  void make_targets() {
    for (size_t i = 0; i < region_.results.size(); ++i) {
      made_->results.push_back(layout_of(region_.result(i).get(), region_.line));
      region_.result(i).reset();
      targets_.emplace_back();
      made_->results[i].make(targets_[i], Device::cuda, region_.call.index(), region_.line);
      at_.push_back(address_of(targets_[i], region_.line));
    }
  }

  void record_at_two_places() {
    constexpr int attempts = 3;
    std::vector<Operand> operands;
    const std::unique_ptr<void, void (*)(void*)> room(displace(operands), functions_.deallocate);
    std::vector<uint64_t> displaced;
    for (const Operand& operand : operands) displaced.push_back(operand.displaced);
    // While the pool grows, each capture has its memory at other addresses.
    for (int attempt = 0; attempt < attempts; ++attempt) {
      Graph first = capture(at_, true);
      const Graph again = capture(at_, true), moved = capture(displaced, true);
      made_->recording.reset();  // before its graph
      made_->graph = std::move(first);
      made_->recording = std::make_unique<Recording>(
          made_->graph.get(), again.get(), moved.get(), operands, targets_.size());
      if (made_->recording->is_movable()) break;
    }
  }

  // Give each operand another address, each at another distance; nothing is read or written
  // there. Return the memory of these addresses.
  void* displace(std::vector<Operand>& operands) const {
    constexpr uint64_t spacing = 512;  // the alignment of allocations
    constexpr uint64_t most_room = 64 << 20;
    uint64_t largest = 0;
    for (size_t i = 0; i < at_.size(); ++i) {
      const bool is_result = i >= region_.given_count();
      const bool is_copied = is_result || made_->is_copied[i];
      const bool is_absent = !is_result && is_block(i) && is_copied;  // no node has it
      const auto bytes = static_cast<uint64_t>(is_absent ? 0 : room_of(i));
      operands.push_back({at_[i], at_[i], bytes, 0, is_copied});
      largest = std::max(largest, bytes);
    }
    const uint64_t size = std::min(largest, most_room) + (at_.size() + 2) * spacing;
    void* const room = functions_.allocate(size, region_.line);
    const uint64_t base = (reinterpret_cast<uint64_t>(room) + spacing - 1) / spacing * spacing;
    std::set<uint64_t> distances;
    for (Operand& operand : operands) {
      operand.displaced = base + operand.address % spacing;
      while (!distances.insert(operand.displaced - operand.address).second)
        operand.displaced += spacing;
    }
    return room;
  }

  // Capture the block with its operands at some addresses; `has_targets` if the results are
  // copied to the last ones.
  Graph capture(const std::vector<uint64_t>& at, bool has_targets) const {
    std::vector<char*> places;
    for (uint64_t address : at) places.push_back(reinterpret_cast<char*>(address));
    for (const CopiedOperand& each : made_->copied)
      places[each.operand] = reinterpret_cast<char*>(each.memory);
    const size_t given = region_.given_count();
    char* const block = given > region_.tensors.size() ? places[given - 1] : nullptr;
    Capturing capturing(
        region_.call, region_.fact.stream, made_->pool->pool(), block, region_.line);
    for (const CopiedOperand& each : made_->copied)
      copy_memory(each.memory, at[each.operand], each.bytes, region_.stream());
    region_.block.run(region_.block.state, places.data());
    for (const CopiedOperand& each : made_->copied)
      if (each.is_written)
        copy_memory(at[each.operand], each.memory, each.bytes, region_.stream());
    for (size_t i = 0; has_targets && i < region_.results.size(); ++i) {
      Tensor& result = region_.result(i);
      copy_memory(
          at[given + i], address_of(result, region_.line), made_->results[i].bytes,
          region_.stream());
      result.reset();
    }
    return capturing.end();
  }

  const RegionCall& region_;
  const DeviceFunctions& functions_;
  std::vector<uint64_t> at_;  // the operands' addresses in the recording
  std::vector<Tensor> targets_;
  std::unique_ptr<RegionRecording> made_;
};

}  // namespace

RegionRecording::~RegionRecording() {
  for (const CopiedOperand& each : copied)
    functions.deallocate(reinterpret_cast<void*>(each.memory));
}

std::unique_ptr<RegionRecording> record_region(
    const RegionCall& region, const std::vector<uint64_t>& addresses,
    const std::set<size_t>& to_copy) {
  const OnlyCapture only;
  return Recorder(region, addresses).record(to_copy);
}

}  // namespace wrapperir
