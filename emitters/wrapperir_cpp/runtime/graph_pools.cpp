// Memory pools of PyTorch's allocator, for what is allocated while a graph is captured. This is
// compiled to graph_pools.so with PyTorch's C++ headers, for one build of PyTorch.
#define C10_USING_CUSTOM_GENERATED_MACROS  // a header that PyTorch without CUDA lacks
#include "graph_pools.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using wrapperir::CapturePool;

struct Pool : CapturePool {
  uint64_t number = 0;  // another one each time that it gets memory
  int holders = 0;
  bool has_memory = false;
};

// Never deleted: programs may be closed when the process ends.
struct Pools {
  std::mutex captures;
  std::mutex mutex;  // of what follows
  std::map<std::tuple<int32_t, void*, int32_t>, Pool> of_streams;
  uint64_t last_number = 0;
};
Pools& all = *new Pools;

// PyTorch's own pools have a zero in one of the halves.
c10::MempoolId_t id_of(const Pool& pool) {
  return {reinterpret_cast<uintptr_t>(&all), pool.number};
}

c10::DeviceIndex device_of(const Pool& pool) {
  return static_cast<c10::DeviceIndex>(pool.device);
}

template <typename Work>
const char* guarded(Work work) {
  static thread_local std::string message;
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "an exception that is not of C++";
  }
  return message.c_str();
}

void lock() { all.captures.lock(); }
void unlock() { all.captures.unlock(); }

CapturePool* hold(int32_t device, void* stream, int32_t number) {
  std::lock_guard<std::mutex> held(all.mutex);
  Pool& pool = all.of_streams[{device, stream, number}];
  pool.device = device;
  ++pool.holders;
  return &pool;
}

void drop(CapturePool* given) {
  std::lock_guard<std::mutex> held(all.mutex);
  Pool& pool = *static_cast<Pool*>(given);
  if (--pool.holders || !std::exchange(pool.has_memory, false)) return;
  guarded([&] { allocator::releasePool(device_of(pool), id_of(pool)); });
}

const char* begin(CapturePool* given) {
  Pool& pool = *static_cast<Pool*>(given);
  return guarded([&] {
    std::lock_guard<std::mutex> held(all.mutex);
    if (!pool.has_memory) pool.number = ++all.last_number;
    const auto mine = std::this_thread::get_id();
    allocator::beginAllocateToPool(device_of(pool), id_of(pool), [mine](cudaStream_t) {
      return std::this_thread::get_id() == mine;
    });
  });
}

// Each begin holds the memory; the first hold stays.
const char* end(CapturePool* given) {
  Pool& pool = *static_cast<Pool*>(given);
  std::lock_guard<std::mutex> held(all.mutex);
  const char* const failed =
      guarded([&] { allocator::endAllocateToPool(device_of(pool), id_of(pool)); });
  if (!std::exchange(pool.has_memory, true)) return failed;
  const char* const kept =
      guarded([&] { allocator::releasePool(device_of(pool), id_of(pool)); });
  return failed ? failed : kept;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const wrapperir::PoolFunctions
    wrapperir_graph_pools = {lock, unlock, hold, drop, begin, end};
