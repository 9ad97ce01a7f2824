// A simulated accelerator, and what PyTorch asks of it: allocator, guard, graphs, copies.
#include <ATen/core/GraphImplInterface.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace sim {
namespace {

using c10::Stream, c10::DeviceIndex;
using Clock = std::chrono::steady_clock;
using Work = std::function<void()>;
constexpr auto type = c10::DeviceType::PrivateUse1;
thread_local int64_t current = 0;  // stream

// Memory of a stream, which takes it back when no tensor and no graph has it.
struct Block {
  char* const address;
  const std::pair<int64_t, size_t> kind;  // stream and bytes
  ~Block();
};

// What a capture was given, in order, and the memory that it uses.
struct Recording {
  std::deque<Work> work;
  std::vector<std::shared_ptr<Block>> blocks;
};

struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> work;  // the first is running
  std::atomic<std::shared_ptr<Recording>> capture;
  std::thread thread{[this] { run(); }};
  void run();
};

struct Event {
  std::shared_future<Clock::time_point> reached;
  std::shared_ptr<Recording> capture;  // that it was recorded in
};

bool is_forked = false;  // threads and memory are the parent's

// Nothing of it is deleted: streams may still work when the process ends.
struct Device {
  static constexpr size_t bytes = size_t{1} << 36;
  std::mutex mutex;
  char *host = nullptr, *kernels = nullptr;  // the same memory, where each of them has it
  size_t used = 0;
  int64_t live = 0, peak = 0;
  std::atomic<int64_t> replays = 0;
  std::map<std::pair<int64_t, size_t>, std::set<char*>> free;
  std::map<void*, std::shared_ptr<Block>> blocks;
  std::deque<Queue> queues{1};
  std::exception_ptr error;

  Device() {
    pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
    const int file = memfd_create("sim", 0);
    TORCH_CHECK(file >= 0 && !ftruncate(file, bytes), "sim has no memory");
    const auto map = [&](int allowed) {
      return static_cast<char*>(mmap(nullptr, bytes, allowed, MAP_SHARED, file, 0));
    };
    host = map(PROT_NONE);
    kernels = map(PROT_READ | PROT_WRITE);
  }
};

Device& device() {
  TORCH_CHECK(!is_forked, "a forked process cannot use its parent's sim");
  static Device& made = *new Device;
  return made;
}

Block::~Block() {
  std::lock_guard held(device().mutex);
  device().free[kind].insert(address);
  device().live -= kind.second;
}

Queue& queue(int64_t stream) {
  std::lock_guard held(device().mutex);
  return device().queues.at(stream);
}

void Queue::run() {
  const at::AutoDispatchBelowADInplaceOrView without_autograd;
  std::unique_lock held(mutex);
  for (;;) {
    changed.wait(held, [&] { return !work.empty(); });
    held.unlock();
    try {
      std::exchange(work.front(), nullptr)();
    } catch (...) {
      std::lock_guard failed(device().mutex);
      if (!device().error) device().error = std::current_exception();
    }
    held.lock();
    work.pop_front();
    changed.notify_all();
  }
}

void* allocate(size_t bytes) {
  const std::pair<int64_t, size_t> kind{current, (bytes + 511) / 512 * 512};
  const std::shared_ptr<Recording> capture = queue(current).capture;
  Device& of = device();
  std::lock_guard held(of.mutex);
  std::set<char*>& free = of.free[kind];
  if (free.empty()) {
    TORCH_CHECK(kind.second <= Device::bytes - of.used, "sim is out of memory");
    free.insert(of.host + of.used);
    of.used += kind.second;
  }
  const std::shared_ptr<Block> made(new Block{*free.begin(), kind});
  free.erase(free.begin());
  of.peak = std::max(of.peak, of.live += kind.second);
  if (capture) capture->blocks.push_back(made);
  of.blocks[made->address] = made;
  return made->address;
}

void deallocate(void* memory) {
  if (!memory || is_forked) return;
  std::shared_ptr<Block> freed;  // after the lock
  std::lock_guard held(device().mutex);
  freed = std::move(device().blocks.extract(memory).mapped());
}

}  // namespace

// The address at which kernels find what the host has at an address of the device.
[[gnu::visibility("default")]] void* in_kernels(void* address) {
  const size_t begin = static_cast<char*>(address) - device().host;
  return begin < Device::bytes ? device().kernels + begin : address;
}

[[gnu::visibility("default")]] void enqueue(int64_t stream, Work work) {
  Queue& to = queue(stream);
  std::lock_guard held(to.mutex);
  const std::shared_ptr<Recording> capture = to.capture;
  (capture ? capture->work : to.work).push_back(std::move(work));
  to.changed.notify_all();
}

namespace {

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* const made = bytes ? sim::allocate(bytes) : nullptr;
    return {made, made, deallocate, c10::Device(type, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return deallocate; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    enqueue(current, [=] { memcpy(in_kernels(to), in_kernels(const_cast<void*>(from)), bytes); });
  }
} allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator);

