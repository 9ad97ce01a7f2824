// Calls of regions, and what an open program keeps of each region.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "graph_regions.h"
#include "program.h"

namespace wrapperir {

// One call of a region. Its operands are its tensors, then the call's block of memory if it has
// one, then the results.
struct RegionCall {
  int line;
  const RegionFact& fact;
  DeviceCall& call;
  const std::initializer_list<RegionTensor> tensors;
  const std::initializer_list<Tensor*> results;
  const RegionBlock& block;

  void* stream() const { return call.stream(fact.stream); }
  const RegionTensor& tensor(size_t i) const { return tensors.begin()[i]; }
  Tensor& result(size_t i) const { return *results.begin()[i]; }
  // The operands without results.
  size_t given_count() const { return tensors.size() + (call.block() != nullptr); }
};

// Run the block of a region without a recording.
inline void run_block(const RegionCall& region) {
  std::vector<char*> places;
  for (const RegionTensor& tensor : region.tensors) places.push_back(tensor.address);
  region.block.run(region.block.state, places.data());
  // Memory that several streams used goes to the stream that it was allocated on.
  if (region.fact.has_branches) region.call.fork(region.line, region.fact.stream);
}

// The state of a region, which is made when it is first called.
template <typename State>
State& state_of(DeviceFrame& kept) {
  void* made = __atomic_load_n(&kept.state, __ATOMIC_ACQUIRE);
  if (made) return *static_cast<State*>(made);
  static std::mutex mutex;
  // If a program is closed by a static destructor, the device and PyTorch's allocator may be gone.
  static std::atomic<bool> is_ending{false};
  [[maybe_unused]] static const int registered = atexit([] { is_ending = true; });
  std::lock_guard<std::mutex> held(mutex);
  if (!kept.state) {
    kept.destroy = [](void* state) {
      if (!is_ending) delete static_cast<State*>(state);
    };
    kept.drop_recordings = [](void* state) { static_cast<State*>(state)->drop_recordings(); };
    __atomic_store_n(&kept.state, static_cast<void*>(new State), __ATOMIC_RELEASE);
  }
  return *static_cast<State*>(kept.state);
}

}  // namespace wrapperir
