#include "numbers.h"

#include <math.h>

namespace wrapperir {
namespace num {
namespace {

constexpr double two_to_63 = 9223372036854775808.0;

// Compare an int with a float, exactly: the sign of a - b; b is no NaN.
int compared(int64_t a, double b) {
  if (b >= two_to_63) return -1;
  if (b < -two_to_63) return 1;
  int64_t below = static_cast<int64_t>(::floor(b));
  if (a != below) return a < below ? -1 : 1;
  return static_cast<double>(below) < b ? -1 : 0;
}

// The sign of a - b; 2 where one is NaN, so that nothing but != holds.
int compared(Number a, Number b) {
  bool real_a = a.kind == Number::floating, real_b = b.kind == Number::floating;
  if ((real_a && isnan(a.real)) || (real_b && isnan(b.real))) return 2;
  if (real_a && real_b) return (a.real > b.real) - (a.real < b.real);
  if (real_a) return -compared(b.whole, a.real);
  if (real_b) return compared(a.whole, b.real);
  return (a.whole > b.whole) - (a.whole < b.whole);
}

bool any_real(Number a, Number b) {
  return a.kind == Number::floating || b.kind == Number::floating;
}

int64_t fitting(const char* operation, double rounded, double value, int here) {
  // Also false for NaN.
  if (rounded >= -two_to_63 && rounded < two_to_63) return static_cast<int64_t>(rounded);
  fail(-1, "program.cpp:%d: %s(%.17g) is no 64-bit int", here, operation, value);
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

int64_t shift_count(Number value, int here) {
  return value.kind == Number::floating ? shift_count(value.real, here) : value.whole;
}

Number add(Number a, Number b, int here) {
  return any_real(a, b) ? of_float(double(a) + double(b)) : of_int(add(a.whole, b.whole, here));
}

Number sub(Number a, Number b, int here) {
  return any_real(a, b) ? of_float(double(a) - double(b)) : of_int(sub(a.whole, b.whole, here));
}

Number mul(Number a, Number b, int here) {
  return any_real(a, b) ? of_float(double(a) * double(b)) : of_int(mul(a.whole, b.whole, here));
}

double truediv(Number a, Number b, int here) {
  return any_real(a, b) ? truediv(double(a), double(b), here) : truediv(a.whole, b.whole, here);
}

#define IN_INTS_OR_FLOATS(function)                                          \
  Number function(Number a, Number b, int here) {                            \
    return any_real(a, b) ? of_float(function(double(a), double(b), here))       \
                          : of_int(function(a.whole, b.whole, here));        \
  }
IN_INTS_OR_FLOATS(floordiv)
IN_INTS_OR_FLOATS(mod)
IN_INTS_OR_FLOATS(ceildiv)

Number power(Number a, Number b, int here) {
  bool in_floats = any_real(a, b) || b.whole < 0;
  return in_floats ? of_float(power(double(a), double(b), here))
                   : of_int(power(a.whole, b.whole, here));
}

Number neg(Number a, int here) {
  return a.kind == Number::floating ? of_float(-a.real) : of_int(neg(a.whole, here));
}

Number abs(Number a, int here) {
  return a.kind == Number::floating ? of_float(fabs(a.real)) : of_int(abs(a.whole, here));
}

#define ROUNDED(function)                                                    \
  int64_t function(Number a, int here) {                                     \
    return a.kind == Number::floating ? function(a.real, here) : a.whole;    \
  }
ROUNDED(floor)
ROUNDED(ceil)
ROUNDED(trunc)
ROUNDED(round)

bool operator==(Number a, Number b) { return compared(a, b) == 0; }
bool operator!=(Number a, Number b) { return compared(a, b) != 0; }
bool operator<(Number a, Number b) { return compared(a, b) == -1; }
bool operator<=(Number a, Number b) { return compared(a, b) <= 0; }
bool operator>(Number a, Number b) { return compared(a, b) == 1; }
bool operator>=(Number a, Number b) {
  int order = compared(a, b);
  return order == 0 || order == 1;
}

}  // namespace num
}  // namespace wrapperir
