// Calls of graph regions: when a region is recorded, and what a replay is given.
#include "graph_regions.h"

#include <stdio.h>

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "region_recording.h"

namespace wrapperir {
namespace {

using Key = std::vector<uint64_t>;

// What is known of a key without a recording.
struct Seen {
  int left = 1;   // plain calls before the next recording
  int taken = 1;  // plain calls before the last one
  bool has_failed = false;
  std::set<size_t> copied;
};

// The recordings of a region.
class RegionState {
 public:
  // Replay or record the region; false if its block is to be run.
  bool replay_or_record(const RegionCall& region, std::initializer_list<uint64_t> numbers);

  void drop_recordings() {
    std::lock_guard<std::mutex> held(mutex_);
    recordings_.clear();
  }

 private:
  void read_call(const RegionCall& region, std::initializer_list<uint64_t> numbers);
  RegionRecording* find();
  std::set<size_t> operands_to_copy(const RegionRecording& found) const;
  bool separates_operands(const RegionRecording& found, const RegionCall& region) const;
  void replay(RegionRecording& found, const RegionCall& region);
  Seen& seen();
  std::unique_ptr<RegionRecording> record(
      const RegionCall& region, const std::vector<uint64_t>& addresses,
      const std::set<size_t>& to_copy);
  void keep(std::unique_ptr<RegionRecording> made, int32_t most);

