/* Numbers of programs in C and C++: whole numbers of 64 bits, and doubles.

   A step without a value, or with one of more than 64 bits, sets `*fault` to a message; the
   code then stops before it uses the result. */
#ifndef WIR_NUMBERS_H
#define WIR_NUMBERS_H

#include <stdint.h>

static const char *const wir_overflow = "a number does not fit 64 bits";
static const char *const wir_division = "division by zero";

static inline int64_t wir_add(int64_t a, int64_t b, const char **fault) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) *fault = wir_overflow;
  return result;
}

static inline int64_t wir_sub(int64_t a, int64_t b, const char **fault) {
  int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) *fault = wir_overflow;
  return result;
}

static inline int64_t wir_mul(int64_t a, int64_t b, const char **fault) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) *fault = wir_overflow;
  return result;
}

/* Quotients are rounded down, and remainders have the sign of the divisor. */
static inline int64_t wir_floordiv(int64_t a, int64_t b, const char **fault) {
  if (b == 0) {
    *fault = wir_division;
    return 1;
  }
  if (b == -1) return wir_sub(0, a, fault);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t wir_mod(int64_t a, int64_t b, const char **fault) {
  int64_t rest;
  if (b == 0) {
    *fault = wir_division;
    return 0;
  }
  rest = b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline int64_t wir_ceildiv(int64_t a, int64_t b, const char **fault) {
  return wir_sub(0, wir_floordiv(wir_sub(0, a, fault), b, fault), fault);
}

static inline int64_t wir_min(int64_t a, int64_t b) { return b < a ? b : a; }

static inline int64_t wir_max(int64_t a, int64_t b) { return b > a ? b : a; }

static inline double wir_truediv(double a, double b, const char **fault) {
  if (b == 0) {
    *fault = wir_division;
    return 0;
  }
  return a / b;
}

/* A double as the whole number of the same value. */
static inline int64_t wir_whole(double value, const char **fault) {
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) {
    *fault = wir_overflow;
    return 0;
  }
  if ((double)(int64_t)value != value) *fault = "a number is not whole";
  return (int64_t)value;
}

/* A double without its fraction. */
static inline int64_t wir_trunc(double value, const char **fault) {
  if (value >= -9223372036854775808.0 && value < 9223372036854775808.0) return (int64_t)value;
  *fault = wir_overflow;
  return 0;
}

#endif
