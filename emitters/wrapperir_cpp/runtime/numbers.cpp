#include "numbers.h"

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

constexpr double two_to_63 = 9223372036854775808.0;

// The sign of a - b, exactly; b is not NaN.
int compared(int64_t a, double b) {
  if (b >= two_to_63) return -1;
  if (b < -two_to_63) return 1;
  int64_t below = static_cast<int64_t>(::floor(b));
  if (a != below) return a < below ? -1 : 1;
  return static_cast<double>(below) < b ? -1 : 0;
}

int64_t fitting(const char* operation, double rounded, double value, int here) {
  // Also false for NaN.
  if (rounded >= -two_to_63 && rounded < two_to_63) return static_cast<int64_t>(rounded);
  fail(-1, "program.cpp:%d: %s(%.17g) is not a 64-bit int", here, operation, value);
}

// The parts of a small float: a sign bit, an exponent and a mantissa.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  enum Specials {
    ieee,          // the largest exponent stands for infinities and NaN
    all_ones,      // NaN has all ones
    negative_zero  // the only NaN has the bits of -0
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

void no_value(const char* why, int here) { fail(-1, "program.cpp:%d: %s", here, why); }

void overflow(const char* operation, int64_t a, int64_t b, int here) {
  fail(-1, "program.cpp:%d: %s(%lld, %lld) does not fit 64 bits", here, operation,
       shown(a), shown(b));
}

void undefined(const char* operation, int64_t a, int64_t b, int here) {
  fail(-1, "program.cpp:%d: %s(%lld, %lld) has no value", here, operation,
       shown(a), shown(b));
}

void undefined(const char* operation, double a, double b, int here) {
  fail(-1, "program.cpp:%d: %s(%.17g, %.17g) has no value", here, operation, a, b);
}

// As Python divides floats.
double floordiv(double a, double b, int here) {
  if (b == 0) undefined("floordiv", a, b, here);
  double rest = fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0) return copysign(0.0, a / b);
  double below = ::floor(quotient);
  return quotient - below > 0.5 ? below + 1.0 : below;
}

double mod(double a, double b, int here) {
  if (b == 0) undefined("mod", a, b, here);
  double rest = fmod(a, b);
  if (rest == 0) return copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

double ceildiv(double a, double b, int here) { return -floordiv(-a, b, here); }

double truediv(int64_t a, int64_t b, int here) {
  if (b == 0) undefined("truediv", a, b, here);
  constexpr int64_t exact = int64_t{1} << 53;
  if (-exact <= a && a <= exact && -exact <= b && b <= exact)
    return static_cast<double>(a) / static_cast<double>(b);
  bool negative = (a < 0) != (b < 0);
  if (a == 0) return negative ? -0.0 : 0.0;
  // More bits of the quotient than a double has, the last for all that follow.
  uint64_t over = a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t under = b < 0 ? 0 - static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  int shift_over = __builtin_clzll(over), shift_under = __builtin_clzll(under);
  unsigned __int128 shifted = static_cast<unsigned __int128>(over << shift_over) << 62;
  uint64_t divisor = under << shift_under;
  uint64_t quotient = static_cast<uint64_t>(shifted / divisor);
  if (shifted % divisor != 0) quotient |= 1;
  double result = ldexp(static_cast<double>(quotient), shift_under - shift_over - 62);
  return negative ? -result : result;
}

int64_t power(int64_t base, int64_t exponent, int here) {
  // The bound of what the program's own evaluation computes.
  constexpr int64_t most_bits = 1024;
  uint64_t size = base < 0 ? 0 - static_cast<uint64_t>(base) : static_cast<uint64_t>(base);
  int64_t bits = size == 0 ? 0 : 64 - __builtin_clzll(size);
  if (exponent < 0) undefined("pow", base, exponent, here);
  if (bits != 0 && exponent > most_bits / bits) overflow("pow", base, exponent, here);
  if (bits == 0) return exponent == 0;
  int64_t result = 1;
  for (int64_t count = exponent; count > 0; --count)
    if (__builtin_mul_overflow(result, base, &result)) overflow("pow", base, exponent, here);
  return result;
}

// As Python raises floats, special cases included.
double power(double base, double exponent, int here) {
  if (exponent == 0 || base == 1.0) return 1.0;
  if (isnan(base) || isnan(exponent)) return isnan(base) ? base : exponent;
  double result = pow(base, exponent);
  if (isinf(base) || isinf(exponent)) return result;
  bool complex = base < 0 && exponent != ::floor(exponent);
  if (complex || isinf(result)) undefined("pow", base, exponent, here);
  return result;
}

int64_t shl(int64_t value, int64_t count, int here) {
  if (count < 0 || count > 1024) undefined("shl", value, count, here);
  if (value == 0) return 0;
  int64_t result;
  if (count > 62) {
    if (count == 63 && value == -1) return INT64_MIN;
    overflow("shl", value, count, here);
  }
  if (__builtin_mul_overflow(value, int64_t{1} << count, &result))
    overflow("shl", value, count, here);
  return result;
}

int64_t floor(double value, int here) { return fitting("floor", ::floor(value), value, here); }
int64_t ceil(double value, int here) { return fitting("ceil", ::ceil(value), value, here); }
int64_t trunc(double value, int here) { return fitting("trunc", ::trunc(value), value, here); }
int64_t round(double value, int here) { return fitting("round", rint(value), value, here); }

double sqrt(double value, int here) {
  if (value < 0) undefined("sqrt", value, 0.5, here);
  return ::sqrt(value);
}

double log2(double value, int here) {
  if (value <= 0) undefined("log2", value, 2.0, here);
  return ::log2(value);
}

int64_t whole(double value, int here) {
  if (::floor(value) != value)  // NaN too; an infinity is refused below
    fail(-1, "program.cpp:%d: %.17g is not a whole number", here, value);
  return fitting("int", value, value, here);
}

int64_t shift_count(double value, int here) {
  if (value > 1024) undefined("shl", 0.0, value, here);
  return trunc(value, here);
}

Number power(Number a, Number b, int here) {
  bool in_floats = any_float(a, b) || b.whole < 0;
  return in_floats ? of_float(power(double(a), double(b), here))
                   : of_int(power(a.whole, b.whole, here));
}

int compared(Number a, Number b) {
  bool real_a = a.kind == Number::floating, real_b = b.kind == Number::floating;
  if ((real_a && isnan(a.real)) || (real_b && isnan(b.real))) return 2;
  if (real_a && real_b) return (a.real > b.real) - (a.real < b.real);
  if (real_a) return -compared(b.whole, a.real);
  if (real_b) return compared(a.whole, b.real);
  return (a.whole > b.whole) - (a.whole < b.whole);
}

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

void out_of_range(int64_t value, const char* range, int line) {
  fail(line, "Expected %s but received %lld", range, shown(value));
}

void out_of_range(double value, const char* range, int line) {
  fail(line, "Expected %s but received %.17g", range, value);
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
