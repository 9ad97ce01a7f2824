// Failures, views of memory, and calls of an open program.
#include "program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

extern "C" {
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_storage_size(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_empty_strided_pinned(
    int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, AtenTensorHandle*);
AOTITorchError aoti_torch__alloc_from_pool(
    AtenTensorHandle, int64_t, int32_t, int64_t, const int64_t*, const int64_t*,
    AtenTensorHandle*);
bool aoti_torch_grad_mode_is_enabled();
void aoti_torch_grad_mode_set_enabled(bool);
// Not in older releases of PyTorch.
__attribute__((weak)) const char* torch_exception_get_what_without_backtrace();
}

namespace wrapperir {
namespace {

thread_local std::string last_error;

void drop(wrapperir_value* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (values[i].kind == WRAPPERIR_TENSOR && values[i].as.tensor)
      aoti_torch_delete_tensor_object(values[i].as.tensor);
    values[i].kind = WRAPPERIR_NONE;
    values[i].as.integer = 0;
  }
}

// Operators that the program calls record nothing for autograd.
class NoGrad {
 public:
  NoGrad() : was_enabled_(aoti_torch_grad_mode_is_enabled()) {
    if (was_enabled_) aoti_torch_grad_mode_set_enabled(false);
  }
  ~NoGrad() {
    if (was_enabled_) aoti_torch_grad_mode_set_enabled(true);
  }

 private:
  bool was_enabled_;
};

// Large arenas are mapped, so that they return to the system with their frame. Freed memory may
// stay with the process.
constexpr int64_t large = 1 << 20;
constexpr int64_t page = 4096;

bool is_mapped(const Description& of) {
  return of.arena_bytes >= large && of.arena_alignment <= page;
}

char* make_arena(const Description& of) {
  void* arena = nullptr;
  if (is_mapped(of)) {
    arena = mmap(
        nullptr, of.arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) arena = nullptr;
  } else if (posix_memalign(&arena, of.arena_alignment, of.arena_bytes)) {
    arena = nullptr;
  }
  if (!arena)
    fail(-1, "there is no memory for an arena of %lld bytes", shown(of.arena_bytes));
  return static_cast<char*>(arena);
}

void delete_frame(Frame* frame) {
  for (AtenTensorHandle tensor : frame->fixed) aoti_torch_delete_tensor_object(tensor);
  if (frame->devices.destroy) frame->devices.destroy(frame->devices.state);
  if (!is_mapped(wrapperir_description))
    free(frame->arena);
  else if (frame->arena)
    munmap(frame->arena, wrapperir_description.arena_bytes);
  delete frame;
}

}  // namespace

const char* error_message() { return last_error.c_str(); }
void set_error_message(const char* message) { last_error = message; }

void fail(int line, const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(length > 0 ? length + 1 : 1, '\0');
  vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  text.pop_back();
  last_error = wrapperir_description.name;
  if (line >= 0 && line < wrapperir_description.line_count) {
    const LineFact& fact = wrapperir_description.lines[line];
    last_error += ", program.wir:" + std::to_string(fact.number) + ", " + fact.text;
  }
  last_error += ": " + text;
  throw Failure();
}

void fail_in_torch(int line) {
  const char* what = nullptr;
  if (torch_exception_get_what_without_backtrace)
    what = torch_exception_get_what_without_backtrace();
  if (!what) what = "a function of PyTorch failed; it wrote why to stderr";
  bool is_unknown = strstr(what, "Could not find schema");
  fail(
      line, "%s%s", what,
      is_unknown ? "; import or load the library that registers the operator first" : "");
}

void in_new_thread(const std::function<void()>& work) {
  std::exception_ptr thrown;
  std::string message;
  std::thread([&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
      message = last_error;
    }
  }).join();
  if (!thrown) return;
  last_error = message;
  std::rethrow_exception(thrown);
}

void empty_pinned(
    Tensor& result, DType dtype, const Ints& sizes, const Ints& strides, int line) {
  check(
      aoti_torch_empty_strided_pinned(
          sizes.count, sizes.data, strides.data, torch_dtype(dtype), 0, 0, result.out()),
      line);
}

