// Launches of Triton kernels through the CUDA driver. No header of CUDA's is needed.
#pragma once

#include "descriptors.h"
#include "device.h"

namespace wrapperir {

constexpr int cuda_devices = 32;

// A Triton kernel compiled for one target, and Triton's parameters of its launch.
struct TritonBinary {
  const char* file;      // beside the library
  const char* function;  // its name in that file
  int32_t capability;    // 90 is compute capability 9.0
  bool is_exact;         // runs on that capability alone, not on later ones of its major
  bool is_aligned;       // assumes that `checked` addresses are multiples of 16
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t cluster;        // programs that share a cluster
  uint64_t scratch_bytes;  // of global memory for each program
  bool is_cooperative;
  bool is_dependent;      // may begin before the launch before it ends
  const TensorMap* maps;  // one for each descriptor; null if descriptors are passed in parts
  int32_t flags;          // after the parts of a descriptor
};

struct LoadedKernel;

// A Triton kernel. It is loaded once for each device, when it is first launched there.
struct TritonKernel {
  const char* name;
  const TritonBinary* binaries;
  int32_t count;
  uint64_t checked;  // parameters, by bit, whose addresses select the binary
  uint64_t descriptors;  // parameters that are a Descriptor
  LoadedKernel* loaded[cuda_devices][2];
};

// Programs along x, y and z.
struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

// Return a tensor behind a descriptor, as an argument.
Descriptor describe(char* base, int64_t item_bytes, const Ints& sizes, const Ints& strides);

// The functions of CUDA devices; they need PyTorch with CUDA.
extern const DeviceFunctions cuda_functions;

// `parameters` are the addresses of the arguments, then of two pointers for scratch memory.
void launch_packed(
    int line, TritonKernel& kernel, DeviceCall& call, int stream, const Grid& grid,
    void** parameters, int count);

// Launch a kernel; the arguments have exactly the types that it is compiled for.
template <typename... Arguments>
WRAPPERIR_CALLED void launch(
    int line, TritonKernel& kernel, DeviceCall& call, int stream, const Grid& grid,
    Arguments... arguments) {
  void* scratch[2] = {nullptr, nullptr};
  void* parameters[] = {static_cast<void*>(&arguments)..., &scratch[0], &scratch[1]};
  launch_packed(line, kernel, call, stream, grid, parameters, sizeof...(arguments));
}

// A whole number as an argument of a narrower type.
template <typename T>
inline T narrow(int64_t value, int line) {
  if (static_cast<int64_t>(static_cast<T>(value)) != value) {
    fail(line, "%lld does not fit a kernel's argument", shown(value));
  }
  return static_cast<T>(value);
}

// The bits of a number as a 16-bit float, as Triton passes them: a half is rounded to the
// nearest, a bfloat16 is truncated.
uint16_t half_bits(double value);
uint16_t bfloat16_bits(double value);

}  // namespace wrapperir
