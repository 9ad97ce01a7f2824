// Recordings of graph regions: when to record, what a replay is given, and the memory of captures.
#include "graph_regions.h"

#include <dlfcn.h>
#include <stdio.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program.h"
#include "recording.h"

extern "C" {
AOTITorchError aoti_torch_get_dim(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle, int64_t**);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle, int64_t**);
}

namespace wrapperir {
namespace {

using Key = std::vector<uint64_t>;

// The functions of graph_pools.so.
struct PoolFunctions {
  using Function = const char*(int32_t, uint64_t);
  Function *begin, *end, *release;
};

const PoolFunctions& pool_functions() {
  static const PoolFunctions functions = [] {
    const std::string path = own_folder() + "/graph_pools.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw GraphError{dlerror()};
    const auto find = [&](const char* name) {
      void* found = dlsym(library, name);
      if (!found) throw GraphError{path + " has no " + name};
      return reinterpret_cast<PoolFunctions::Function*>(found);
    };
    return PoolFunctions{
        find("wrapperir_begin_pool"), find("wrapperir_end_pool"),
        find("wrapperir_release_pool")};
  }();
  return functions;
}

void check_pool(const char* message) {
  if (message) throw GraphError{message};
}

// The memory of captures for one stream of a device, and the stream of captures. Nothing in it is
// needed after a region, so all recordings for the stream share it.
class CapturePool {
 public:
  CapturePool(int32_t device, void* stream) : stream(stream), device_(device) {}
  ~CapturePool() {
    if (is_held_) pool_functions().release(device_, id());
  }
  CapturePool(const CapturePool&) = delete;
  CapturePool& operator=(const CapturePool&) = delete;

  void begin() { check_pool(pool_functions().begin(device_, id())); }
  // The pool keeps its memory while this object lives.
  void end() {
    check_pool(pool_functions().end(device_, id()));
    if (is_held_) check_pool(pool_functions().release(device_, id()));
    is_held_ = true;
  }

  void* const stream;

 private:
  uint64_t id() const { return reinterpret_cast<uintptr_t>(this); }

  const int32_t device_;
  bool is_held_ = false;
};

// Captures come one at a time.
std::mutex capture_mutex;

std::shared_ptr<CapturePool> pool_of(const DeviceCall& call, int line) {
  using StreamKey = std::pair<int32_t, void*>;
  static std::map<StreamKey, std::weak_ptr<CapturePool>> pools;
  static std::map<StreamKey, void*> streams;
  const StreamKey key = {call.index(), call.stream(0)};
  std::shared_ptr<CapturePool> pool = pools[key].lock();
  if (!pool) {
    void*& stream = streams[key];
    if (!stream) stream = call.functions().make_stream(line);
    pool = std::make_shared<CapturePool>(call.index(), stream);
    pools[key] = pool;
  }
  return pool;
}

struct Layout {
  std::vector<int64_t> sizes, strides;
  int32_t dtype = 0;
  int64_t bytes = 0;  // from the first element on

  void make(Tensor& result, int32_t index, int line) const {
    check(
        aoti_torch_empty_strided(
            static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype,
            torch_device(Device::cuda), index, result.out()),
        line);
  }
};

Layout layout_of(AtenTensorHandle tensor, int line) {
  Layout made;
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  check(aoti_torch_get_dim(tensor, &rank), line);
  check(aoti_torch_get_dtype(tensor, &made.dtype), line);
  check(aoti_torch_get_sizes(tensor, &sizes), line);
  check(aoti_torch_get_strides(tensor, &strides), line);
  made.sizes.assign(sizes, sizes + rank);
  made.strides.assign(strides, strides + rank);
  int64_t item = 1, last = 0, count = 1;
  for (int32_t i = 0; i < 22; ++i)
    if (torch_dtype(static_cast<DType>(i)) == made.dtype)
      item = item_bytes(static_cast<DType>(i));
  for (int64_t i = 0; i < rank; ++i) {
    last += (sizes[i] - 1) * strides[i];
    count *= sizes[i];
  }
  made.bytes = count ? (last + 1) * item : 0;
  return made;
}

// An operand that has memory of its own in a recording; `bytes` are copied, 0 for none.
struct Copied {
  size_t operand;
  char* memory;
  int64_t bytes;
  bool is_written;
};

// A recording for one key. Its operands are the region's tensors, the call's memory on the device
// if there is any, and the results.
struct Entry {
  explicit Entry(const DeviceFunctions& of) : functions(of) {}
  ~Entry() {
    recording.reset();
    if (graph) graph_driver()->cuGraphDestroy(graph);
    for (const Copied& each : copied) functions.deallocate(each.memory);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  const DeviceFunctions& functions;
  Key key;
  void* graph = nullptr;
  std::unique_ptr<Recording> recording;
  std::vector<Copied> copied;
  std::vector<bool> is_copied;  // by operand
  std::vector<Layout> results;
  std::vector<Tensor> targets;  // where the recording leaves results that cannot move
  std::shared_ptr<CapturePool> pool;
};

// What is known of a key without a recording.
struct Seen {
  int left = 1;   // plain calls before the next recording
  int taken = 1;  // plain calls before the last one
  bool has_failed = false;
  std::set<size_t> copied;
};

struct RegionState {
  std::mutex mutex;
  std::list<std::unique_ptr<Entry>> entries;  // the last used one first
  std::map<Key, Seen> seen;
  bool is_said = false;
};

constexpr size_t most_seen = 256;

RegionState& state_of(DeviceFrame& kept) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> held(mutex);
  if (!kept.state) {
    kept.state = new RegionState;
    kept.destroy = [](void* state) { delete static_cast<RegionState*>(state); };
  }
  return *static_cast<RegionState*>(kept.state);
}

// One call of a region.
class RegionCall {
 public:
  RegionCall(
      int line, RegionState& state, const RegionFact& fact, DeviceCall& call,
      std::initializer_list<RegionTensor> tensors, std::initializer_list<Tensor*> results,
      const RegionBlock& block)
      : line_(line), state_(state), fact_(fact), call_(call), results_(results), block_(block),
        stream_(call.stream(0)), tensors_(tensors) {
    has_memory_ = call.block() != nullptr;
    // Nobody needs what is in the call's memory but the block, and operands beside it.
    if (has_memory_) tensors_.push_back({call.block(), 0, false});
    for (const RegionTensor& tensor : tensors_)
      addresses_.push_back(reinterpret_cast<uint64_t>(tensor.address));
  }

