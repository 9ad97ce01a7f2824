// Calls on devices: streams, events, memory, and timing of the choices of multi-kernels.
#include "device.h"

#include <memory>
#include <string>
#include <vector>

#include "program.h"

namespace wrapperir {

// The state of one device that a frame keeps from call to call.
struct DeviceState {
  const DeviceFunctions& functions;
  const int32_t index;
  std::vector<void*> streams;  // by number; the first is the call's stream 0, not ours
  std::vector<void*> events;   // the program's
  std::vector<void*> joins;    // one for each side stream
  void* forked = nullptr;
  void* ended = nullptr;  // the event at the end of the last call
  void* last = nullptr;   // the stream of that call
  bool has_ended = false;
  void* workspace = nullptr;
  std::vector<void*> scratch;  // memory of side streams, until the call ends

  DeviceState(const DeviceFunctions& of, int32_t device) : functions(of), index(device) {}
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // Errors are ignored: the process may be ending.
  ~DeviceState() {
    if (workspace && has_ended) functions.wait_on_host(ended);
    for (size_t i = 1; i < streams.size(); ++i) functions.delete_stream(streams[i]);
    for (void* event : events) functions.delete_event(event);
    for (void* event : joins) functions.delete_event(event);
    if (forked) functions.delete_event(forked);
    if (ended) functions.delete_event(ended);
    for (void* memory : scratch) functions.deallocate(memory);
    functions.deallocate(workspace);
  }

  void make(const DevicePlan& plan, void* current) {
    streams.push_back(current);
    for (int32_t i = 0; i < plan.streams; ++i) {
      streams.push_back(functions.make_stream(-1));
      joins.push_back(functions.make_event(false, -1));
    }
    for (int32_t i = 0; i < plan.events; ++i)
      events.push_back(functions.make_event(false, -1));
    if (plan.streams) forked = functions.make_event(false, -1);
    if (plan.streams || plan.workspace_bytes) ended = functions.make_event(false, -1);
    if (plan.workspace_bytes) {
      workspace = functions.allocate(plan.workspace_bytes, -1);
      functions.zero(workspace, plan.workspace_bytes, current, -1);
    }
  }
};

namespace {

using States = std::vector<std::unique_ptr<DeviceState>>;

DeviceState& find_state(
    const DeviceFunctions& functions, DeviceFrame& frame, const DevicePlan& plan,
    void* current) {
  if (!frame.state) {
    frame.state = new States;
    frame.destroy = [](void* state) { delete static_cast<States*>(state); };
  }
  States& states = *static_cast<States*>(frame.state);
  for (const auto& state : states)
    if (&state->functions == &functions && state->index == plan.index) return *state;
  states.push_back(std::make_unique<DeviceState>(functions, plan.index));
  states.back()->make(plan, current);
  return *states.back();
}

// Times launches between two events, after the second-level cache was overwritten. The host
// submits the launches during that, so that the device does not wait for them.
class OnDevice : public TrialDevice {
 public:
  OnDevice(DeviceCall& call, int stream)
      : functions_(call.functions()), stream_(call.stream(stream)) {
    try {
      pad_ = allocate(pad_bytes);
      begin_ = functions_.make_event(true, -1);
      end_ = functions_.make_event(true, -1);
      call.synchronize(-1);
    } catch (...) {
      release();
      throw;
    }
  }
  ~OnDevice() override { release(); }

  char* allocate_like(const char* address, int64_t bytes) override {
    char* const memory = allocate(bytes + alike_modulo - 1);
    const auto from = reinterpret_cast<uintptr_t>(memory);
    return memory + (reinterpret_cast<uintptr_t>(address) - from) % alike_modulo;
  }

  void copy(char* to, const char* from, int64_t bytes) override {
    functions_.copy(to, from, bytes, stream_, -1);
  }

  void prepare(const Launch& launch, int32_t choice, char* const* addresses) override {
    launch.run(launch.state, choice, addresses);
    functions_.synchronize(stream_, -1);
  }

  double time(
      const Launch& launch, int32_t choice, char* const* addresses, int repeats) override {
    functions_.zero(pad_, pad_bytes, stream_, -1);
    functions_.record(begin_, stream_, -1);
    for (int i = 0; i < repeats; ++i) launch.run(launch.state, choice, addresses);
    functions_.record(end_, stream_, -1);
    functions_.synchronize(stream_, -1);
    return functions_.microseconds(begin_, end_, -1) / repeats;
  }

  int most_repeats() const override { return 1; }

 private:
  static constexpr uint64_t pad_bytes = 64 << 20;

  char* allocate(uint64_t bytes) {
    allocated_.push_back(nullptr);
    allocated_.back() = functions_.allocate(bytes, -1);
    return static_cast<char*>(allocated_.back());
  }

