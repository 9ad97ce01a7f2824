// The used part of the CUDA driver's interface. It is found at its first use, since programs are
// compiled on machines without CUDA.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace wrapperir {

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef void* CUcontext;
typedef void* CUmodule;
typedef void* CUfunction;
typedef void* CUstream;
typedef void* CUevent;

constexpr CUresult cuda_deinitialized = 4;
constexpr int capability_major = 75;
constexpr int capability_minor = 76;
constexpr int most_shared_bytes = 97;
constexpr int function_dynamic_shared_bytes = 8;
constexpr int function_any_cluster = 14;
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_without_time = 2;

struct LaunchAttribute {
  enum Id : int { cooperative = 2, cluster = 4, cluster_policy = 5, dependent = 6 } id;
  char padding[4];
  union {
    char all[64];
    int value;
    unsigned extents[3];
  };
};
static_assert(sizeof(LaunchAttribute) == 72, "as CUlaunchAttribute");

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  CUstream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56, "as CUlaunchConfig");

// The functions that every driver has, and those that older drivers lack, which are then null.
#define WRAPPERIR_DRIVER(F) \
  F(cuGetErrorName, CUresult, const char**) \
  F(cuGetErrorString, CUresult, const char**) \
  F(cuDeviceGet, CUdevice*, int) \
  F(cuDeviceGetAttribute, int*, int, CUdevice) \
  F(cuCtxGetCurrent, CUcontext*) \
  F(cuCtxSetCurrent, CUcontext) \
  F(cuDevicePrimaryCtxRetain, CUcontext*, CUdevice) \
  F(cuModuleLoadData, CUmodule*, const void*) \
  F(cuModuleGetFunction, CUfunction*, CUmodule, const char*) \
  F(cuFuncSetAttribute, CUfunction, int, int) \
  F(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned, CUstream, void**, void**) \
  F(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream) \
  F(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream) \
  F(cuStreamCreate, CUstream*, unsigned) \
  F(cuStreamDestroy_v2, CUstream) \
  F(cuStreamIsCapturing, CUstream, int*) \
  F(cuStreamSynchronize, CUstream) \
  F(cuStreamWaitEvent, CUstream, CUevent, unsigned) \
  F(cuEventCreate, CUevent*, unsigned) \
  F(cuEventRecord, CUevent, CUstream) \
  F(cuEventSynchronize, CUevent) \
  F(cuEventDestroy_v2, CUevent) \
  F(cuEventElapsedTime, float*, CUevent, CUevent) \
  F(cuDriverGetVersion, int*)
#define WRAPPERIR_NEW_DRIVER(F) \
  F(cuLaunchKernelEx, const LaunchConfig*, CUfunction, void**, void**) \
  F(cuTensorMapEncodeTiled, void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, \
    const uint32_t*, const uint32_t*, int, int, int, int)

struct Driver {
#define WRAPPERIR_MEMBER(name, ...) CUresult (*name)(__VA_ARGS__);
  WRAPPERIR_DRIVER(WRAPPERIR_MEMBER)
  WRAPPERIR_NEW_DRIVER(WRAPPERIR_MEMBER)
};

// The driver; throws Failure if there is none.
const Driver& cuda_driver(int line);
// Throw Failure with the driver's message for an error.
[[noreturn]] void fail_in_cuda(CUresult error, int line, const char* what);

inline void check_cuda(CUresult error, int line, const char* what) {
  if (__builtin_expect(error != 0, 0)) fail_in_cuda(error, line, what);
}

// Make a device's context current in this thread, unless it has one.
void ensure_context(int32_t index, int line);

}  // namespace wrapperir
