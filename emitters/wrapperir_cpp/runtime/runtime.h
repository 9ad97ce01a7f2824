// Types and functions of emitted programs. Users compile the programs, so this includes no
// header of PyTorch and no slow header of the standard library.
#pragma once

#include <stdint.h>
#include <string.h>

#include <initializer_list>

#include "wrapperir.h"

// Functions of PyTorch's stable C interface that every program needs. A program declares the
// other functions that it calls.
typedef struct AtenTensorOpaque* AtenTensorHandle;
typedef int32_t AOTITorchError;
extern "C" {
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle);
AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle, AtenTensorHandle*);
AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle, void**);
AOTITorchError aoti_torch_empty_strided(
    int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, AtenTensorHandle*);
AOTITorchError aoti_torch__reinterpret_tensor(
    AtenTensorHandle, int64_t, const int64_t*, const int64_t*, int64_t, AtenTensorHandle*);
AOTITorchError aoti_torch_create_tensor_from_blob(
    void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t,
    AtenTensorHandle*);
AOTITorchError aoti_torch_zero_(AtenTensorHandle);
AOTITorchError aoti_torch_copy_(AtenTensorHandle, AtenTensorHandle, int32_t);
AOTITorchError aoti_torch_item_bool(AtenTensorHandle, bool*);
}

namespace wrapperir {

// Thrown if a line fails; the message is kept for wrapperir_error().
struct Failure {};

// Throw Failure: `line` is the number of the line in the program, -1 for none.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail(int line, const char* format, ...);
// A number as an argument of fail(): `%lld`.
inline long long shown(int64_t number) { return number; }
// Throw Failure with the message that PyTorch just reported.
[[noreturn]] void fail_in_torch(int line);

// Check the result of a function of PyTorch's stable C interface.
inline void check(AOTITorchError error, int line) {
  if (__builtin_expect(error != 0, 0)) fail_in_torch(line);
}

// A function that programs call in hundreds of lines. Inlined there, it would take compilers
// much longer, and a call costs little beside those that it makes.
#define WRAPPERIR_CALLED [[gnu::noinline]] inline

// Owns a tensor's handle.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(AtenTensorHandle handle) : handle_(handle) {}
  Tensor(Tensor&& other) noexcept : handle_(other.release()) {}
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Tensor() {
    if (handle_) aoti_torch_delete_tensor_object(handle_);
  }

  AtenTensorHandle get() const { return handle_; }
  // The place for PyTorch to write a new handle to; the old one is deleted first.
  AtenTensorHandle* out() {
    reset();
    return &handle_;
  }
  AtenTensorHandle release() {
    AtenTensorHandle handle = handle_;
    handle_ = nullptr;
    return handle;
  }
  WRAPPERIR_CALLED void reset(AtenTensorHandle handle = nullptr) {
    if (handle_) aoti_torch_delete_tensor_object(handle_);
    handle_ = handle;
  }

 private:
  AtenTensorHandle handle_ = nullptr;
};

// Owns an object that is too large for the stack.
template <typename T>
struct Owner {
  explicit Owner(T* object) : owned(object) {}
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { delete owned; }
  T* owned;
};

// The address of a tensor's first element.
WRAPPERIR_CALLED char* data_of(AtenTensorHandle tensor, int line) {
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(tensor, &data), line);
  return static_cast<char*>(data);
}

template <typename T>
inline T* at(char* base, int64_t bytes = 0) {
  return reinterpret_cast<T*>(base + bytes);
}

// Element types in the order of wrapperir.ir.types.DType, not of PyTorch's codes.
enum class DType : int32_t {
  f64, f32, f16, bf16, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu, f4e2m1fn_x2,
  i64, i32, i16, i8, u64, u32, u16, u8, boolean, c32, c64, c128,
};
// PyTorch's code of an element type: c10::ScalarType, which does not change.
inline int32_t torch_dtype(DType dtype) {
  constexpr int8_t codes[] = {
      7, 6, 5, 15, 24, 26, 23, 25, 44, 45, 4, 3, 2, 1, 29, 28, 27, 0, 11, 8, 9, 10};
  return codes[static_cast<int32_t>(dtype)];
}

inline int64_t item_bytes(DType dtype) {
  constexpr int8_t bytes[] = {
      8, 4, 2, 2, 1, 1, 1, 1, 1, 1, 8, 4, 2, 1, 8, 4, 2, 1, 1, 4, 8, 16};
  return bytes[static_cast<int32_t>(dtype)];
}

// Kinds of device by PyTorch's codes: c10::DeviceType.
enum class Device : int32_t {
  cpu = 0, cuda = 1, hip = 6, xla = 9, xpu = 12, mps = 13, meta = 14, hpu = 15, mtia = 19,
  privateuseone = 20
};
inline int32_t torch_device(Device device) { return static_cast<int32_t>(device); }