  // The allocator may give the memory to later work of its current stream.
  void release() {
    try {
      functions_.synchronize(stream_, -1);
    } catch (const Failure&) {
    }
    for (void* memory : allocated_) functions_.deallocate(memory);
    if (begin_) functions_.delete_event(begin_);
    if (end_) functions_.delete_event(end_);
  }

  const DeviceFunctions& functions_;
  void* const stream_;
  char* pad_ = nullptr;
  void *begin_ = nullptr, *end_ = nullptr;
  std::vector<void*> allocated_;
};

}  // namespace

DeviceCall::DeviceCall(
    const DeviceFunctions& functions, DeviceFrame& frame, const DevicePlan& plan)
    : functions_(functions), plan_(plan), entered_(functions.enter(plan.index, -1)) {
  try {
    void* const current = functions_.current_stream(plan.index, -1);
    state_ = &find_state(functions, frame, plan, current);
    state_->streams.front() = current;
    streams_ = state_->streams.data();
    // The last call with this frame may have been on another stream.
    if (state_->has_ended && state_->last != current)
      functions_.wait(current, state_->ended, -1);
    if (plan.block_bytes && plan.streams) take_block(-1);
    fork(-1);
  } catch (...) {
    release();
    throw;
  }
}

DeviceCall::~DeviceCall() { release(); }

void DeviceCall::take_block(int line) {
  block_ = static_cast<char*>(functions_.allocate(plan_.block_bytes, line));
}

void DeviceCall::drop_block() {
  functions_.deallocate(block_);
  block_ = nullptr;
}

void DeviceCall::release() {
  functions_.deallocate(block_);
  functions_.leave(entered_);
}

DeviceCall::Target DeviceCall::redirect(const Target& target) {
  const Target before = {streams_, block_};
  streams_ = target.streams;
  block_ = target.block;
  return before;
}

void DeviceCall::join(int line) {
  if (streams_ != state_->streams.data()) return;
  for (int i = 1; i < stream_count(); ++i) {
    functions_.record(state_->joins[i - 1], stream(i), line);
    functions_.wait(stream(0), state_->joins[i - 1], line);
  }
}

void DeviceCall::fork(int line, int from) {
  if (!plan_.streams || streams_ != state_->streams.data()) return;
  functions_.record(state_->forked, stream(from), line);
  for (int i = 0; i < stream_count(); ++i)
    if (i != from) functions_.wait(stream(i), state_->forked, line);
}

void DeviceCall::synchronize(int line) {
  join(line);
  functions_.synchronize(stream(0), line);
}

void DeviceCall::zero(char* address, int64_t bytes, int line) {
  if (bytes <= 0) return;
  join(line);
  functions_.zero(address, bytes, stream(0), line);
  fork(line);
}

void DeviceCall::record(int event, int stream, int line) {
  functions_.record(state_->events[event], this->stream(stream), line);
}

void DeviceCall::wait(const DeviceCall& recorded, int event, int stream, int line) {
  functions_.wait(this->stream(stream), recorded.state_->events[event], line);
}

void DeviceCall::end(int line) {
  is_ended_ = true;
  join(line);
  if (state_->ended) {
    functions_.record(state_->ended, stream(0), line);
    state_->last = stream(0);
    state_->has_ended = true;
  }
  for (void* memory : state_->scratch) functions_.deallocate(memory);
  state_->scratch.clear();
}

char* DeviceCall::workspace() const { return static_cast<char*>(state_->workspace); }

void* DeviceCall::scratch(uint64_t bytes, int stream, int line) {
  void* memory = functions_.allocate(bytes, line);
  if (stream) state_->scratch.push_back(memory);
  return memory;
}

void DeviceCall::drop_scratch(void* memory, int stream) {
  if (!stream) functions_.deallocate(memory);
}

DeviceEnd::~DeviceEnd() {
  if (call_.is_ended()) return;
  const std::string why = error_message();
  try {
    call_.end(-1);
  } catch (const Failure&) {
    set_error_message(why.c_str());
  }
}

int32_t time_choices(
    Fastest& of, const Argument* given, int32_t count, const Launch& launch,
    DeviceCall& call, int stream) {
  if (__atomic_load_n(&of.choice, __ATOMIC_RELAXED) != choice_is_open) return 0;
  const DeviceFunctions& functions = call.functions();
  if (is_any_empty(given, count) || !functions.microseconds) return 0;
  if (functions.is_captured && functions.is_captured(call.stream(stream), -1)) return 0;
  try {
    OnDevice device(call, stream);
    return time_choices_on(device, of, given, count, launch);
  } catch (const Failure&) {
    // Memory could not be allocated, or earlier work has failed: the first choice is kept.
    int32_t open = choice_is_open;
    __atomic_compare_exchange_n(
        &of.choice, &open, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return 0;
  }
}

}  // namespace wrapperir