void empty_aligned(
    Tensor& result, int64_t bytes, int64_t alignment, int line, Device device,
    int32_t index) {
  int64_t room = 0;
  if (__builtin_add_overflow(bytes, alignment, &room))
    fail(line, "there is no room for %lld bytes", shown(bytes));
  Tensor whole;
  empty(whole, DType::u8, {room}, {1}, line, device, index);
  auto address = reinterpret_cast<uintptr_t>(data_of(whole.get(), line));
  view(result, whole.get(), -address & (alignment - 1), {bytes}, {1}, line);
}

void view_as(
    Tensor& result, AtenTensorHandle source, int64_t step, DType dtype, const Ints& sizes,
    const Ints& strides, int line) {
  int32_t code = 0;
  int64_t offset = 0;
  check(aoti_torch_get_dtype(source, &code), line);
  check(aoti_torch_get_storage_offset(source, &offset), line);
  int64_t item = 1;
  for (int32_t i = 0; i < 22; ++i)
    if (torch_dtype(static_cast<DType>(i)) == code) item = item_bytes(static_cast<DType>(i));
  Tensor base;
  if (offset) {
    view(base, source, -offset, {}, {}, line);
    source = base.get();
  }
  AtenTensorHandle made = nullptr;
  check(
      aoti_torch__alloc_from_pool(
          source, offset * item + step, torch_dtype(dtype), sizes.count, sizes.data,
          strides.data, &made),
      line);
  result.reset(made);
}

void view_memory(
    Tensor& result, char* memory, DType dtype, const Ints& sizes, const Ints& strides,
    int line, Device device, int32_t index) {
  check(
      aoti_torch_create_tensor_from_blob(
          memory, sizes.count, sizes.data, strides.data, 0, torch_dtype(dtype),
          torch_device(device), index, result.out()),
      line);
}

struct LoopValues::List {
  std::vector<Tensor> values;
};

LoopValues::~LoopValues() { delete list_; }

void LoopValues::push(AtenTensorHandle value, int line) {
  if (!list_) list_ = new List;
  list_->values.emplace_back(new_handle(value, line));
}

void LoopValues::stack(
    Tensor& result, AtenTensorHandle last, DType dtype, const Ints& sizes, int line,
    Device device, int32_t index) {
  if (!list_) push(last, line);
  const int64_t count = static_cast<int64_t>(list_->values.size());
  std::vector<int64_t> all_sizes(sizes.count + 1), strides(sizes.count + 1);
  int64_t step = 1;
  for (int64_t i = sizes.count; i > 0; --i) {
    all_sizes[i] = sizes.data[i - 1];
    strides[i] = step;
    step *= std::max<int64_t>(all_sizes[i], 1);
  }
  all_sizes[0] = count;
  strides[0] = step;
  const Ints each(all_sizes.data() + 1, sizes.count), steps(strides.data() + 1, sizes.count);
  empty(
      result, dtype, {all_sizes.data(), sizes.count + 1}, {strides.data(), sizes.count + 1},
      line, device, index);
  for (int64_t i = 0; i < count; ++i) {
    Tensor& value = list_->values[i];
    Tensor part;
    view(part, result.get(), i * step, each, steps, line);
    check(aoti_torch_copy_(part.get(), value.get(), 0), line);
    value.reset();
  }
}

void check_empty_outside(
    int64_t begin, int64_t end, int64_t room, const Ints& sizes, int line) {
  if (begin < 0)
    fail(line, "it begins at byte %lld of a storage of %lld", shown(begin), shown(room));
  for (int64_t i = 0; i < sizes.count; ++i)
    if (sizes.data[i] == 0) return;
  fail(line, "it needs %lld bytes of a storage of %lld", shown(end), shown(room));
}

int64_t room_of(AtenTensorHandle tensor, int64_t before, int64_t item_size, int line) {
  int64_t size = 0, offset = 0;
  check(aoti_torch_get_storage_size(tensor, &size), line);
  check(aoti_torch_get_storage_offset(tensor, &offset), line);
  return size - offset * item_size + before;
}

}  // namespace wrapperir

using namespace wrapperir;

