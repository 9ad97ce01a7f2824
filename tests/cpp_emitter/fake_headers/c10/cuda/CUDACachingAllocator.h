// The part of PyTorch's allocator that graph_pools.cpp uses, as fake_pools.cpp defines it.
#pragma once

#include <stdint.h>

#include <functional>
#include <utility>

using cudaStream_t = void*;

namespace c10 {
using DeviceIndex = int8_t;
using MempoolId_t = std::pair<uint64_t, uint64_t>;

namespace cuda::CUDACachingAllocator {
void beginAllocateToPool(
    DeviceIndex device, MempoolId_t id, std::function<bool(cudaStream_t)> filter);
void endAllocateToPool(DeviceIndex device, MempoolId_t id);
void releasePool(DeviceIndex device, MempoolId_t id);
}  // namespace cuda::CUDACachingAllocator
}  // namespace c10
