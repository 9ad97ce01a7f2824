// What an emitted program is written with. It includes no header of PyTorch's and none of
// the standard library that takes time to compile: the programs are compiled by the user.
#pragma once

#include <stdint.h>
#include <string.h>

#include <initializer_list>

#include "wrapperir.h"

// Of PyTorch's stable C interface, what every program needs. A program declares the other
// functions that it calls.
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

// Thrown where a line fails; the message is kept for wrapperir_error().
struct Failure {};

// Throw Failure: `line` is the number of the line in the program, -1 for none.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail(int line, const char* format, ...);
// A number as an argument of fail(): `%lld`.
inline long long shown(int64_t number) { return number; }
// Throw Failure with the message of what PyTorch's function just reported.
[[noreturn]] void fail_in_torch(int line);

// Hold what a function of PyTorch's stable C interface returned against success.
inline void check(AOTITorchError error, int line) {
  if (__builtin_expect(error != 0, 0)) fail_in_torch(line);
}

// Owns a handle of a tensor.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(AtenTensorHandle handle) : handle_(handle) {}
  Tensor(Tensor&& other) noexcept : handle_(other.release()) {}
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Tensor() { reset(); }

  AtenTensorHandle get() const { return handle_; }
  // Where a function of PyTorch's writes a new handle; the old one is deleted before.
  AtenTensorHandle* out() {
    reset();
    return &handle_;
  }
  AtenTensorHandle release() {
    AtenTensorHandle handle = handle_;
    handle_ = nullptr;
    return handle;
  }
  void reset(AtenTensorHandle handle = nullptr) {
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
inline char* data_of(AtenTensorHandle tensor, int line) {
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(tensor, &data), line);
  return static_cast<char*>(data);
}

template <typename T>
inline T* at(char* base, int64_t bytes = 0) {
  return reinterpret_cast<T*>(base + bytes);
}

// Element types in the order of wrapperir.ir.types.DType; PyTorch's codes are its own.
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

// A list of sizes or strides: a static array, or numbers in braces. It is for arguments: the
// numbers live as long as the call.
struct Ints {
  Ints(std::initializer_list<int64_t> given) : count(static_cast<int64_t>(given.size())) {
    data = given.begin();
  }
  Ints(const int64_t* numbers, int64_t how_many) : data(numbers), count(how_many) {}
  template <int N>
  Ints(const int64_t (&given)[N]) : data(given), count(N) {}
  Ints(decltype(nullptr)) {}
  const int64_t* data = nullptr;
  int64_t count = 0;
};

// Make an uninitialised tensor; those on the CPU are aligned to 64 bytes.
inline void empty(
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
inline void view(
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

// Fail unless the bytes up to `end` are in a storage of `room` bytes, or there are no elements.
void check_empty_outside(
    int64_t begin, int64_t end, int64_t room, const Ints& sizes, int line);
// Likewise, and that they begin in it.
inline void check_inside(
    int64_t begin, int64_t end, int64_t room, const Ints& sizes, int line) {
  if (__builtin_expect(begin < 0 || end > room, 0))
    check_empty_outside(begin, end, room, sizes, line);
}
// The bytes of a tensor's storage from `before` bytes before its first element on.
int64_t room_of(AtenTensorHandle tensor, int64_t before, int64_t item_size, int line);

// A further handle of the same tensor, if there is one.
inline AtenTensorHandle new_handle(AtenTensorHandle tensor, int line) {
  AtenTensorHandle made = nullptr;
  if (tensor) check(aoti_torch_new_tensor_handle(tensor, &made), line);
  return made;
}

// The handle of an input tensor, which the caller no longer has.
inline AtenTensorHandle take(wrapperir_value& input) {
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

// Hold a tensor that the caller gave against its type, where that mentions symbols.
void check_layout(
    AtenTensorHandle tensor, const Ints& sizes, const Ints& strides, const char* name);

// Likewise that its storage begins `offset` elements before it.
void check_offset(AtenTensorHandle tensor, int64_t offset, const char* name);

inline wrapperir_value output(AtenTensorHandle tensor) {
  wrapperir_value value;
  value.kind = tensor ? WRAPPERIR_TENSOR : WRAPPERIR_NONE;
  value.as.tensor = tensor;
  return value;
}
inline wrapperir_value output(int64_t number) {
  wrapperir_value value;
  value.kind = WRAPPERIR_INT;
  value.as.integer = number;
  return value;
}
inline wrapperir_value output(double number) {
  wrapperir_value value;
  value.kind = WRAPPERIR_FLOAT;
  value.as.real = number;
  return value;
}
inline wrapperir_value output(bool number) {
  wrapperir_value value;
  value.kind = WRAPPERIR_BOOL;
  value.as.integer = number;
  return value;
}
inline wrapperir_value output(decltype(nullptr)) {
  wrapperir_value value;
  value.kind = WRAPPERIR_NONE;
  value.as.integer = 0;
  return value;
}

}  // namespace wrapperir