// A list of sizes or strides as an argument: a constant, or numbers in braces, which live as
// long as the call.
struct Ints {
  Ints(std::initializer_list<int64_t> given) : count(static_cast<int64_t>(given.size())) {
    data = given.begin();
  }
  constexpr Ints(const int64_t* numbers, int64_t how_many) : data(numbers), count(how_many) {}
  template <int N>
  constexpr Ints(const int64_t (&given)[N]) : data(given), count(N) {}
  constexpr Ints(decltype(nullptr)) {}
  constexpr operator const int64_t*() const { return data; }
  const int64_t* data = nullptr;
  int64_t count = 0;
};
constexpr Ints no_ints = nullptr;
// The numbers of a constant list.
template <int64_t... numbers>
constexpr int64_t ints[] = {numbers...};

// Make an uninitialised tensor; on the CPU it is aligned to 64 bytes.
WRAPPERIR_CALLED void empty(
    Tensor& result, DType dtype, const Ints& sizes, const Ints& strides, int line,
    Device device = Device::cpu, int32_t index = 0) {
  check(
      aoti_torch_empty_strided(
          sizes.count, sizes.data, strides.data, torch_dtype(dtype), torch_device(device),
          index, result.out()),
      line);
}
void empty_pinned(
    Tensor& result, DType dtype, const Ints& sizes, const Ints& strides, int line);
// Make a vector of uninitialised bytes whose address is a multiple of `alignment`.
void empty_aligned(
    Tensor& result, int64_t bytes, int64_t alignment, int line, Device device = Device::cpu,
    int32_t index = 0);

// Make a view that begins `step` elements after its source does.
WRAPPERIR_CALLED void view(
    Tensor& result, AtenTensorHandle source, int64_t step, const Ints& sizes,
    const Ints& strides, int line) {
  AtenTensorHandle made = nullptr;
  check(
      aoti_torch__reinterpret_tensor(
          source, sizes.count, sizes.data, strides.data, step, &made),
      line);
  result.reset(made);
}
// Make a view of another element type that begins `step` bytes after its source does.
void view_as(
    Tensor& result, AtenTensorHandle source, int64_t step, DType dtype, const Ints& sizes,
    const Ints& strides, int line);
// Make a tensor of memory that outlives it.
void view_memory(
    Tensor& result, char* memory, DType dtype, const Ints& sizes, const Ints& strides,
    int line, Device device = Device::cpu, int32_t index = 0);

// Fail unless the bytes from `begin` to `end` lie in a storage of `room` bytes, or there are no
// elements.
void check_empty_outside(
    int64_t begin, int64_t end, int64_t room, const Ints& sizes, int line);
inline void check_inside(
    int64_t begin, int64_t end, int64_t room, const Ints& sizes, int line) {
  if (__builtin_expect(begin < 0 || end > room, 0))
    check_empty_outside(begin, end, room, sizes, line);
}
// The bytes of a tensor's storage that follow `before` bytes before its first element.
int64_t room_of(AtenTensorHandle tensor, int64_t before, int64_t item_size, int line);

// A further handle of the same tensor; null for null.
inline AtenTensorHandle new_handle(AtenTensorHandle tensor, int line) {
  AtenTensorHandle made = nullptr;
  if (tensor) check(aoti_torch_new_tensor_handle(tensor, &made), line);
  return made;
}

// The tensors that a variable of a loop has held, one for each iteration.
class LoopValues {
 public:
  LoopValues() = default;
  LoopValues(const LoopValues&) = delete;
  LoopValues& operator=(const LoopValues&) = delete;
  ~LoopValues();
  void push(AtenTensorHandle value, int line);
  // Make a row-major tensor of all values, of these sizes each; of `last` if there is none.
  void stack(
      Tensor& result, AtenTensorHandle last, DType dtype, const Ints& sizes, int line,
      Device device = Device::cpu, int32_t index = 0);

 private:
  struct List;
  List* list_ = nullptr;
};

// Take the handle of an input tensor from the caller.
WRAPPERIR_CALLED AtenTensorHandle take(wrapperir_value& input) {
  AtenTensorHandle taken = input.as.tensor;
  input.kind = WRAPPERIR_NONE;
  input.as.tensor = nullptr;
  return taken;
}

// The one element of a bool tensor on any device.
inline bool item_bool(AtenTensorHandle tensor, int line) {
  bool value = false;
  check(aoti_torch_item_bool(tensor, &value), line);
  return value;
}

// Check sizes, strides and offset of an input or constant whose type has symbols. Messages
// begin with `subject`, such as "WIR801: %x".
void check_layout(
    AtenTensorHandle tensor, const Ints& sizes, const Ints& strides, const char* subject);
void check_offset(AtenTensorHandle tensor, int64_t offset, const char* subject);

// Outputs of a call.
inline wrapperir_value output(decltype(nullptr)) { return {WRAPPERIR_NONE, {}}; }
WRAPPERIR_CALLED wrapperir_value output(AtenTensorHandle tensor) {
  return {tensor ? WRAPPERIR_TENSOR : WRAPPERIR_NONE, {tensor}};
}
inline wrapperir_value output(int64_t number) {
  wrapperir_value value{WRAPPERIR_INT, {}};
  value.as.integer = number;
  return value;
}
inline wrapperir_value output(double number) {
  wrapperir_value value{WRAPPERIR_FLOAT, {}};
  value.as.real = number;
  return value;
}
inline wrapperir_value output(bool number) {
  wrapperir_value value = output(int64_t{number});
  value.kind = WRAPPERIR_BOOL;
  return value;
}

}  // namespace wrapperir