  // Replay or record the region; false if its block is to be run.
  bool replay_or_record(std::initializer_list<uint64_t> numbers) {
    const Key key = key_of(numbers);
    std::set<size_t> to_copy;
    for (auto entry = state_.entries.begin(); entry != state_.entries.end(); ++entry) {
      if ((*entry)->key != key) continue;
      state_.entries.splice(state_.entries.begin(), state_.entries, entry);
      to_copy = operands_to_copy(*state_.entries.front());
      if (to_copy.empty()) {
        replay(*state_.entries.front());
        return true;
      }
      break;
    }
    if (state_.seen.size() > most_seen) state_.seen.clear();
    Seen& seen = state_.seen[key];
    if (seen.has_failed || (to_copy.empty() && !is_due(seen))) return false;
    to_copy.insert(seen.copied.begin(), seen.copied.end());
    try {
      std::lock_guard<std::mutex> held(capture_mutex);
      record(key, to_copy);
    } catch (const GraphError& error) {
      seen.has_failed = true;
      say(error.message.c_str());
      return false;
    } catch (const Failure&) {
      seen.has_failed = true;
      say(error_message());
      return false;
    }
    seen.copied = to_copy;
    replay(*state_.entries.front());
    return true;
  }

 private:
  // The stream, the numbers, and how addresses are aligned, by which libraries pick kernels.
  Key key_of(std::initializer_list<uint64_t> numbers) const {
    constexpr uint64_t most_aligned = 512;
    Key key = {reinterpret_cast<uint64_t>(stream_)};
    key.insert(key.end(), numbers.begin(), numbers.end());
    uint64_t alignments = 0;
    for (size_t i = 0; i < addresses_.size(); ++i) {
      alignments = alignments << 4 | __builtin_ctzll(addresses_[i] | most_aligned);
      if (i % 16 == 15 || i + 1 == addresses_.size()) {
        key.push_back(alignments);
        alignments = 0;
      }
    }
    return key;
  }

  // After a recording was dropped, the next one comes twice as late as before.
  static bool is_due(Seen& seen) {
    if (seen.left-- > 0) return false;
    seen.left = seen.taken = 2 * seen.taken;
    return true;
  }

  void say(const char* why) {
    if (!state_.is_said)
      fprintf(stderr, "wrapperir: %s is not replayed as a graph: %s\n", fact_.name, why);
    state_.is_said = true;
  }

  // The operands that moved and cannot, or that cost more to move than to copy.
  std::set<size_t> operands_to_copy(const Entry& entry) const {
    constexpr size_t many_nodes = 8;
    constexpr uint64_t often = 16;
    std::set<size_t> found;
    const Recording& recording = *entry.recording;
    for (size_t i = 0; i < addresses_.size(); ++i) {
      if (entry.is_copied[i] || addresses_[i] == recording.address(i)) continue;
      const size_t nodes = recording.nodes_of(i);
      const bool is_dear = nodes >= many_nodes && recording.changes(i) >= nodes * often;
      if (!recording.is_movable() || is_dear) found.insert(i);
    }
    return found;
  }

