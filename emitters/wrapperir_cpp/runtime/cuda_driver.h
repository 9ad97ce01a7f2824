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

struct Driver {
  CUresult (*cuGetErrorName)(CUresult, const char**);
  CUresult (*cuGetErrorString)(CUresult, const char**);
  CUresult (*cuDeviceGet)(CUdevice*, int);
  CUresult (*cuDeviceGetAttribute)(int*, int, CUdevice);
  CUresult (*cuCtxGetCurrent)(CUcontext*);
  CUresult (*cuCtxSetCurrent)(CUcontext);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*cuModuleLoadData)(CUmodule*, const void*);
  CUresult (*cuModuleGetFunction)(CUfunction*, CUmodule, const char*);
  CUresult (*cuFuncSetAttribute)(CUfunction, int, int);
  CUresult (*cuLaunchKernel)(
      CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
      CUstream, void**, void**);
  CUresult (*cuMemsetD8Async)(CUdeviceptr, unsigned char, size_t, CUstream);
  CUresult (*cuMemcpyDtoDAsync_v2)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
  CUresult (*cuStreamCreate)(CUstream*, unsigned);
  CUresult (*cuStreamDestroy_v2)(CUstream);
  CUresult (*cuStreamIsCapturing)(CUstream, int*);
  CUresult (*cuStreamSynchronize)(CUstream);
  CUresult (*cuStreamWaitEvent)(CUstream, CUevent, unsigned);
  CUresult (*cuEventCreate)(CUevent*, unsigned);
  CUresult (*cuEventRecord)(CUevent, CUstream);
  CUresult (*cuEventSynchronize)(CUevent);
  CUresult (*cuEventDestroy_v2)(CUevent);
  CUresult (*cuEventElapsedTime)(float*, CUevent, CUevent);
  CUresult (*cuDriverGetVersion)(int*);
  // Null with older drivers.
  CUresult (*cuLaunchKernelEx)(const LaunchConfig*, CUfunction, void**, void**);
  CUresult (*cuTensorMapEncodeTiled)(
      void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
      const uint32_t*, int, int, int, int);
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
