// Calls on CUDA devices: streams, events and memory.
#include "cuda.h"

#include <memory>
#include <string>
#include <vector>

#include "cuda_driver.h"
#include "program.h"

// Only PyTorch with CUDA has these.
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

// Of one device, what a frame keeps from call to call.
struct CudaFrame {
  int32_t index = 0;
  std::vector<CUstream> streams;
  std::vector<CUevent> events;  // the program's
  std::vector<CUevent> joins;   // one for each stream
  CUevent forked = nullptr;
  CUevent ended = nullptr;  // the last call's end, where one was recorded
  CUstream last = nullptr;
  bool has_ended = false;
  void* workspace = nullptr;
  std::vector<void*> scratch;  // what side streams use until the call ends
};

void* allocate_on_device(uint64_t bytes, int line) {
  void* memory = nullptr;
  check(aoti_torch_cuda_caching_allocator_raw_alloc(bytes, &memory), line);
  return memory;
}

void deallocate_on_device(void* memory) {
  if (memory) aoti_torch_cuda_caching_allocator_raw_delete(memory);
}

namespace {

CUevent make_event(int line) {
  CUevent event = nullptr;
  check_cuda(
      cuda_driver(line).cuEventCreate(&event, event_without_time), line,
      "making an event");
  return event;
}

void record_event(CUevent event, CUstream stream, int line) {
  check_cuda(cuda_driver(line).cuEventRecord(event, stream), line, "recording an event");
}

void wait_for_event(CUstream stream, CUevent event, int line) {
  check_cuda(
      cuda_driver(line).cuStreamWaitEvent(stream, event, 0), line, "waiting for an event");
}

// Errors are of no use here: the process may be ending.
void destroy(const CudaFrame& frame) {
  const Driver& driver = cuda_driver(-1);
  if (frame.workspace && frame.has_ended) driver.cuEventSynchronize(frame.ended);
  for (CUstream stream : frame.streams) driver.cuStreamDestroy(stream);
  for (CUevent event : frame.events) driver.cuEventDestroy(event);
  for (CUevent event : frame.joins) driver.cuEventDestroy(event);
  if (frame.forked) driver.cuEventDestroy(frame.forked);
  if (frame.ended) driver.cuEventDestroy(frame.ended);
  for (void* memory : frame.scratch) deallocate_on_device(memory);
  deallocate_on_device(frame.workspace);
}

struct CudaFrames {
  ~CudaFrames() {
    for (const auto& frame : frames) destroy(*frame);
  }
  std::vector<std::unique_ptr<CudaFrame>> frames;  // one for each device
};

void make_frame(CudaFrame& frame, const CudaPlan& plan, CUstream current) {
  const Driver& driver = cuda_driver(-1);
  frame.index = plan.index;
  for (int32_t i = 0; i < plan.streams; ++i) {
    CUstream stream = nullptr;
    check_cuda(driver.cuStreamCreate(&stream, stream_non_blocking), -1, "making a stream");
    frame.streams.push_back(stream);
    frame.joins.push_back(make_event(-1));
  }
  for (int32_t i = 0; i < plan.events; ++i) frame.events.push_back(make_event(-1));
  if (plan.streams) frame.forked = make_event(-1);
  if (plan.streams || plan.workspace_bytes) frame.ended = make_event(-1);
  if (plan.workspace_bytes) {
    frame.workspace = allocate_on_device(plan.workspace_bytes, -1);
    check_cuda(
        driver.cuMemsetD8Async(
            reinterpret_cast<CUdeviceptr>(frame.workspace), 0, plan.workspace_bytes,
            current),
        -1, "zeroing a workspace");
  }
}

CudaFrame& find_frame(DeviceFrame& devices, const CudaPlan& plan, CUstream current) {
  if (!devices.state) {
    devices.state = new CudaFrames;
    devices.destroy = [](void* state) { delete static_cast<CudaFrames*>(state); };
  }
  auto& frames = static_cast<CudaFrames*>(devices.state)->frames;
  for (const auto& frame : frames)
    if (frame->index == plan.index) return *frame;
  frames.push_back(std::make_unique<CudaFrame>());
  make_frame(*frames.back(), plan, current);
  return *frames.back();
}

}  // namespace

