// Times the choices of multi-kernels on a CUDA device.
#include <vector>

#include "cuda.h"
#include "cuda_driver.h"
#include "trial.h"

namespace wrapperir {
namespace {

constexpr unsigned timed_event = 0;

// Between two events, after the second level of cache was filled with something else: while
// that lasts, the launch is given to the device, so that it does not wait for it.
class OnCuda : public TrialDevice {
 public:
  OnCuda(CudaCall& call, CUstream stream)
      : call_(call), stream_(stream), driver_(cuda_driver(-1)) {
    try {
      pad_ = allocate(pad_bytes);
      check_cuda(driver_.cuEventCreate(&begin_, timed_event), -1, "making an event");
      check_cuda(driver_.cuEventCreate(&end_, timed_event), -1, "making an event");
      call_.synchronize(-1);
    } catch (...) {
      release();
      throw;
    }
  }
  ~OnCuda() override { release(); }

  char* allocate_like(const char* address, int64_t bytes) override {
    char* const memory = allocate(bytes + alike_modulo - 1);
    const auto from = reinterpret_cast<uintptr_t>(memory);
    return memory + (reinterpret_cast<uintptr_t>(address) - from) % alike_modulo;
  }

  void copy(char* to, const char* from, int64_t bytes) override {
    check_cuda(
        driver_.cuMemcpyDtoDAsync(
            reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
            stream_),
        -1, "copying an argument");
  }

  void prepare(const Launch& launch, int32_t choice, char* const* addresses) override {
    launch.run(launch.state, choice, addresses);
    synchronize();
  }

  double time(
      const Launch& launch, int32_t choice, char* const* addresses, int repeats) override {
    const auto pad = reinterpret_cast<CUdeviceptr>(pad_);
    check_cuda(
        driver_.cuMemsetD8Async(pad, 0, pad_bytes, stream_), -1, "emptying the cache");
    check_cuda(driver_.cuEventRecord(begin_, stream_), -1, "recording an event");
    for (int i = 0; i < repeats; ++i) launch.run(launch.state, choice, addresses);
    check_cuda(driver_.cuEventRecord(end_, stream_), -1, "recording an event");
    synchronize();
    float milliseconds = 0;
    check_cuda(
        driver_.cuEventElapsedTime(&milliseconds, begin_, end_), -1, "timing a kernel");
    return double{milliseconds} * 1000 / repeats;
  }

  int most_repeats() const override { return 1; }

 private:
  static constexpr uint64_t pad_bytes = 64 << 20;

  char* allocate(uint64_t bytes) {
    allocated_.push_back(nullptr);
    allocated_.back() = allocate_on_device(bytes, -1);
    return static_cast<char*>(allocated_.back());
  }

  void synchronize() {
    check_cuda(driver_.cuStreamSynchronize(stream_), -1, "waiting for a kernel");
  }

  // The allocator may give the memory to any later work of its current stream.
  void release() {
    driver_.cuStreamSynchronize(stream_);
    for (void* memory : allocated_) deallocate_on_device(memory);
    if (begin_) driver_.cuEventDestroy(begin_);
    if (end_) driver_.cuEventDestroy(end_);
  }

  CudaCall& call_;
  const CUstream stream_;
  const Driver& driver_;
  char* pad_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
  std::vector<void*> allocated_;
};

bool is_captured(CUstream stream) {
  int status = 0;
  check_cuda(
      cuda_driver(-1).cuStreamIsCapturing(stream, &status), -1, "asking for a capture");
  return status;
}

}  // namespace

int32_t time_choices(
    Fastest& of, const Argument* given, int32_t count, const Launch& launch, CudaCall& call,
    int stream) {
  if (__atomic_load_n(&of.choice, __ATOMIC_RELAXED) != choice_is_open) return 0;
  if (is_any_empty(given, count) || is_captured(call.stream(stream))) return 0;
  try {
    OnCuda device(call, call.stream(stream));
    return time_choices_on(device, of, given, count, launch);
  } catch (const Failure&) {
    // There is no memory to spare, or what ran before has failed: it is not tried again.
    int32_t open = choice_is_open;
    __atomic_compare_exchange_n(
        &of.choice, &open, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return 0;
  }
}

}  // namespace wrapperir
