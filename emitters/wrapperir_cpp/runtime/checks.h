// What a program reads from tensors on the host, and what it asserts.
#pragma once

#include "numbers.h"
#include "runtime.h"

extern "C" {
AOTITorchError aoti_torch_get_size(AtenTensorHandle, int64_t, int64_t*);
AOTITorchError aoti_torch_get_stride(AtenTensorHandle, int64_t, int64_t*);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle, int64_t*);
}

namespace wrapperir {
namespace num {

inline int64_t size_of(AtenTensorHandle tensor, int64_t dim, int line) {
  int64_t size = 0;
  check(aoti_torch_get_size(tensor, dim, &size), line);
  return size;
}
inline int64_t stride_of(AtenTensorHandle tensor, int64_t dim, int line) {
  int64_t stride = 0;
  check(aoti_torch_get_stride(tensor, dim, &stride), line);
  return stride;
}
inline int64_t offset_of(AtenTensorHandle tensor, int line) {
  int64_t offset = 0;
  check(aoti_torch_get_storage_offset(tensor, &offset), line);
  return offset;
}

// The one element of a tensor, by PyTorch's function for its type: it waits for a device.
template <typename T>
T item_of(AOTITorchError (*read)(AtenTensorHandle, T*), AtenTensorHandle tensor, int line) {
  T value{};
  check(read(tensor, &value), line);
  return value;
}
// The float that the bits of one of 16 or 8 bits stand for.
double small_float(DType dtype, uint32_t bits);
// An unsigned number that is to be an int of 64 bits.
inline int64_t signed_int(uint64_t value, int line) {
  if (unlikely(value > INT64_MAX))
    fail(line, "%llu does not fit 64 bits", static_cast<unsigned long long>(value));
  return static_cast<int64_t>(value);
}
void check_one(int64_t elements, const char* name, int line);

[[noreturn]] void out_of_range(int64_t value, const char* name, const char* range, int line);
[[noreturn]] void out_of_range(double value, const char* name, const char* range, int line);
// Hold a symbol against its range; a NaN is in none.
inline void check_range(
    int64_t value, int64_t lower, int64_t upper, const char* name, const char* range,
    int line) {
  if (unlikely(value < lower || value > upper)) out_of_range(value, name, range, line);
}
inline void check_range(
    double value, double lower, double upper, const char* name, const char* range, int line) {
  if (unlikely(!(lower <= value && value <= upper))) out_of_range(value, name, range, line);
}

// Asserts; `what` says what was asserted of which value.
void assert_size_stride(
    AtenTensorHandle tensor, const Ints& sizes, const Ints& strides, const char* what, int line);
inline void assert_alignment(const char* address, uint64_t bytes, const char* what, int line) {
  if (unlikely(reinterpret_cast<uintptr_t>(address) % bytes != 0)) fail(line, "%s", what);
}
// Fails where an element in the CPU's memory is NaN or infinite.
void assert_finite(
    const char* first, DType dtype, const Ints& sizes, const Ints& strides, const char* what,
    int line);

}  // namespace num
}  // namespace wrapperir
