// Memory pools of PyTorch's allocator, for what is allocated while a graph is captured. This is
// compiled to graph_pools.so with PyTorch's C++ headers, for one build of PyTorch.
#define C10_USING_CUSTOM_GENERATED_MACROS  // a header that PyTorch without CUDA lacks
#include <c10/cuda/CUDACachingAllocator.h>

#include <exception>
#include <string>
#include <thread>

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// PyTorch's own pools have a zero in one of the halves.
c10::MempoolId_t pool_of(uint64_t id) { return {0x77697265, id}; }

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

}  // namespace

// All return an error message, or null; the message stays until this thread's next call.

// Have this thread allocate from a pool, which is made if it is new. Each call holds the pool.
extern "C" __attribute__((visibility("default"))) const char* wrapperir_begin_pool(
    int32_t device, uint64_t id) {
  return guarded([&] {
    const auto mine = std::this_thread::get_id();
    allocator::beginAllocateToPool(
        static_cast<c10::DeviceIndex>(device), pool_of(id),
        [mine](cudaStream_t) { return std::this_thread::get_id() == mine; });
  });
}

extern "C" __attribute__((visibility("default"))) const char* wrapperir_end_pool(
    int32_t device, uint64_t id) {
  return guarded([&] {
    allocator::endAllocateToPool(static_cast<c10::DeviceIndex>(device), pool_of(id));
  });
}

// Give up one hold of a pool; with the last one, its memory is the allocator's again.
extern "C" __attribute__((visibility("default"))) const char* wrapperir_release_pool(
    int32_t device, uint64_t id) {
  return guarded([&] {
    allocator::releasePool(static_cast<c10::DeviceIndex>(device), pool_of(id));
  });
}
