// What an emitted program is written with. It includes no header of PyTorch's and none of
// the standard library that takes time to compile: the programs are compiled by the user.
#pragma once

#include <stdint.h>
#include <string.h>

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
}

namespace wrapperir {

// Thrown where a line fails; the message is kept for wrapperir_error().
struct Failure {};

// Throw Failure: `line` is the number of the line in the program, -1 for none.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail(int line, const char* format, ...);
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
int32_t torch_dtype(DType dtype);
enum class Device : int32_t { cpu, cuda };
int32_t torch_device(Device device);

}  // namespace wrapperir
