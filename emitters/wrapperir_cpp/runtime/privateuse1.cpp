// PrivateUse1 as a table of functions. This is compiled with PyTorch's C++ headers, for one build
// of PyTorch.
#include "privateuse1.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#endif
#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "program.h"

namespace wrapperir {
namespace {

constexpr c10::DeviceType type = c10::DeviceType::PrivateUse1;

// Run `call`; what it throws is a failure of the line.
template <typename F>
auto checked(int line, F call) -> decltype(call()) {
  try {
    return call();
  } catch (const c10::Error& error) {
    fail(line, "%s", error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(line, "%s", error.what());
  }
}

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(type);
}

// Pointers to streams stay valid, and two of one stream are equal.
void* pointer_to(const c10::Stream& stream) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_set<c10::Stream>;
  std::lock_guard<std::mutex> held(mutex);
  return const_cast<c10::Stream*>(&*known.insert(stream).first);
}
const c10::Stream& stream_at(void* pointer) { return *static_cast<const c10::Stream*>(pointer); }
c10::Event& event_at(void* pointer) { return *static_cast<c10::Event*>(pointer); }

// PyTorch has no function that deletes a stream: later programs get those of closed ones.
struct SpareStreams {
  std::mutex mutex;
  std::vector<c10::Stream> streams;
};
SpareStreams& spare() {
  static auto& streams = *new SpareStreams;
  return streams;
}

void* enter(int32_t index, int line) {
  return checked(line, [&] {
    const c10::Device wanted(type, static_cast<c10::DeviceIndex>(index));
    return static_cast<void*>(new c10::Device(guard().exchangeDevice(wanted)));
  });
}

void leave(void* entered) {
  auto* const device = static_cast<c10::Device*>(entered);
  if (device) guard().uncheckedSetDevice(*device);
  delete device;
}

void* current_stream(int32_t index, int line) {
  return checked(line, [&] {
    return pointer_to(guard().getStream({type, static_cast<c10::DeviceIndex>(index)}));
  });
}

struct EnteredStream {
  const c10::Device device;
  const c10::Stream stream;
};

void* enter_stream(void* stream, int32_t, int line) {
  return checked(line, [&] {
    const c10::Device device = guard().exchangeDevice(stream_at(stream).device());
    const c10::Stream before = guard().exchangeStream(stream_at(stream));
    return static_cast<void*>(new EnteredStream{device, before});
  });
}

void leave_stream(void* entered) {
  auto* const before = static_cast<EnteredStream*>(entered);
  guard().exchangeStream(before->stream);
  guard().uncheckedSetDevice(before->device);
  delete before;
}

void* allocate(uint64_t bytes, int line) {
  return checked(line, [&] { return c10::GetAllocator(type)->raw_allocate(bytes); });
}

void deallocate(void* memory) {
  if (memory) c10::GetAllocator(type)->raw_deallocate(memory);
}

// Makes a stream PyTorch's current one, and tensors of memory for operators on it.
struct OnMemory {
  OnMemory(void* stream, int number)
      : index(stream_at(stream).device_index()),
        line(number),
        entered(enter_stream(stream, index, number)) {}
  ~OnMemory() { leave_stream(entered); }
  OnMemory(const OnMemory&) = delete;
  OnMemory& operator=(const OnMemory&) = delete;

  void view(Tensor& result, const void* memory, uint64_t bytes) const {
    const int64_t size = static_cast<int64_t>(bytes);
    char* const begin = static_cast<char*>(const_cast<void*>(memory));
    view_memory(result, begin, DType::u8, {size}, {1}, line, Device::privateuseone, index);
  }

  const int32_t index;
  const int line;
  void* const entered;
};

void zero(void* memory, uint64_t bytes, void* stream, int line) {
  const OnMemory on(stream, line);
  Tensor zeroed;
  on.view(zeroed, memory, bytes);
  check(aoti_torch_zero_(zeroed.get()), line);
}

void copy(void* to, const void* from, uint64_t bytes, void* stream, int line) {
  const OnMemory on(stream, line);
  Tensor target, source;
  on.view(target, to, bytes);
  on.view(source, from, bytes);
  constexpr int non_blocking = 1;
  check(aoti_torch_copy_(target.get(), source.get(), non_blocking), line);
}

void* make_stream(int line) {
  return checked(line, [] {
    const c10::Device device = guard().getDevice();
    SpareStreams& of = spare();
    std::lock_guard<std::mutex> held(of.mutex);
    for (auto each = of.streams.begin(); each != of.streams.end(); ++each) {
      if (each->device() != device) continue;
      void* const found = pointer_to(*each);
      of.streams.erase(each);
      return found;
    }
    return pointer_to(guard().getNewStream(device));
  });
}

void delete_stream(void* stream) {
  SpareStreams& of = spare();
  std::lock_guard<std::mutex> held(of.mutex);
  of.streams.push_back(stream_at(stream));
}

void synchronize(void* stream, int line) {
  checked(line, [&] { stream_at(stream).synchronize(); });
}

void* make_event(bool is_timed, int line) {
  return checked(line, [&] {
    const auto flag = is_timed ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT;
    return static_cast<void*>(new c10::Event(type, flag));
  });
}

void delete_event(void* event) { delete &event_at(event); }

void record(void* event, void* stream, int line) {
  checked(line, [&] { event_at(event).record(stream_at(stream)); });
}

void wait(void* stream, void* event, int line) {
  checked(line, [&] { event_at(event).block(stream_at(stream)); });
}

void wait_on_host(void* event) {
  try {
    event_at(event).synchronize();
  } catch (const std::exception&) {  // the process may be ending
  }
}

double microseconds(void* begin, void* end, int line) {
  return checked(line, [&] { return event_at(begin).elapsedTime(event_at(end)) * 1000; });
}

bool is_captured(void* stream, int line) {
#if __has_include(<ATen/core/GraphImplInterface.h>)
  return checked(line, [&] { return guard().isStreamCapturing(stream_at(stream)); });
#else
  return false;  // this PyTorch knows graphs of CUDA alone
#endif
}

#if __has_include(<ATen/core/GraphImplInterface.h>)
using Graph = at::GraphImplInterface;

const GraphFunctions graphs = {
    [] { return at::has_graph_impl(type); },
    [](int line) {
      return checked(line, [] {
        std::unique_ptr<Graph> made = at::create_graph_impl(type);
        made->capture_begin();
        return static_cast<void*>(made.release());
      });
    },
    [](void* graph, int line) { checked(line, [&] { static_cast<Graph*>(graph)->capture_end(); }); },
    [](void* graph, int line) { checked(line, [&] { static_cast<Graph*>(graph)->replay(); }); },
    [](void* graph) { delete static_cast<Graph*>(graph); },
};
const GraphFunctions* const found_graphs = &graphs;
#else
const GraphFunctions* const found_graphs = nullptr;
#endif

}  // namespace

const char* private_device_name() {
  static const std::string name = c10::get_privateuse1_backend();
  return name.c_str();
}

int64_t stream_id(void* stream) { return stream_at(stream).id(); }

const DeviceFunctions privateuse1_functions = {
    enter,       leave,         current_stream, enter_stream, leave_stream, allocate,
    deallocate,  zero,          copy,           make_stream,  delete_stream, synchronize,
    make_event,  delete_event,  record,         wait,         wait_on_host, microseconds,
    is_captured, found_graphs,
};

}  // namespace wrapperir
