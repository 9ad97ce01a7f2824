// The used part of the CUDA driver's interface. It is found at its first use, since programs are
// compiled on machines without CUDA.
#pragma once

#include <dlfcn.h>
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

// The nodes of graphs: launches, copies and fills.
struct KernelNode {
  void* function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;  // if there is no function
  void* context;
};
struct CopySide {
  size_t x, y, z, level;
  int memory;
  void* host;
  uint64_t device;
  void* array;
  void* reserved;
  size_t pitch, height;
};
struct CopyNode {
  CopySide source, target;
  size_t width, height, depth;
};
struct FillNode {
  uint64_t target;
  size_t pitch;
  unsigned value, item_bytes;
  size_t width, height;
};
static_assert(sizeof(KernelNode) == 72, "as CUDA_KERNEL_NODE_PARAMS");
static_assert(sizeof(CopyNode) == 200, "as CUDA_MEMCPY3D");
static_assert(sizeof(FillNode) == 40, "as CUDA_MEMSET_NODE_PARAMS");

// The functions that every driver has, those that older drivers lack, and those of graphs, which
// are all there from CUDA 12.4 on.
#define WRAPPERIR_DRIVER(F) \
  F(cuGetErrorName, CUresult, const char**) \
  F(cuGetErrorString, CUresult, const char**) \
  F(cuDeviceGet, CUdevice*, int) \
  F(cuDeviceGetAttribute, int*, int, CUdevice) \
  F(cuCtxGetCurrent, CUcontext*) \
  F(cuCtxGetDevice, CUdevice*) \
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

#define WRAPPERIR_GRAPH_DRIVER(F) \
  F(cuGraphGetNodes, void*, void**, size_t*) \
  F(cuGraphNodeGetType, void*, int*) \
  F(cuGraphKernelNodeGetParams_v2, void*, KernelNode*) \
  F(cuGraphMemcpyNodeGetParams, void*, CopyNode*) \
  F(cuGraphMemsetNodeGetParams, void*, FillNode*) \
  F(cuGraphKernelNodeSetParams_v2, void*, const KernelNode*) \
  F(cuGraphMemcpyNodeSetParams, void*, const CopyNode*) \
  F(cuGraphMemsetNodeSetParams, void*, const FillNode*) \
  F(cuFuncGetParamInfo, CUfunction, size_t, size_t*, size_t*) \
  F(cuKernelGetParamInfo, void*, size_t, size_t*, size_t*) \
  F(cuGraphNodeGetDependencies, void*, void**, size_t*) \
  F(cuGraphAddDependencies, void*, void* const*, void* const*, size_t) \
  F(cuGraphRemoveDependencies, void*, void* const*, void* const*, size_t) \
  F(cuGraphInstantiateWithFlags, void**, void*, unsigned long long) \
  F(cuGraphExecKernelNodeSetParams_v2, void*, void*, const KernelNode*) \
  F(cuGraphExecMemcpyNodeSetParams, void*, void*, const CopyNode*, CUcontext) \
  F(cuGraphExecMemsetNodeSetParams, void*, void*, const FillNode*, CUcontext) \
  F(cuGraphLaunch, void*, CUstream) \
  F(cuGraphExecDestroy, void*) \
  F(cuGraphDestroy, void*) \
  F(cuStreamBeginCapture_v2, CUstream, int) \
  F(cuStreamEndCapture, CUstream, void**)

struct Driver {
#define WRAPPERIR_MEMBER(name, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
  WRAPPERIR_DRIVER(WRAPPERIR_MEMBER)
  WRAPPERIR_NEW_DRIVER(WRAPPERIR_MEMBER)
  WRAPPERIR_GRAPH_DRIVER(WRAPPERIR_MEMBER)
#undef WRAPPERIR_MEMBER
};

// Find the functions that there are, and return the name of one that every driver has, or the
// driver itself, if it is missing; null if all are found.
inline const char* find_driver(Driver& driver) {
  constexpr const char* file = "libcuda.so.1";
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) return file;
  const char* missing = nullptr;
#define WRAPPERIR_FIND(name, ...) \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #name));
#define WRAPPERIR_NEED(name, ...) \
  WRAPPERIR_FIND(name) \
  if (!driver.name) missing = #name;
  WRAPPERIR_DRIVER(WRAPPERIR_NEED)
  WRAPPERIR_NEW_DRIVER(WRAPPERIR_FIND)
  WRAPPERIR_GRAPH_DRIVER(WRAPPERIR_FIND)
#undef WRAPPERIR_NEED
#undef WRAPPERIR_FIND
  return missing;
}

// Whether the driver has all functions of graphs.
inline bool has_graphs(const Driver& driver) {
  bool all = true;
#define WRAPPERIR_CHECK(name, ...) all = all && driver.name;
  WRAPPERIR_GRAPH_DRIVER(WRAPPERIR_CHECK)
#undef WRAPPERIR_CHECK
  return all;
}

// Make the context of a device current in a thread that has none; returns an error of the driver.
inline CUresult ensure_context(const Driver& driver, int index) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  CUresult error = driver.cuCtxGetCurrent(&context);
  if (error || context) return error;
  error = driver.cuDeviceGet(&device, index);
  if (!error) error = driver.cuDevicePrimaryCtxRetain(&context, device);
  return error ? error : driver.cuCtxSetCurrent(context);
}

}  // namespace wrapperir