  static void copy(uint64_t to, uint64_t from, int64_t bytes, void* stream) {
    if (bytes)
      check_graph(
          graph_driver()->cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "copying a tensor");
  }

  void replay(Entry& entry) {
    std::vector<uint64_t> addresses = addresses_;
    std::vector<Tensor> made(entry.results.size());
    for (size_t i = 0; i < made.size(); ++i) {
      entry.results[i].make(made[i], call_.index(), line_);
      addresses.push_back(address_of(made[i]));
    }
    Recording& recording = *entry.recording;
    try {
      for (size_t i = 0; i < addresses.size(); ++i)
        if (!entry.is_copied[i]) recording.move(i, addresses[i]);
      for (const Copied& each : entry.copied)
        copy(
            reinterpret_cast<uint64_t>(each.memory), addresses[each.operand], each.bytes,
            stream_);
      recording.launch(stream_);
      for (const Copied& each : entry.copied)
        if (each.is_written)
          copy(
              addresses[each.operand], reinterpret_cast<uint64_t>(each.memory), each.bytes,
              stream_);
      for (size_t i = 0; i < entry.targets.size(); ++i)
        copy(
            addresses[tensors_.size() + i], address_of(entry.targets[i]),
            entry.results[i].bytes, stream_);
    } catch (const GraphError& error) {
      fail(line_, "%s", error.message.c_str());
    }
    for (size_t i = 0; i < made.size(); ++i) results_[i]->reset(made[i].release());
  }

  uint64_t address_of(const Tensor& tensor) const {
    return reinterpret_cast<uint64_t>(data_of(tensor.get(), line_));
  }

  void record(const Key& key, const std::set<size_t>& to_copy) {
    constexpr int attempts = 3;
    const DeviceFunctions& functions = call_.functions();
    auto entry = std::make_unique<Entry>(functions);
    entry->key = key;
    entry->pool = pool_of(call_, line_);
    std::vector<uint64_t> at = addresses_;
    for (size_t i : to_copy) {
      if (i >= tensors_.size()) continue;  // a result
      const int64_t bytes = tensors_[i].bytes;
      const bool is_memory = has_memory_ && i + 1 == tensors_.size();
      void* memory = functions.allocate(is_memory ? call_.block_bytes() : bytes, line_);
      entry->copied.push_back({i, static_cast<char*>(memory), bytes, tensors_[i].is_written});
      at[i] = reinterpret_cast<uint64_t>(memory);
    }
    destroy(capture(*entry, at, nullptr));
    std::vector<Tensor> targets;
    for (Tensor* result : results_) {
      entry->results.push_back(layout_of(result->get(), line_));
      result->reset();
      targets.emplace_back();
      entry->results.back().make(targets.back(), call_.index(), line_);
      at.push_back(address_of(targets.back()));
    }
    std::vector<Operand> operands;
    void* room = displace(*entry, at, operands);
    try {
      std::vector<uint64_t> displaced;
      for (const Operand& operand : operands) displaced.push_back(operand.displaced);
      // While the pool grows, each capture has its memory at other addresses.
      for (int attempt = 0; attempt < attempts; ++attempt) {
        Graphs graphs = {capture(*entry, at, &at)};
        graphs.again = capture(*entry, at, &at);
        graphs.moved = capture(*entry, displaced, &displaced);
        entry->recording.reset();
        if (entry->graph) destroy(entry->graph);
        entry->graph = std::exchange(graphs.first, nullptr);
        entry->recording = std::make_unique<Recording>(
            entry->graph, graphs.again, graphs.moved, operands);
        if (entry->recording->is_movable()) break;
      }
    } catch (...) {
      functions.deallocate(room);
      throw;
    }
    functions.deallocate(room);
    entry->is_copied.resize(at.size());
    for (const Copied& each : entry->copied) entry->is_copied[each.operand] = true;
    if (!entry->recording->is_movable()) {
      for (size_t i = tensors_.size(); i < at.size(); ++i) entry->is_copied[i] = true;
      entry->targets = std::move(targets);
    }
    state_.entries.remove_if([&](const auto& old) { return old->key == key; });
    state_.entries.push_front(std::move(entry));
    while (static_cast<int32_t>(state_.entries.size()) > fact_.recordings)
      state_.entries.pop_back();
  }

  struct Graphs {
    ~Graphs() {
      for (void* graph : {first, again, moved})
        if (graph) destroy(graph);
    }
    void* first = nullptr;
    void* again = nullptr;
    void* moved = nullptr;
  };

  static void destroy(void* graph) { graph_driver()->cuGraphDestroy(graph); }