Stream stream_at(int64_t number) { return Stream(Stream::UNSAFE, {type, 0}, number); }
Event& event_at(void* event) { return *static_cast<Event*>(event); }

struct Guard final : c10::impl::NoOpDeviceGuardImpl<type> {
  c10::Device getDevice() const override { return {sim::type, 0}; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  Stream getStream(c10::Device) const noexcept override { return stream_at(current); }
  Stream getDefaultStream(c10::Device) const override { return stream_at(0); }
  Stream exchangeStream(Stream stream) const noexcept override {
    return stream_at(std::exchange(current, stream.id()));
  }
  Stream getNewStream(c10::Device, int) const override {
    std::lock_guard held(device().mutex);
    device().queues.emplace_back();
    return stream_at(device().queues.size() - 1);
  }
  bool isStreamCapturing(const Stream& stream) const override {
    return queue(stream.id()).capture.load() != nullptr;
  }
  bool queryStream(const Stream& stream) const override {
    std::lock_guard held(queue(stream.id()).mutex);
    return queue(stream.id()).work.empty();
  }
  void synchronizeStream(const Stream& stream) const override {
    Queue& of = queue(stream.id());
    TORCH_CHECK(!isStreamCapturing(stream), "the host cannot wait for what is captured");
    std::unique_lock held(of.mutex);
    of.changed.wait(held, [&] { return of.work.empty(); });
    std::lock_guard failed(device().mutex);
    if (device().error) std::rethrow_exception(std::exchange(device().error, nullptr));
  }
  void synchronizeDevice(DeviceIndex) const override {
    std::unique_lock held(device().mutex);
    const size_t count = device().queues.size();
    held.unlock();
    for (size_t i = 0; i < count; ++i) synchronizeStream(stream_at(i));
  }

  void record(void** event, const Stream& on, DeviceIndex, c10::EventFlag) const override {
    if (!*event) *event = new Event;
    Event& of = event_at(*event);
    of.capture = queue(on.id()).capture;
    if (of.capture) return;
    auto promise = std::make_shared<std::promise<Clock::time_point>>();
    of.reached = promise->get_future();
    enqueue(on.id(), [promise] { promise->set_value(Clock::now()); });
  }
  void block(void* event, const Stream& stream) const override {
    const Event& of = event_at(event);
    if (of.capture) {
      queue(stream.id()).capture = of.capture;  // its work follows what was captured
    } else if (of.reached.valid()) {
      TORCH_CHECK(!isStreamCapturing(stream), "a capture waits for work that is not captured");
      enqueue(stream.id(), [reached = of.reached] { reached.wait(); });
    }
  }
  bool queryEvent(void* event) const override {
    const auto& reached = event_at(event).reached;
    return !reached.valid() || reached.wait_for(Clock::duration(0)) == std::future_status::ready;
  }
  void synchronizeEvent(void* event) const override {
    if (event_at(event).reached.valid()) event_at(event).reached.wait();
  }
  double elapsedTime(void* begin, void* end, DeviceIndex) const override {
    const auto passed = event_at(end).reached.get() - event_at(begin).reached.get();
    return std::chrono::duration<double, std::milli>(passed).count();
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override { delete &event_at(event); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Graph final : at::GraphImplInterface {
  explicit Graph(const at::GraphImplArgs&) {}
  void capture_begin(c10::MempoolId_t, at::GraphCaptureMode) override {
    recording = std::make_shared<Recording>();
    queue(current).capture = recording;
  }
  void capture_end() override {
    std::lock_guard held(device().mutex);
    for (Queue& each : device().queues)
      if (each.capture.load() == recording) each.capture = std::shared_ptr<Recording>();
  }
  void instantiate() override {}
  void replay() override {
    ++device().replays;
    for (size_t i = 0; i < recording->work.size(); ++i)
      enqueue(current, [of = recording, i] { of->work[i](); });
  }
  void reset() override { recording = nullptr; }
  c10::MempoolId_t pool() const override { return {0, 0}; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string&) override {}
  std::shared_ptr<Recording> recording;
};
using at::RegistererGraphImplRegistry, at::GraphImplRegistry;
REGISTER_GRAPH_IMPL(SIM, Graph);

// A tensor as kernels have it: on the CPU, where they run.
at::Tensor seen(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor.detach();
  void* const data = in_kernels(tensor.mutable_data_ptr());
  return at::from_blob(data, tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  enqueue(current, [to = seen(to), from = seen(from)] { to.copy_(from); });
  if (to.is_cpu() || from.is_cpu()) stream_at(current).synchronize();
  return to;
}

at::Tensor& zero(at::Tensor& tensor) {
  enqueue(current, [of = seen(tensor)] { of.zero_(); });
  return tensor;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_copy_from", copy_from);
  library.impl("zero_", zero);
}

TORCH_LIBRARY(sim, library) {
  library.def("live_bytes", [] { return device().live; });
  library.def("peak_bytes", [] { return std::exchange(device().peak, device().live); });
  library.def("replays", [] { return device().replays.load(); });
}

}  // namespace
}  // namespace sim
