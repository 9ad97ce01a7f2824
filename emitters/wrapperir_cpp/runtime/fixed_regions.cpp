// Calls of graph regions on devices whose graphs have their operands where they were recorded. The
// second call with operands at some addresses records its work, and later ones replay it.
#include <stdio.h>

#include <list>
#include <map>
#include <memory>
#include <string>

#include "region_calls.h"
#include "result_layout.h"

namespace wrapperir {
namespace {

using Key = std::vector<uint64_t>;

// The streams that a call's work is given to while it is recorded, by number.
struct CaptureStreams {
  CaptureStreams(DeviceCall& of, int line) : call(of) {
    for (int i = 0; i < call.stream_count(); ++i)
      streams.push_back(call.functions().make_stream(line));
  }
  ~CaptureStreams() {
    for (void* stream : streams) call.functions().delete_stream(stream);
  }
  CaptureStreams(const CaptureStreams&) = delete;
  CaptureStreams& operator=(const CaptureStreams&) = delete;

  DeviceCall& call;
  std::vector<void*> streams;
};

class FixedRecording {
 public:
  // Record the block; throws Failure if it does what cannot be recorded.
  FixedRecording(const RegionCall& region, const Key& key)
      : key_(key), functions_(region.call.functions()), stream_(region.stream()) {
    CaptureStreams made(region.call, region.line);
    void* const first = made.streams[region.fact.stream];
    void* const guard = functions_.enter_stream(first, region.call.index(), region.line);
    const DeviceCall::Target before =
        region.call.redirect({made.streams.data(), region.call.block()});
    try {
      graph_ = functions_.graphs->begin(region.line);
      std::vector<char*> places;
      for (const RegionTensor& tensor : region.tensors) places.push_back(tensor.address);
      region.block.run(region.block.state, places.data());
      is_ended_ = true;
      functions_.graphs->end(graph_, region.line);
      take_results(region);
    } catch (...) {
      abandon();
      region.call.redirect(before);
      functions_.leave_stream(guard);
      throw;
    }
    region.call.redirect(before);
    functions_.leave_stream(guard);
  }

  ~FixedRecording() {
    try {
      functions_.synchronize(stream_, -1);
    } catch (const Failure&) {  // what failed was no replay, or its caller knows
    }
    functions_.graphs->drop(graph_);
  }
  FixedRecording(const FixedRecording&) = delete;
  FixedRecording& operator=(const FixedRecording&) = delete;

  const Key& key() const { return key_; }

  void replay(const RegionCall& region, Device device) {
    void* const guard =
        functions_.enter_stream(region.stream(), region.call.index(), region.line);
    try {
      functions_.graphs->replay(graph_, region.line);
      for (size_t i = 0; i < results_.size(); ++i) {
        Tensor& result = region.result(i);
        layouts_[i].make(result, device, region.call.index(), region.line);
        char* const to = data_of(result.get(), region.line);
        const char* const from = data_of(results_[i].get(), region.line);
        if (layouts_[i].bytes)
          functions_.copy(to, from, layouts_[i].bytes, region.stream(), region.line);
      }
    } catch (...) {
      functions_.leave_stream(guard);
      throw;
    }
    functions_.leave_stream(guard);
  }

 private:
  // What ended the capture stays the message.
  void abandon() {
    if (!graph_) return;
    const std::string why = error_message();
    try {
      if (!is_ended_) functions_.graphs->end(graph_, -1);
    } catch (const Failure&) {
    }
    set_error_message(why.c_str());
    results_.clear();
    functions_.graphs->drop(graph_);
  }

  void take_results(const RegionCall& region) {
    for (size_t i = 0; i < region.results.size(); ++i) {
      results_.emplace_back(region.result(i).release());
      layouts_.push_back(layout_of(results_[i].get(), region.line));
    }
  }

  const Key key_;
  const DeviceFunctions& functions_;
  void* const stream_;
  void* graph_ = nullptr;
  bool is_ended_ = false;
  std::vector<Tensor> results_;  // in the graph's memory
  std::vector<ResultLayout> layouts_;
};

// The recordings of a region.
class FixedRegion {
 public:
  // Replay or record the region; false if its block is to be run.
  bool replay_or_record(const RegionCall& region, const Key& key) {
    std::lock_guard<std::mutex> held(mutex_);
    auto found = recordings_.begin();
    while (found != recordings_.end() && (*found)->key() != key) ++found;
    if (found != recordings_.end()) {
      recordings_.splice(recordings_.begin(), recordings_, found);
    } else if (!is_due(key) || !record(region, key)) {
      return false;
    }
    recordings_.front()->replay(region, Device::privateuseone);
    return true;
  }

  void drop_recordings() {
    std::lock_guard<std::mutex> held(mutex_);
    recordings_.clear();
    seen_.clear();
  }

 private:
  // Whether this is the second call with a key.
  bool is_due(const Key& key) {
    constexpr size_t most = 256;
    if (cannot_record_) return false;
    if (seen_.size() > most) seen_.clear();
    return seen_[key]++ == 1;
  }

  bool record(const RegionCall& region, const Key& key) {
    try {
      recordings_.push_front(std::make_unique<FixedRecording>(region, key));
    } catch (const Failure&) {
      cannot_record_ = true;
      fprintf(
          stderr, "wrapperir: %s is not replayed as a graph: %s\n", region.fact.name,
          error_message());
      return false;
    }
    if (static_cast<int32_t>(recordings_.size()) > region.fact.recordings) {
      seen_.erase(recordings_.back()->key());
      recordings_.pop_back();
    }
    return true;
  }

  std::mutex mutex_;
  std::list<std::unique_ptr<FixedRecording>> recordings_;  // the last used one first
  std::map<Key, int> seen_;
  bool cannot_record_ = false;
};

}  // namespace

void run_region(
    int line, DeviceFrame& kept, const RegionFact& fact, DeviceCall& call,
    std::initializer_list<RegionTensor> tensors, std::initializer_list<uint64_t> numbers,
    std::initializer_list<Tensor*> results, const RegionBlock& block) {
  const RegionCall region = {line, fact, call, tensors, results, block};
  const DeviceFunctions& functions = call.functions();
  if (functions.graphs && functions.graphs->exist() &&
      !functions.is_captured(region.stream(), line)) {
    Key key = numbers;
    key.push_back(reinterpret_cast<uint64_t>(call.stream(0)));
    key.push_back(reinterpret_cast<uint64_t>(call.block()));
    for (const RegionTensor& tensor : tensors)
      key.push_back(reinterpret_cast<uint64_t>(tensor.address));
    if (state_of<FixedRegion>(kept).replay_or_record(region, key)) return;
  }
  run_block(region);
}

}  // namespace wrapperir
