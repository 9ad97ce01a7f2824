// Devices with streams: the memory, streams and events of a call. A kind of device is a table of
// functions; everything else is the same for all kinds.
#pragma once

#include "choices.h"

namespace wrapperir {

// The graphs of a kind of device. What is given to the current stream between begin() and end(), and
// to streams that wait for it, is recorded, and memory that is allocated meanwhile is the graph's.
// Operands of a replay are where they were.
struct GraphFunctions {
  bool (*exist)();
  void* (*begin)(int line);
  void (*end)(void* graph, int line);
  void (*replay)(void* graph, int line);  // on the current stream
  void (*drop)(void* graph);              // after its end
};

// The operations of a kind of device. Functions with a line throw Failure; others do not fail.
// Streams and events are pointers whose type the kind decides.
struct DeviceFunctions {
  // Make a device current in this thread, and restore the device before it.
  void* (*enter)(int32_t index, int line);
  void (*leave)(void* entered);
  // PyTorch's current stream of a device, which is the program's stream 0.
  void* (*current_stream)(int32_t index, int line);
  // Make a stream PyTorch's current one, and restore the stream before it.
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
  // The time between two timed events. If null, multi-kernels run their first kernel untimed.
  double (*microseconds)(void* begin, void* end, int line);
  bool (*is_captured)(void* stream, int line);  // into a graph, where nothing may be timed
  const GraphFunctions* graphs;  // null if CUDA's driver records them, or nothing does
};

// The streams, events and memory that a program's calls need on one device.
struct DevicePlan {
  int32_t index;
  int32_t streams;  // without stream 0
  int32_t events;
  int64_t block_bytes;      // memory that each call takes for some of its lines
  int64_t workspace_bytes;  // memory that is zeroed once and kept
};

struct DeviceState;

// One call's use of a device. It is ordered after earlier work and before later work of
// PyTorch's current stream, which is the program's stream 0.
class DeviceCall {
 public:
  // `frame` keeps streams, events and workspaces for the next call that has it.
  DeviceCall(const DeviceFunctions& functions, DeviceFrame& frame, const DevicePlan& plan);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  // Stream 0 waits for the other streams.
  void join(int line);
  // The other streams wait for a stream.
  void fork(int line, int from = 0);
  // Zero memory after all earlier and before all later work.
  void zero(char* address, int64_t bytes, int line);
  void record(int event, int stream, int line);
  // A stream waits for an event that was recorded on the same or another device.
  void wait(const DeviceCall& recorded, int event, int stream, int line);
  // The host waits for the call's streams.
  void synchronize(int line);
  // Join all streams, so that the call's memory may be freed.
  void end(int line);
  bool is_ended() const { return is_ended_; }

  const DeviceFunctions& functions() const { return functions_; }
  void* stream(int number) const { return streams_[number]; }
  int stream_count() const { return plan_.streams + 1; }
  int32_t index() const { return plan_.index; }
  // With several streams, a call has its block from its begin to its end. Else a line takes it,
  // and it is dropped at the end of the call if no line drops it.
  void take_block(int line);
  void drop_block();
  char* block() const { return block_; }
  int64_t block_bytes() const { return plan_.block_bytes; }
  // The streams that work is given to, by number, and the address of the call's block.
  struct Target {
    void* const* streams;
    char* block;
  };
  // Set another target, whose streams are not joined and forked, and return the one before.
  Target redirect(const Target& target);
  char* workspace() const;
  // Memory of the device for a launch, until the launch is done.
  void* scratch(uint64_t bytes, int stream, int line);
  void drop_scratch(void* memory, int stream);

 private:
  void release();

  const DeviceFunctions& functions_;
  const DevicePlan& plan_;
  DeviceState* state_ = nullptr;
  void* const* streams_ = nullptr;
  void* entered_ = nullptr;
  char* block_ = nullptr;
  bool is_ended_ = false;
};

// Ends a call before the tensors that are declared before this object are deleted.
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

// Like time_choices() on the CPU. The choice stays open while the stream is captured.
int32_t time_choices(
    Fastest& of, const Argument* given, int32_t count, const Launch& launch,
    DeviceCall& call, int stream);
template <int N, typename F>
inline int32_t time_choices(
    Fastest& of, const Argument (&given)[N], F& run_choice, DeviceCall& call, int stream) {
  return time_choices(of, given, N, as_launch(run_choice), call, stream);
}

}  // namespace wrapperir