  std::mutex mutex_;
  std::list<std::unique_ptr<RegionRecording>> recordings_;  // the last used one first
  std::map<Key, Seen> seen_;
  std::atomic<bool> is_said_{false};
  // Of the call that has the lock: its key, and where its operands are. They keep their memory.
  Key key_;
  std::vector<uint64_t> addresses_;
};

// The key of a call: the stream, the numbers, and how addresses are aligned, by which libraries
// pick kernels.
void RegionState::read_call(
    const RegionCall& region, std::initializer_list<uint64_t> numbers) {
  constexpr uint64_t most_aligned = 512;
  addresses_.clear();
  for (const RegionTensor& tensor : region.tensors)
    addresses_.push_back(reinterpret_cast<uint64_t>(tensor.address));
  if (char* block = region.call.block())
    addresses_.push_back(reinterpret_cast<uint64_t>(block));
  key_.clear();
  key_.push_back(reinterpret_cast<uint64_t>(region.call.stream(0)));
  key_.insert(key_.end(), numbers.begin(), numbers.end());
  uint64_t alignments = 0;
  for (size_t i = 0; i < addresses_.size(); ++i) {
    alignments = alignments << 4 | __builtin_ctzll(addresses_[i] | most_aligned);
    if (i % 16 == 15 || i + 1 == addresses_.size())
      key_.push_back(std::exchange(alignments, 0));
  }
}

// The recording of the key, which is the last used one then; null for none.
RegionRecording* RegionState::find() {
  for (auto each = recordings_.begin(); each != recordings_.end(); ++each) {
    if ((*each)->key != key_) continue;
    recordings_.splice(recordings_.begin(), recordings_, each);
    return recordings_.front().get();
  }
  return nullptr;
}

Seen& RegionState::seen() {
  constexpr size_t most_seen = 256;
  if (seen_.size() > most_seen) seen_.clear();
  return seen_[key_];
}

// After a recording was dropped, the next one comes twice as late as before.
bool is_due(Seen& seen) {
  if (seen.left-- > 0) return false;
  seen.left = seen.taken = 2 * seen.taken;
  return true;
}

// The operands that moved and cannot, or that cost more to move than to copy.
std::set<size_t> RegionState::operands_to_copy(const RegionRecording& found) const {
  constexpr size_t many_nodes = 8;  // to change these takes longer than to copy an operand
  constexpr uint64_t often = 16;
  std::set<size_t> operands;
  const Recording& recording = *found.recording;
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (found.is_copied[i] || addresses_[i] == recording.address(i)) continue;
    const size_t nodes = recording.nodes_of(i);
    const bool is_dear = nodes >= many_nodes && recording.changes(i) >= nodes * often;
    if (!recording.is_movable() || is_dear) operands.insert(i);
  }
  return operands;
}

// Whether copies would separate operands that share memory that the block writes.
bool RegionState::separates_operands(
    const RegionRecording& found, const RegionCall& region) const {
  for (const CopiedOperand& copied : found.copied) {
    if (copied.bytes <= 0) continue;
    const char* const begin = region.tensor(copied.operand).address;
    for (size_t i = 0; i < region.tensors.size(); ++i) {
      const RegionTensor& other = region.tensor(i);
      if (i != copied.operand && (copied.is_written || other.written_bytes) &&
          begin < other.address + other.bytes && other.address < begin + copied.bytes)
        return true;
    }
  }
  return false;
}

void RegionState::replay(RegionRecording& found, const RegionCall& region) {
  for (size_t i = 0; i < found.results.size(); ++i) {
    found.results[i].make(
        region.result(i), Device::cuda, region.call.index(), region.line);
    addresses_.push_back(address_of(region.result(i), region.line));
  }
  Recording& recording = *found.recording;
  try {
    for (size_t i = 0; i < addresses_.size(); ++i) recording.move(i, addresses_[i]);
    recording.launch(region.stream());
  } catch (const GraphError& error) {
    fail(region.line, "%s", error.message.c_str());
  }
}

// Null if the region cannot be recorded; its first failure is reported.
std::unique_ptr<RegionRecording> RegionState::record(
    const RegionCall& region, const std::vector<uint64_t>& addresses,
    const std::set<size_t>& to_copy) {
  std::string why;
  try {
    return record_region(region, addresses, to_copy);
  } catch (const GraphError& error) {
    why = error.message;
  } catch (const Failure&) {
    why = error_message();
  }
  if (!is_said_.exchange(true))
    fprintf(
        stderr, "wrapperir: %s is not replayed as a graph: %s\n", region.fact.name, why.c_str());
  return nullptr;
}

void RegionState::keep(std::unique_ptr<RegionRecording> made, int32_t most) {
  recordings_.remove_if([&](const auto& old) { return old->key == made->key; });
  recordings_.push_front(std::move(made));
  while (static_cast<int32_t>(recordings_.size()) > most) recordings_.pop_back();
}

bool RegionState::replay_or_record(
    const RegionCall& region, std::initializer_list<uint64_t> numbers) {
  std::unique_lock<std::mutex> held(mutex_);
  read_call(region, numbers);
  std::set<size_t> to_copy;
  if (RegionRecording* found = find()) {
    if (separates_operands(*found, region)) return false;
    to_copy = operands_to_copy(*found);
    if (to_copy.empty()) {
      replay(*found, region);
      return true;
    }
  }
  Seen& before = seen();
  if (before.has_failed || (to_copy.empty() && !is_due(before))) return false;
  to_copy.insert(before.copied.begin(), before.copied.end());
  for (size_t i = 0; i < region.tensors.size(); ++i)
    if (region.tensor(i).is_fixed) to_copy.insert(i);
  const Key key = key_;
  const std::vector<uint64_t> addresses = addresses_;
  held.unlock();  // other calls do not wait for the captures
  std::unique_ptr<RegionRecording> made = record(region, addresses, to_copy);
  held.lock();
  key_ = key;
  addresses_ = addresses;
  seen().has_failed = !made;
  if (!made) return false;
  seen().copied = std::move(to_copy);
  made->key = key;
  keep(std::move(made), region.fact.recordings);
  if (separates_operands(*recordings_.front(), region)) return false;
  replay(*recordings_.front(), region);
  return true;
}

}  // namespace

void run_region(
    int line, DeviceFrame& kept, const RegionFact& fact, DeviceCall& call,
    std::initializer_list<RegionTensor> tensors, std::initializer_list<uint64_t> numbers,
    std::initializer_list<Tensor*> results, const RegionBlock& block) {
  const RegionCall region = {line, fact, call, tensors, results, block};
  const bool has_graphs = graph_driver() && call.functions().is_captured;
  if (has_graphs && !call.functions().is_captured(call.stream(fact.stream), line)) {
    if (state_of<RegionState>(kept).replay_or_record(region, numbers)) return;
  }
  run_block(region);
}

}  // namespace wrapperir
