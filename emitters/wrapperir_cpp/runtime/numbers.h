// The arithmetic of a program's expressions, and what is read from tensors and asserted.
//
// Ints never wrap, division and remainder round toward minus infinity, and comparisons of an
// int with a float are exact. An expression without a value, or with an int beyond 64 bits,
// throws Failure; the message names the line of the compiled source.
//
// Overloads differ by ints and floats. Emitted code never mixes the two in a call; if only the
// run decides the kind, it passes a Number.
#pragma once

#include "runtime.h"

extern "C" {
AOTITorchError aoti_torch_get_size(AtenTensorHandle, int64_t, int64_t*);
AOTITorchError aoti_torch_get_stride(AtenTensorHandle, int64_t, int64_t*);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle, int64_t*);
}

// The line of emitted source of a call; the argument is only read in a failure.
#define WRAPPERIR_HERE int here = __builtin_LINE()

namespace wrapperir {
namespace num {

// A number whose kind is known in the run only, such as `where(c, 1, 0.5)`.
struct Number {
  enum Kind : int32_t { boolean, integer, floating } kind;
  union {
    int64_t whole;  // 0 or 1 for a bool
    double real;
  };
  explicit operator bool() const { return kind == floating ? real != 0 : whole != 0; }
  explicit operator double() const { return kind == floating ? real : double(whole); }
};
inline Number of_bool(bool value) { return {Number::boolean, {value}}; }
inline Number of_int(int64_t value) { return {Number::integer, {value}}; }
inline Number of_float(double value) {
  Number number{Number::floating, {}};
  number.real = value;
  return number;
}

// Failures: an operation, its operands, and why it has no value.
[[noreturn]] void no_value(const char* why, int here);
[[noreturn]] void overflow(const char* operation, int64_t a, int64_t b, int here);
[[noreturn]] void undefined(const char* operation, int64_t a, int64_t b, int here);
[[noreturn]] void undefined(const char* operation, double a, double b, int here);

// Stands for an expression that is known to have no value.
template <typename T>
[[noreturn]] inline T absent(const char* why, WRAPPERIR_HERE) {
  no_value(why, here);
}

inline bool unlikely(bool condition) { return __builtin_expect(condition, 0); }

inline int64_t add(int64_t a, int64_t b, WRAPPERIR_HERE) {
  int64_t result;
  if (unlikely(__builtin_add_overflow(a, b, &result))) overflow("add", a, b, here);
  return result;
}
inline int64_t sub(int64_t a, int64_t b, WRAPPERIR_HERE) {
  int64_t result;
  if (unlikely(__builtin_sub_overflow(a, b, &result))) overflow("sub", a, b, here);
  return result;
}
inline int64_t mul(int64_t a, int64_t b, WRAPPERIR_HERE) {
  int64_t result;
  if (unlikely(__builtin_mul_overflow(a, b, &result))) overflow("mul", a, b, here);
  return result;
}
inline int64_t neg(int64_t a, WRAPPERIR_HERE) {
  if (unlikely(a == INT64_MIN)) overflow("neg", a, 0, here);
  return -a;
}
inline int64_t abs(int64_t a, WRAPPERIR_HERE) { return a < 0 ? neg(a, here) : a; }
inline double abs(double a, int = 0) { return __builtin_fabs(a); }

inline int64_t floordiv(int64_t a, int64_t b, WRAPPERIR_HERE) {
  if (unlikely(b == 0)) undefined("floordiv", a, b, here);
  if (unlikely(b == -1)) return neg(a, here);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
inline int64_t mod(int64_t a, int64_t b, WRAPPERIR_HERE) {
  if (unlikely(b == 0)) undefined("mod", a, b, here);
  if (unlikely(b == -1)) return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline int64_t ceildiv(int64_t a, int64_t b, WRAPPERIR_HERE) {
  if (unlikely(b == 0)) undefined("ceildiv", a, b, here);
  if (unlikely(b == -1)) return neg(a, here);
  return a / b + (a % b != 0 && (a < 0) == (b < 0));
}
double floordiv(double a, double b, WRAPPERIR_HERE);
double mod(double a, double b, WRAPPERIR_HERE);
double ceildiv(double a, double b, WRAPPERIR_HERE);

// Correctly rounded, also if an operand is not exact in binary64.
double truediv(int64_t a, int64_t b, WRAPPERIR_HERE);
inline double truediv(double a, double b, WRAPPERIR_HERE) {
  if (unlikely(b == 0)) undefined("truediv", a, b, here);
  return a / b;
}

int64_t power(int64_t base, int64_t exponent, WRAPPERIR_HERE);
double power(double base, double exponent, WRAPPERIR_HERE);

// Of equal numbers, or if one is NaN, the first.
template <typename T>
inline T least(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
inline T greatest(T a, T b) {
  return b > a ? b : a;
}

int64_t shl(int64_t value, int64_t count, WRAPPERIR_HERE);
inline int64_t shr(int64_t value, int64_t count, WRAPPERIR_HERE) {
  if (unlikely(count < 0)) undefined("shr", value, count, here);
  return value >> (count < 63 ? count : 63);
}

int64_t floor(double value, WRAPPERIR_HERE);
int64_t ceil(double value, WRAPPERIR_HERE);
int64_t trunc(double value, WRAPPERIR_HERE);
int64_t round(double value, WRAPPERIR_HERE);  // half to even
double sqrt(double value, WRAPPERIR_HERE);
double log2(double value, WRAPPERIR_HERE);

// A number as an int; fails if it is not whole.
int64_t whole(double value, WRAPPERIR_HERE);
inline int64_t whole(Number value, WRAPPERIR_HERE) {
  return value.kind == Number::floating ? whole(value.real, here) : value.whole;
}
// A float as the number of bits to shift to the left.
int64_t shift_count(double value, WRAPPERIR_HERE);
inline int64_t shift_count(Number value, WRAPPERIR_HERE) {
  return value.kind == Number::floating ? shift_count(value.real, here) : value.whole;
}

// The same operations on Numbers: in floats if any operand is a float, otherwise in ints.
inline bool any_float(Number a, Number b) {
  return a.kind == Number::floating || b.kind == Number::floating;
}
inline double add(double a, double b, int) { return a + b; }
inline double sub(double a, double b, int) { return a - b; }
inline double mul(double a, double b, int) { return a * b; }
inline double neg(double a, int) { return -a; }
#define WRAPPERIR_OF_TWO(function)                                           \
  inline Number function(Number a, Number b, WRAPPERIR_HERE) {               \
    return any_float(a, b) ? of_float(function(double(a), double(b), here))  \
                           : of_int(function(a.whole, b.whole, here));       \
  }
#define WRAPPERIR_OF_ONE(function)                                           \
  inline Number function(Number a, WRAPPERIR_HERE) {                         \
    return a.kind == Number::floating ? of_float(function(a.real, here))     \
                                      : of_int(function(a.whole, here));     \
  }
#define WRAPPERIR_ROUNDED(function)                                          \
  inline int64_t function(Number a, WRAPPERIR_HERE) {                        \
    return a.kind == Number::floating ? function(a.real, here) : a.whole;    \
  }
WRAPPERIR_OF_TWO(add) WRAPPERIR_OF_TWO(sub) WRAPPERIR_OF_TWO(mul)
WRAPPERIR_OF_TWO(floordiv) WRAPPERIR_OF_TWO(mod) WRAPPERIR_OF_TWO(ceildiv)
WRAPPERIR_OF_ONE(neg) WRAPPERIR_OF_ONE(abs)
WRAPPERIR_ROUNDED(floor) WRAPPERIR_ROUNDED(ceil) WRAPPERIR_ROUNDED(trunc) WRAPPERIR_ROUNDED(round)
inline double truediv(Number a, Number b, WRAPPERIR_HERE) {
  return any_float(a, b) ? truediv(double(a), double(b), here)
                         : truediv(a.whole, b.whole, here);
}
Number power(Number base, Number exponent, WRAPPERIR_HERE);

// The sign of a - b, exactly; 2 if one is NaN, so that only != holds.
int compared(Number a, Number b);
inline bool operator==(Number a, Number b) { return compared(a, b) == 0; }
inline bool operator!=(Number a, Number b) { return compared(a, b) != 0; }
inline bool operator<(Number a, Number b) { return compared(a, b) == -1; }
inline bool operator<=(Number a, Number b) { return compared(a, b) <= 0; }
inline bool operator>(Number a, Number b) { return compared(a, b) == 1; }
inline bool operator>=(Number a, Number b) { return compared(b, a) <= 0; }

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

// The one element of a tensor, by PyTorch's function for its type, which waits for a device.
template <typename T>
T item_of(AOTITorchError (*read)(AtenTensorHandle, T*), AtenTensorHandle tensor, int line) {
  T value{};
  check(read(tensor, &value), line);
  return value;
}
// The value of a float of 16 or 8 bits.
double small_float(DType dtype, uint32_t bits);
// An unsigned number as an int of 64 bits.
inline int64_t signed_int(uint64_t value, int line) {
  if (unlikely(value > INT64_MAX))
    fail(line, "%llu does not fit 64 bits", static_cast<unsigned long long>(value));
  return static_cast<int64_t>(value);
}
void check_one(int64_t elements, const char* name, int line);

[[noreturn]] void out_of_range(int64_t value, const char* range, int line);
[[noreturn]] void out_of_range(double value, const char* range, int line);
// Check a symbol against its range, which messages name as `u0 >= 2`; NaN is in no range.
inline void check_range(
    int64_t value, int64_t lower, int64_t upper, const char* range, int line) {
  if (unlikely(value < lower || value > upper)) out_of_range(value, range, line);
}
inline void check_range(
    double value, double lower, double upper, const char* range, int line) {
  if (unlikely(!(lower <= value && value <= upper))) out_of_range(value, range, line);
}

// Asserts; `what` is the message.
void assert_size_stride(
    AtenTensorHandle tensor, const Ints& sizes, const Ints& strides, const char* what, int line);
inline void assert_alignment(const char* address, uint64_t bytes, const char* what, int line) {
  if (unlikely(reinterpret_cast<uintptr_t>(address) % bytes != 0)) fail(line, "%s", what);
}
// Fails if an element in the CPU's memory is NaN or infinite.
void assert_finite(
    const char* first, DType dtype, const Ints& sizes, const Ints& strides, const char* what,
    int line);

}  // namespace num

inline wrapperir_value output(num::Number number) {
  if (number.kind == num::Number::floating) return output(number.real);
  if (number.kind == num::Number::boolean) return output(number.whole != 0);
  return output(number.whole);
}

}  // namespace wrapperir
