// Pools of PyTorch's allocator without a GPU: what captures allocate is the host's, uses are
// counted as PyTorch counts them, and calls are logged.
#include <c10/cuda/CUDACachingAllocator.h>

#include <map>
#include <mutex>
#include <stdexcept>

void note(const char* format, ...);  // of fake_cuda.cpp

namespace {

struct Pool {
  int uses = 0;
  bool is_filled = false;  // takes what is allocated
};

std::mutex lock;
std::map<c10::MempoolId_t, Pool> pools;

// A pool that was released may keep its memory for a while, and cannot be used then.
Pool& used(c10::MempoolId_t id) {
  auto found = pools.find(id);
  if (found == pools.end() || !found->second.uses) throw std::runtime_error("no such pool");
  return found->second;
}

}  // namespace

namespace c10::cuda::CUDACachingAllocator {

void beginAllocateToPool(
    DeviceIndex device, MempoolId_t id, std::function<bool(cudaStream_t)> filter) {
  std::lock_guard<std::mutex> held(lock);
  note("begin pool of %d", device);
  if (!filter(nullptr)) throw std::runtime_error("the pool is not for this thread");
  Pool& pool = pools.count(id) ? used(id) : pools[id];
  if (pool.is_filled) throw std::runtime_error("the pool is already filled");
  ++pool.uses;
  pool.is_filled = true;
}

void endAllocateToPool(DeviceIndex device, MempoolId_t id) {
  std::lock_guard<std::mutex> held(lock);
  note("end pool of %d", device);
  if (!std::exchange(used(id).is_filled, false)) throw std::runtime_error("it has ended");
}

void releasePool(DeviceIndex device, MempoolId_t id) {
  std::lock_guard<std::mutex> held(lock);
  note("release pool of %d", device);
  --used(id).uses;
}

}  // namespace c10::cuda::CUDACachingAllocator

// Pools whose memory somebody holds.
extern "C" __attribute__((visibility("default"))) int fake_live_pools() {
  std::lock_guard<std::mutex> held(lock);
  int count = 0;
  for (const auto& [id, pool] : pools) count += pool.uses > 0;
  return count;
}
