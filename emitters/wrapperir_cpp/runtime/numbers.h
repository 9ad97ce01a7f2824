// Numbers as expressions of a program mean them: ints that never wrap, division and
// remainder that round toward minus infinity, comparisons of an int with a float that are
// exact. Whatever has no value, or an int beyond 64 bits on the way, throws Failure; the
// message names the line of the source that was compiled.
//
// Functions that take ints are apart from those that take floats by their arguments' types;
// emitted code gives them no mix of the two, but a Number where only the run can say.
#pragma once

#include "runtime.h"

// The line of emitted source that a call stands on: an argument that costs a call nothing.
#define WRAPPERIR_HERE int here = __builtin_LINE()

namespace wrapperir {
namespace num {

// A number whose kind only the run knows, as that of `where(c, 1, 0.5)`.
struct Number {
  enum Kind : int32_t { boolean, integer, floating } kind;
  union {
    int64_t whole;  // of a bool, 0 or 1
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

// Stands where an expression was found to have no value before it ran.
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
inline double abs(double a) { return __builtin_fabs(a); }

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

// Correctly rounded also where an operand is no float64.
double truediv(int64_t a, int64_t b, WRAPPERIR_HERE);
inline double truediv(double a, double b, WRAPPERIR_HERE) {
  if (unlikely(b == 0)) undefined("truediv", a, b, here);
  return a / b;
}

// An int to the power of one that is not negative, or that is.
int64_t power(int64_t base, int64_t exponent, WRAPPERIR_HERE);
double power(double base, double exponent, WRAPPERIR_HERE);

// The first of the least, or greatest: what counts where one is NaN.
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

// The int that a number is; a failure where it is not whole.
int64_t whole(double value, WRAPPERIR_HERE);
inline int64_t whole(Number value, WRAPPERIR_HERE) {
  return value.kind == Number::floating ? whole(value.real, here) : value.whole;
}
// A count of bits to shift to the left by, of a float.
int64_t shift_count(double value, WRAPPERIR_HERE);
int64_t shift_count(Number value, WRAPPERIR_HERE);

Number add(Number a, Number b, WRAPPERIR_HERE);
Number sub(Number a, Number b, WRAPPERIR_HERE);
Number mul(Number a, Number b, WRAPPERIR_HERE);
double truediv(Number a, Number b, WRAPPERIR_HERE);
Number floordiv(Number a, Number b, WRAPPERIR_HERE);
Number mod(Number a, Number b, WRAPPERIR_HERE);
Number ceildiv(Number a, Number b, WRAPPERIR_HERE);
Number power(Number a, Number b, WRAPPERIR_HERE);
Number neg(Number a, WRAPPERIR_HERE);
Number abs(Number a, WRAPPERIR_HERE);
int64_t floor(Number a, WRAPPERIR_HERE);
int64_t ceil(Number a, WRAPPERIR_HERE);
int64_t trunc(Number a, WRAPPERIR_HERE);
int64_t round(Number a, WRAPPERIR_HERE);
bool operator==(Number a, Number b);
bool operator!=(Number a, Number b);
bool operator<(Number a, Number b);
bool operator<=(Number a, Number b);
bool operator>(Number a, Number b);
bool operator>=(Number a, Number b);

}  // namespace num

inline wrapperir_value output(num::Number number) {
  if (number.kind == num::Number::floating) return output(number.real);
  if (number.kind == num::Number::boolean) return output(number.whole != 0);
  return output(number.whole);
}

}  // namespace wrapperir