CudaCall::CudaCall(DeviceFrame& devices, const CudaPlan& plan) : plan_(plan) {
  if (!aoti_torch_create_cuda_guard || !aoti_torch_cuda_caching_allocator_raw_alloc)
    fail(-1, "this PyTorch is built without CUDA, or is older than 2.10");
  if (plan.index >= cuda_devices) fail(-1, "CUDA device %d is one too many", plan.index);
  try {
    check(aoti_torch_create_cuda_guard(plan.index, &guard_), -1);
    ensure_context(plan.index, -1);
    check(aoti_torch_get_current_cuda_stream(plan.index, &current_), -1);
    frame_ = &find_frame(devices, plan, current_);
    // The last call with this frame may have been on another stream.
    if (frame_->has_ended && frame_->last != current_)
      wait_for_event(current_, frame_->ended, -1);
    if (plan.block_bytes)
      block_ = static_cast<char*>(allocate_on_device(plan.block_bytes, -1));
    fork(-1);
  } catch (...) {
    release();
    throw;
  }
}

CudaCall::~CudaCall() { release(); }

void CudaCall::release() {
  deallocate_on_device(block_);
  if (guard_) aoti_torch_delete_cuda_guard(guard_);
}

void CudaCall::join(int line) {
  for (size_t i = 0; i < frame_->streams.size(); ++i) {
    record_event(frame_->joins[i], frame_->streams[i], line);
    wait_for_event(current_, frame_->joins[i], line);
  }
}

void CudaCall::fork(int line) {
  if (frame_->streams.empty()) return;
  record_event(frame_->forked, current_, line);
  for (CUstream stream : frame_->streams) wait_for_event(stream, frame_->forked, line);
}

void CudaCall::synchronize(int line) {
  join(line);
  check_cuda(
      cuda_driver(line).cuStreamSynchronize(current_), line, "waiting for a stream");
}

void CudaCall::zero(char* address, int64_t bytes, int line) {
  if (bytes <= 0) return;
  join(line);
  check_cuda(
      cuda_driver(line).cuMemsetD8Async(
          reinterpret_cast<CUdeviceptr>(address), 0, bytes, current_),
      line, "zeroing a workspace");
  fork(line);
}

void CudaCall::record(int event, int stream, int line) {
  record_event(frame_->events[event], this->stream(stream), line);
}

void CudaCall::wait(const CudaCall& recorded, int event, int stream, int line) {
  wait_for_event(this->stream(stream), recorded.frame_->events[event], line);
}

void CudaCall::end(int line) {
  is_ended_ = true;
  join(line);
  if (frame_->ended) {
    record_event(frame_->ended, current_, line);
    frame_->last = current_;
    frame_->has_ended = true;
  }
  for (void* memory : frame_->scratch) deallocate_on_device(memory);
  frame_->scratch.clear();
}

char* CudaCall::workspace() const { return static_cast<char*>(frame_->workspace); }

void* CudaCall::side(int number) const { return frame_->streams[number - 1]; }

void* CudaCall::scratch(uint64_t bytes, int stream, int line) {
  void* memory = allocate_on_device(bytes, line);
  if (stream) frame_->scratch.push_back(memory);
  return memory;
}

void CudaCall::drop_scratch(void* memory, int stream) {
  if (!stream) deallocate_on_device(memory);
}

CudaEnd::~CudaEnd() {
  if (call_.is_ended()) return;
  const std::string why = error_message();
  try {
    call_.end(-1);
  } catch (const Failure&) {
    set_error_message(why.c_str());
  }
}

OnStream::OnStream(const CudaCall& call, int stream, int line) {
  check(
      aoti_torch_create_cuda_stream_guard(call.stream(stream), call.index(), &guard_), line);
}

OnStream::~OnStream() { aoti_torch_delete_cuda_stream_guard(guard_); }

}  // namespace wrapperir