  // Give each operand another address; nothing is read or written there.
  void* displace(
      const Entry& entry, const std::vector<uint64_t>& at, std::vector<Operand>& operands) {
    constexpr uint64_t spacing = 512;  // the alignment of allocations
    constexpr uint64_t most_room = 64 << 20;
    uint64_t largest = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      const bool is_memory = has_memory_ && i + 1 == tensors_.size();
      const int64_t bytes = i >= tensors_.size() ? entry.results[i - tensors_.size()].bytes
          : is_memory                            ? call_.block_bytes()
                                                 : tensors_[i].bytes;
      operands.push_back({at[i], at[i], static_cast<uint64_t>(bytes), 0});
      largest = std::max(largest, operands.back().bytes);
    }
    const uint64_t size = std::min(largest, most_room) + (at.size() + 2) * spacing;
    void* const room = call_.functions().allocate(size, line_);
    const uint64_t base = (reinterpret_cast<uint64_t>(room) + spacing - 1) / spacing * spacing;
    for (size_t i = 0; i < at.size(); ++i)
      operands[i].displaced = base + i * spacing + at[i] % spacing;
    return room;
  }

  // Capture the block with its tensors at some addresses, and copies of its results to `targets`
  // if there are any, whose addresses are the last ones.
  void* capture(
      const Entry& entry, const std::vector<uint64_t>& at,
      const std::vector<uint64_t>* targets) {
    std::vector<char*> places;
    for (uint64_t address : at) places.push_back(reinterpret_cast<char*>(address));
    char* const memory = has_memory_ ? places[tensors_.size() - 1] : nullptr;
    Capturing capturing(call_, *entry.pool, memory, line_);
    block_.run(block_.state, places.data());
    for (size_t i = 0; targets && i < results_.size(); ++i) {
      const uint64_t target = (*targets)[tensors_.size() + i];
      const uint64_t made = address_of(*results_[i]);
      copy(target, made, entry.results[i].bytes, entry.pool->stream);
      results_[i]->reset();
    }
    return capturing.end();
  }

  // Has a call's work captured, while this object lives.
  class Capturing {
   public:
    Capturing(DeviceCall& call, CapturePool& pool, char* memory, int line)
        : call_(call), pool_(pool), stream_(call.stream(0)), memory_(call.block()) {
      constexpr int thread_local_mode = 1;
      pool.begin();
      try {
        guard_ = call.functions().enter_stream(pool.stream, call.index(), line);
        check_graph(
            graph_driver()->cuStreamBeginCapture_v2(pool.stream, thread_local_mode),
            "a capture");
      } catch (...) {
        if (guard_) call.functions().leave_stream(guard_);
        pool.end();
        throw;
      }
      call.redirect(pool.stream, memory);
    }
    ~Capturing() {
      if (is_ended_) return;
      void* graph = nullptr;
      if (!graph_driver()->cuStreamEndCapture(pool_.stream, &graph) && graph) destroy(graph);
      try {
        restore();
      } catch (const GraphError&) {  // what ended the capture is said
      }
    }
    Capturing(const Capturing&) = delete;
    Capturing& operator=(const Capturing&) = delete;

    void* end() {
      void* graph = nullptr;
      is_ended_ = true;
      const int error = graph_driver()->cuStreamEndCapture(pool_.stream, &graph);
      restore();
      check_graph(error, "ending a capture");
      if (!graph) throw GraphError{"a capture has no graph"};
      return graph;
    }

   private:
    void restore() {
      call_.redirect(stream_, memory_);
      call_.functions().leave_stream(guard_);
      pool_.end();
    }

    DeviceCall& call_;
    CapturePool& pool_;
    void* const stream_;
    char* const memory_;
    void* guard_ = nullptr;
    bool is_ended_ = false;
  };

  const int line_;
  RegionState& state_;
  const RegionFact& fact_;
  DeviceCall& call_;
  const std::vector<Tensor*> results_;
  const RegionBlock& block_;
  void* const stream_;
  std::vector<RegionTensor> tensors_;  // the call's memory is the last one
  std::vector<uint64_t> addresses_;
  bool has_memory_ = false;
};

}  // namespace

void run_region(
    int line, DeviceFrame& kept, const RegionFact& fact, DeviceCall& call,
    std::initializer_list<RegionTensor> tensors, std::initializer_list<uint64_t> numbers,
    std::initializer_list<Tensor*> results, const RegionBlock& block) {
  std::vector<char*> at;
  for (const RegionTensor& tensor : tensors) at.push_back(tensor.address);
  const bool has_graphs = graph_driver() && call.functions().is_captured;
  if (has_graphs && !call.functions().is_captured(call.stream(0), line)) {
    RegionState& state = state_of(kept);
    std::lock_guard<std::mutex> held(state.mutex);
    RegionCall region(line, state, fact, call, tensors, results, block);
    if (region.replay_or_record(numbers)) return;
  }
  block.run(block.state, at.data());
}

}  // namespace wrapperir
