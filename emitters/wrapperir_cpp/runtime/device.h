// Devices with streams: the memory, streams and events of a call. A kind of device is a table
// of functions; all else here is the same for every kind.
#pragma once

#include "choices.h"

namespace wrapperir {

// The operations of a kind of device. Those that are given a line throw Failure; the others
// do not fail. Streams and events are pointers of the kind's own.
struct DeviceFunctions {
  // Make a device current in this thread, and stop that: what was current then is again.
  void* (*enter)(int32_t index, int line);
  void (*leave)(void* entered);
  // PyTorch's current stream of a device; it is the program's stream 0.
  void* (*current_stream)(int32_t index, int line);
  // Have PyTorch's operators use a stream, and stop that.
  void* (*enter_stream)(void* stream, int32_t index, int line);
  void (*leave_stream)(void* entered);
  // Memory of the current device, for work on its current stream.
  void* (*allocate)(uint64_t bytes, int line);
  void (*deallocate)(void* memory);  // null is allowed
  void (*zero)(void* memory, uint64_t bytes, void* stream, int line);
  void (*copy)(void* to, const void* from, uint64_t bytes, void* stream, int line);
  void* (*make_stream)(int line);
  void (*delete_stream)(void* stream);
  void (*synchronize)(void* stream, int line);  // the host waits
  void* (*make_event)(bool is_timed, int line);
  void (*delete_event)(void* event);
  void (*record)(void* event, void* stream, int line);
  void (*wait)(void* stream, void* event, int line);
  void (*wait_on_host)(void* event);
  // Between two timed events. Null: kernels of multi-kernels are not timed, the first runs.
  double (*microseconds)(void* begin, void* end, int line);
  bool (*is_captured)(void* stream, int line);  // into a graph: nothing may be timed
};

// What a program's calls need of one device.
struct DevicePlan {
  int32_t index;
  int32_t streams;  // beside stream 0
  int32_t events;
  int64_t block_bytes;      // of memory that each call has
  int64_t workspace_bytes;  // of memory that is zeroed once and kept
};

struct DeviceState;

// One call's use of a device. It begins after the work of PyTorch's current stream, which is
// the program's stream 0, and what that stream is given next comes after all of it.
class DeviceCall {
 public:
  // `frame` keeps streams, events and workspaces for the next call that has it.
  DeviceCall(const DeviceFunctions& functions, DeviceFrame& frame, const DevicePlan& plan);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  // Have stream 0 wait for the others.
  void join(int line);
  // Have the others wait for stream 0.
  void fork(int line);
  // Zero memory after all that was given before, and before all that comes after.
  void zero(char* address, int64_t bytes, int line);
  void record(int event, int stream, int line);
  // Have a stream wait for an event that was recorded on the same or another device.
  void wait(const DeviceCall& recorded, int event, int stream, int line);
  // Wait on the host for all that was given to the call's streams.
  void synchronize(int line);
  // Join: what the call holds may be freed after.
  void end(int line);
  bool is_ended() const { return is_ended_; }

  const DeviceFunctions& functions() const { return functions_; }
  void* stream(int number) const { return number ? side(number) : current_; }
  int32_t index() const { return plan_.index; }
  char* block() const { return block_; }
  char* workspace() const;
  // Memory of the device for a launch, until the launch is done.
  void* scratch(uint64_t bytes, int stream, int line);
  void drop_scratch(void* memory, int stream);

 private:
  void* side(int number) const;
  void release();

  const DeviceFunctions& functions_;
  const DevicePlan& plan_;
  DeviceState* state_ = nullptr;
  void* current_ = nullptr;
  void* entered_ = nullptr;
  char* block_ = nullptr;
  bool is_ended_ = false;
};

// Ends a call before the tensors that were declared before this one are deleted.
class DeviceEnd {
 public:
  explicit DeviceEnd(DeviceCall& call) : call_(call) {}
  ~DeviceEnd();

 private:
  DeviceCall& call_;
};

// Makes a device, and a stream of it, PyTorch's current ones.
class OnStream {
 public:
  OnStream(const DeviceCall& call, int stream, int line)
      : functions_(call.functions()),
        entered_(functions_.enter_stream(call.stream(stream), call.index(), line)) {}
  ~OnStream() { functions_.leave_stream(entered_); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  const DeviceFunctions& functions_;
  void* entered_;
};

// As on the CPU, on a stream of a device. While the stream is captured, the choice stays open.
int32_t time_choices(
    Fastest& of, const Argument* given, int32_t count, const Launch& launch,
    DeviceCall& call, int stream);
template <int N, typename F>
inline int32_t time_choices(
    Fastest& of, const Argument (&given)[N], F& run_choice, DeviceCall& call, int stream) {
  return time_choices(of, given, N, as_launch(run_choice), call, stream);
}

}  // namespace wrapperir
