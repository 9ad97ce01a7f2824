#include "checks.h"

#include <math.h>

#include "program.h"

extern "C" {
AOTITorchError aoti_torch_get_dim(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle, int64_t**);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle, int64_t**);
}

namespace wrapperir {
namespace num {
namespace {

// How a small float is made of a sign, an exponent and a mantissa.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  enum Specials {
    ieee,          // the largest exponent is for infinities and NaN
    all_ones,      // a NaN has all ones
    negative_zero  // the one NaN is where -0 would be
  } specials;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return {5, 10, 15, Format::ieee};
    case DType::bf16: return {8, 7, 127, Format::ieee};
    case DType::f8e5m2: return {5, 2, 15, Format::ieee};
    case DType::f8e4m3fn: return {4, 3, 7, Format::all_ones};
    case DType::f8e5m2fnuz: return {5, 2, 16, Format::negative_zero};
    default: return {4, 3, 8, Format::negative_zero};  // f8e4m3fnuz
  }
}

bool is_finite(const char* element, DType dtype) {
  switch (dtype) {
    case DType::f64: return isfinite(*reinterpret_cast<const double*>(element));
    case DType::f32: return isfinite(*reinterpret_cast<const float*>(element));
    case DType::f16:
    case DType::bf16:
      return isfinite(small_float(dtype, *reinterpret_cast<const uint16_t*>(element)));
    case DType::c128: return is_finite(element, DType::f64) && is_finite(element + 8, DType::f64);
    case DType::c64: return is_finite(element, DType::f32) && is_finite(element + 4, DType::f32);
    case DType::c32: return is_finite(element, DType::f16) && is_finite(element + 2, DType::f16);
    default: return isfinite(small_float(dtype, *reinterpret_cast<const uint8_t*>(element)));
  }
}

bool all_finite(
    const char* first, DType dtype, const Ints& sizes, const Ints& strides, int64_t dim) {
  if (dim == sizes.count) return is_finite(first, dtype);
  int64_t step = strides.data[dim] * item_bytes(dtype);
  for (int64_t i = 0; i < sizes.data[dim]; ++i)
    if (!all_finite(first + i * step, dtype, sizes, strides, dim + 1)) return false;
  return true;
}

}  // namespace

double small_float(DType dtype, uint32_t bits) {
  if (dtype == DType::f8e8m0fnu)
    return bits == 0xff ? NAN : ldexp(1.0, static_cast<int>(bits) - 127);
  Format format = format_of(dtype);
  uint32_t largest = (1u << format.exponent_bits) - 1;
  uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  uint32_t exponent = bits >> format.mantissa_bits & largest;
  bool negative = bits >> (format.mantissa_bits + format.exponent_bits) & 1;
  if (format.specials == Format::ieee && exponent == largest) {
    if (mantissa) return NAN;
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  uint32_t magnitude = exponent << format.mantissa_bits | mantissa;
  uint32_t ones = (1u << (format.mantissa_bits + format.exponent_bits)) - 1;
  if (format.specials == Format::all_ones && magnitude == ones) return NAN;
  if (format.specials == Format::negative_zero && negative && !magnitude) return NAN;
  if (exponent) mantissa |= 1u << format.mantissa_bits;
  int power = static_cast<int>(exponent ? exponent : 1) - format.bias - format.mantissa_bits;
  double value = ldexp(static_cast<double>(mantissa), power);
  return negative ? -value : value;
}

void check_one(int64_t elements, const char* name, int line) {
  if (elements != 1)
    fail(line, "%s has %lld elements, not one", name, shown(elements));
}

void out_of_range(int64_t value, const char* name, const char* range, int line) {
  fail(line, "%s is %lld, not in %s", name, shown(value), range);
}

void out_of_range(double value, const char* name, const char* range, int line) {
  fail(line, "%s is %.17g, not in %s", name, value, range);
}

void assert_size_stride(
    AtenTensorHandle tensor, const Ints& sizes, const Ints& strides, const char* what,
    int line) {
  int64_t ndim = 0;
  int64_t* size = nullptr;
  int64_t* stride = nullptr;
  check(aoti_torch_get_dim(tensor, &ndim), line);
  check(aoti_torch_get_sizes(tensor, &size), line);
  check(aoti_torch_get_strides(tensor, &stride), line);
  bool same = ndim == sizes.count && ndim == strides.count;
  bool empty = false, alike = true;
  for (int64_t i = 0; same && i < ndim; ++i) {
    same = size[i] == sizes.data[i];
    empty = empty || size[i] == 0;
    alike = alike && (size[i] == 1 || stride[i] == strides.data[i]);
  }
  if (same && (empty || alike)) return;
  fail(
      line, "%s has size %s and stride %s, not %s and %s", what, spelled(size, ndim).c_str(),
      spelled(stride, ndim).c_str(), spelled(sizes.data, sizes.count).c_str(),
      spelled(strides.data, strides.count).c_str());
}

void assert_finite(
    const char* first, DType dtype, const Ints& sizes, const Ints& strides, const char* what,
    int line) {
  if (!all_finite(first, dtype, sizes, strides, 0)) fail(line, "%s", what);
}

}  // namespace num
}  // namespace wrapperir
