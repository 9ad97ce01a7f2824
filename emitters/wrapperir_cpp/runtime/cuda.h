// What programs on CUDA devices are written with: memory, streams and events of a call, and
// launches of Triton kernels through the CUDA driver. No header of CUDA's is needed.
#pragma once

#include "choices.h"

namespace wrapperir {

constexpr int cuda_devices = 32;

constexpr int most_dimensions = 5;

// How a tensor behind a descriptor is cut into blocks, as Triton says.
struct TensorMap {
  int32_t swizzle;
  int32_t item_bytes;
  int32_t type;
  uint32_t block[most_dimensions];
};

// A Triton kernel compiled for one target, and how Triton says that it is launched.
struct TritonBinary {
  const char* file;      // beside the library
  const char* function;  // its name in that file
  int32_t capability;    // 90 is compute capability 9.0
  bool is_exact;         // runs on that capability alone, not on later ones of its major
  bool is_aligned;       // takes the `checked` addresses as multiples of 16
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t cluster;        // programs that share a cluster
  uint64_t scratch_bytes;  // of global memory for each program
  bool is_cooperative;
  bool is_dependent;      // may begin before the launch before it ends
  const TensorMap* maps;  // one for each descriptor; without, it takes their parts
  int32_t flags;          // after the parts of a descriptor
};

struct LoadedKernel;

// A Triton kernel. It is loaded once for each device, when it is first launched there.
struct TritonKernel {
  const char* name;
  const TritonBinary* binaries;
  int32_t count;
  uint64_t checked;  // parameters, by bit, whose addresses say which binary is launched
  uint64_t descriptors;  // parameters that are a Descriptor
  LoadedKernel* loaded[cuda_devices][2];
};

// Programs along x, y and z.
struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

// What a program's calls need of one device.
struct CudaPlan {
  int32_t index;
  int32_t streams;          // beside stream 0
  int32_t events;
  int64_t block_bytes;      // of memory that each call has
  int64_t workspace_bytes;  // of memory that is zeroed once and kept
};

// A tensor behind a descriptor, as an argument.
struct Descriptor {
  char* base;
  int64_t item_bytes;
  int64_t rank;
  int64_t sizes[most_dimensions];
  int64_t strides[most_dimensions];
};
Descriptor describe(
    char* base, int64_t item_bytes, const Ints& sizes, const Ints& strides);

struct CudaFrame;

// One call's view of a device. It begins after the work of PyTorch's current stream, which
// is the program's stream 0, and what that stream is given next comes after all of it.
class CudaCall {
 public:
  // `frame` keeps streams, events and workspaces for the next call that has it.
  CudaCall(DeviceFrame& frame, const CudaPlan& plan);
  ~CudaCall();
  CudaCall(const CudaCall&) = delete;
  CudaCall& operator=(const CudaCall&) = delete;

  // Have stream 0 wait for the others.
  void join(int line);
  // Have the others wait for stream 0.
  void fork(int line);
  // Zero memory after all that was given before, and before all that comes after.
  void zero(char* address, int64_t bytes, int line);
  void record(int event, int stream, int line);
  // Have a stream wait for an event that was recorded on the same or another device.
  void wait(const CudaCall& recorded, int event, int stream, int line);
  // Wait on the host for all that was given to the call's streams.
  void synchronize(int line);
  // Join: what the call holds may be freed after.
  void end(int line);
  bool is_ended() const { return is_ended_; }

  void* stream(int number) const { return number ? side(number) : current_; }
  int32_t index() const { return plan_.index; }
  char* block() const { return block_; }
  char* workspace() const;
  // Global memory for a launch, until the launch is done.
  void* scratch(uint64_t bytes, int stream, int line);
  void drop_scratch(void* memory, int stream);

 private:
  void* side(int number) const;
  void release();

  const CudaPlan& plan_;
  CudaFrame* frame_ = nullptr;
  void* current_ = nullptr;
  void* guard_ = nullptr;
  char* block_ = nullptr;
  bool is_ended_ = false;
};

// Ends a call before the tensors that were declared before this one are deleted.
class CudaEnd {
 public:
  explicit CudaEnd(CudaCall& call) : call_(call) {}
  ~CudaEnd();

 private:
  CudaCall& call_;
};

// Makes a device, and a stream of it, PyTorch's current ones.
class OnStream {
 public:
  OnStream(const CudaCall& call, int stream, int line);
  ~OnStream();
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  void* guard_ = nullptr;
};

// Memory of PyTorch's current device, for work on its current stream.
void* allocate_on_device(uint64_t bytes, int line);
void deallocate_on_device(void* memory);

// Likewise on a stream of a device. While the stream is captured, the choice stays open.
int32_t time_choices(
    Fastest& of, const Argument* given, int32_t count, const Launch& launch, CudaCall& call,
    int stream);
template <int N, typename F>
inline int32_t time_choices(
    Fastest& of, const Argument (&given)[N], F& run_choice, CudaCall& call, int stream) {
  return time_choices(of, given, N, as_launch(run_choice), call, stream);
}

// `parameters` are the addresses of the arguments, then of two pointers for scratch memory.
void launch_packed(
    int line, TritonKernel& kernel, CudaCall& call, int stream, const Grid& grid,
    void** parameters, int count);

// Launch a kernel; the arguments are of the very types that it is compiled for.
template <typename... Arguments>
inline void launch(
    int line, TritonKernel& kernel, CudaCall& call, int stream, const Grid& grid,
    Arguments... arguments) {
  void* scratch[2] = {nullptr, nullptr};
  void* parameters[] = {static_cast<void*>(&arguments)..., &scratch[0], &scratch[1]};
  launch_packed(line, kernel, call, stream, grid, parameters, sizeof...(arguments));
}

// A whole number as an argument of a narrower type.
template <typename T>
inline T narrow(int64_t value, int line) {
  if (static_cast<int64_t>(static_cast<T>(value)) != value) {
    fail(line, "%lld does not fit a kernel's argument", static_cast<long long>(value));
  }
  return static_cast<T>(value);
}

// The bits of a number as a float of 16 bits, as Triton passes them: a half is rounded to
// the nearest, of a bfloat16 the bits that do not fit are dropped.
uint16_t half_bits(double value);
uint16_t bfloat16_bits(double value);

}  // namespace wrapperir
