// CUDA as a table of functions: PyTorch's allocator and current streams, and the CUDA driver.
#include "cuda.h"

#include "cuda_driver.h"

// Defined by PyTorch with CUDA.
extern "C" {
__attribute__((weak)) AOTITorchError aoti_torch_create_cuda_guard(int32_t, void**);
__attribute__((weak)) AOTITorchError aoti_torch_delete_cuda_guard(void*);
__attribute__((weak)) AOTITorchError aoti_torch_create_cuda_stream_guard(
    void*, int32_t, void**);
__attribute__((weak)) AOTITorchError aoti_torch_delete_cuda_stream_guard(void*);
__attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void**);
__attribute__((weak)) AOTITorchError aoti_torch_cuda_caching_allocator_raw_alloc(
    uint64_t, void**);
__attribute__((weak)) AOTITorchError aoti_torch_cuda_caching_allocator_raw_delete(void*);
}

namespace wrapperir {

const Driver& cuda_driver(int line) {
  static const Driver driver = [&] {
    Driver found;
    const char* missing = find_driver(found);
    if (missing) fail(line, "the CUDA driver has no %s", missing);
    return found;
  }();
  return driver;
}

void fail_in_cuda(CUresult error, int line, const char* what) {
  const Driver& driver = cuda_driver(line);
  const char* name = nullptr;
  const char* text = nullptr;
  driver.cuGetErrorName(error, &name);
  driver.cuGetErrorString(error, &text);
  fail(
      line, "%s failed: %s (%s, %d)", what, text ? text : "the driver does not say why",
      name ? name : "an unknown error", error);
}

void ensure_context(int32_t index, int line) {
  check_cuda(ensure_context(cuda_driver(line), index), line, "making a context current");
}

namespace {

void* enter(int32_t index, int line) {
  if (!aoti_torch_create_cuda_guard || !aoti_torch_cuda_caching_allocator_raw_alloc)
    fail(line, "this PyTorch is built without CUDA, or is older than 2.10");
  if (index >= cuda_devices) fail(line, "CUDA devices with index %d are not supported", index);
  void* guard = nullptr;
  check(aoti_torch_create_cuda_guard(index, &guard), line);
  try {
    ensure_context(index, line);
  } catch (const Failure&) {
    aoti_torch_delete_cuda_guard(guard);
    throw;
  }
  return guard;
}

void* current_stream(int32_t index, int line) {
  void* stream = nullptr;
  check(aoti_torch_get_current_cuda_stream(index, &stream), line);
  return stream;
}

void* enter_stream(void* stream, int32_t index, int line) {
  void* guard = nullptr;
  check(aoti_torch_create_cuda_stream_guard(stream, index, &guard), line);
  return guard;
}

void* allocate(uint64_t bytes, int line) {
  void* memory = nullptr;
  check(aoti_torch_cuda_caching_allocator_raw_alloc(bytes, &memory), line);
  return memory;
}

void deallocate(void* memory) {
  if (memory) aoti_torch_cuda_caching_allocator_raw_delete(memory);
}

CUdeviceptr device_pointer(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

#define CALL(what, function, ...) \
  check_cuda(cuda_driver(line).function(__VA_ARGS__), line, what)

void zero(void* memory, uint64_t bytes, void* stream, int line) {
  CALL("zeroing memory", cuMemsetD8Async, device_pointer(memory), 0, bytes, stream);
}

void copy(void* to, const void* from, uint64_t bytes, void* stream, int line) {
  const CUdeviceptr begin = device_pointer(from);
  CALL("copying memory", cuMemcpyDtoDAsync_v2, device_pointer(to), begin, bytes, stream);
}

void* make_stream(int line) {
  CUstream stream = nullptr;
  CALL("making a stream", cuStreamCreate, &stream, stream_non_blocking);
  return stream;
}

void synchronize(void* stream, int line) {
  CALL("waiting for a stream", cuStreamSynchronize, stream);
}

void* make_event(bool is_timed, int line) {
  CUevent event = nullptr;
  CALL("making an event", cuEventCreate, &event, is_timed ? 0 : event_without_time);
  return event;
}

void record(void* event, void* stream, int line) {
  CALL("recording an event", cuEventRecord, event, stream);
}

void wait(void* stream, void* event, int line) {
  CALL("waiting for an event", cuStreamWaitEvent, stream, event, 0);
}

double microseconds(void* begin, void* end, int line) {
  float milliseconds = 0;
  CALL("timing a kernel", cuEventElapsedTime, &milliseconds, begin, end);
  return double{milliseconds} * 1000;
}

bool is_captured(void* stream, int line) {
  int status = 0;
  CALL("asking for a capture", cuStreamIsCapturing, stream, &status);
  return status;
}

}  // namespace

const DeviceFunctions cuda_functions = {
    enter,
    [](void* guard) { aoti_torch_delete_cuda_guard(guard); },
    current_stream,
    enter_stream,
    [](void* guard) { aoti_torch_delete_cuda_stream_guard(guard); },
    allocate,
    deallocate,
    zero,
    copy,
    make_stream,
    [](void* stream) { cuda_driver(-1).cuStreamDestroy_v2(stream); },
    synchronize,
    make_event,
    [](void* event) { cuda_driver(-1).cuEventDestroy_v2(event); },
    record,
    wait,
    [](void* event) { cuda_driver(-1).cuEventSynchronize(event); },
    microseconds,
    is_captured,
};

}  // namespace wrapperir