wrapperir_program::wrapperir_program(
    const Description& of, std::vector<AtenTensorHandle> constants)
    : description(of), constants_(std::move(constants)) {
  try {
    for (int64_t i = 0; i < of.constant_count; ++i) {
      check_tensor(constants_[i], of.constants[i].type, "%", of.constants[i].name);
      const bool is_plain = !of.constants[i].type.layout;
      constant_data_.push_back(is_plain ? data_of(constants_[i], -1) : nullptr);
    }
    regions_.resize(of.region_count);
    last_ = make_frame();
  } catch (...) {
    for (AtenTensorHandle constant : constants_) aoti_torch_delete_tensor_object(constant);
    throw;
  }
}

wrapperir_program::~wrapperir_program() {
  if (Frame* frame = last_) delete_frame(frame);
  for (Frame* frame : free_) delete_frame(frame);
  for (const DeviceFrame& region : regions_)
    if (region.destroy) region.destroy(region.state);
  for (AtenTensorHandle constant : constants_) aoti_torch_delete_tensor_object(constant);
}

void wrapperir_program::drop_recordings() {
  for (const DeviceFrame& region : regions_)
    if (void* state = __atomic_load_n(&region.state, __ATOMIC_ACQUIRE))
      region.drop_recordings(state);
}

void wrapperir_program::run(
    wrapperir_value* inputs, int64_t input_count, wrapperir_value* outputs,
    int64_t output_count) {
  for (int64_t i = 0; i < output_count; ++i) outputs[i] = output(nullptr);
  Frame* frame = nullptr;
  try {
    if (input_count != description.input_count)
      fail(
          -1, "WIR800: %lld input%s needed, %lld given", shown(description.input_count),
          description.input_count == 1 ? "" : "s", shown(input_count));
    if (output_count != description.output_count)
      fail(
          -1, "there are %lld outputs, room was given for %lld",
          shown(description.output_count), shown(output_count));
    for (int64_t i = 0; i < input_count; ++i) check_input(inputs[i], description.inputs[i]);
    frame = take_frame();
    NoGrad no_grad;
    description.run(
        {frame->arena, frame->fixed.data(), constants_.data(), constant_data_.data(), inputs,
         outputs, frame->recent.data(), &frame->devices, regions_.data()});
    give_back(frame);
  } catch (...) {
    // The memory that kernels leave zero may not be zero.
    if (frame) delete_frame(frame);
    drop(outputs, output_count);
    drop(inputs, input_count);
    throw;
  }
}

Frame* wrapperir_program::take_frame() {
  if (Frame* frame = last_.exchange(nullptr, std::memory_order_acquire)) return frame;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      Frame* frame = free_.back();
      free_.pop_back();
      return frame;
    }
  }
  return make_frame();
}

void wrapperir_program::give_back(Frame* frame) {
  Frame* none = nullptr;
  if (last_.compare_exchange_strong(none, frame, std::memory_order_release)) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() + 1 < std::max(std::thread::hardware_concurrency(), 8u)) {
      free_.push_back(frame);
      return;
    }
  }
  delete_frame(frame);
}

Frame* wrapperir_program::make_frame() {
  auto frame = new Frame;
  try {
    frame->recent.resize(description.recent_count);
    if (description.arena_bytes) frame->arena = make_arena(description);
    for (int64_t i = 0; i < description.zeroed_count; ++i)
      memset(frame->arena + description.zeroed[i].offset, 0, description.zeroed[i].bytes);
    if (description.fixed_count) in_new_thread([&] { make_tensors(*frame); });
  } catch (...) {
    delete_frame(frame);
    throw;
  }
  return frame;
}

void wrapperir_program::make_tensors(Frame& frame) {
  for (int64_t i = 0; i < description.fixed_count; ++i) {
    const FixedTensor& fixed = description.fixed[i];
    Ints sizes(fixed.sizes, fixed.ndim), strides(fixed.strides, fixed.ndim);
    Tensor tensor;
    if (fixed.constant < 0)
      view_memory(tensor, frame.arena + fixed.offset, fixed.dtype, sizes, strides, -1);
    else
      view_as(
          tensor, constants_[fixed.constant], fixed.offset, fixed.dtype, sizes, strides, -1);
    frame.fixed.push_back(tensor.release());
  }
}
