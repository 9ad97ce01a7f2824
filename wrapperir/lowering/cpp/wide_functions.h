// Functions of f32 that are computed in f64, without branches, so that they round once:
// the error of each is at most 0.51 ulp, and remainders are exact.  Functions of f64 are
// the C library's.  What is not inlined, where several loops call it, is not vectorised.
// A kernel has the parts that it names; each begins after "//:" and its name.

//: wide_log
// log(a) in f64, to 38 bits, for numbers of f32 and their sums, products and quotients.
inline __attribute__((always_inline)) f64 wide_log(f64 a) {
  u64 bits = __builtin_bit_cast(u64, a), e = (bits + 0x00095f619980c433u) >> 52;
  f64 n = __builtin_bit_cast(f64, e | 0x4330000000000000u) - (0x1p52 + 1023);
  f64 m = __builtin_bit_cast(f64, bits - ((e - 1023) << 52));
  f64 s = (m - 1) / (m + 1), z = s * s;
  f64 p = 2.0 / 15;
  p = __builtin_fma(p, z, 2.0 / 13);
  p = __builtin_fma(p, z, 2.0 / 11);
  p = __builtin_fma(p, z, 2.0 / 9);
  p = __builtin_fma(p, z, 2.0 / 7);
  p = __builtin_fma(p, z, 2.0 / 5);
  p = __builtin_fma(p, z, 2.0 / 3);
  p = __builtin_fma(p * z, s, 2 * s);
  f64 result = __builtin_fma(n, 0x1.62e42fefa39efp-1, p);
  result = choose(a == 0, -__builtin_inf(), result);
  result = choose(a < __builtin_inf(), result, a);
  return choose(a < 0, __builtin_nan(""), result);
}

//: wide_exp2
// 2**a in f64, to 36 bits; what is out of the range of f32 stays so.
inline __attribute__((always_inline)) f64 wide_exp2(f64 a) {
  a = choose(a > 300, 300.0, choose(a < -300, -300.0, a));
  f64 shifted = a + 0x1.8p52, rest = (a - (shifted - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
  f64 p = 1.0 / 362880;
  p = __builtin_fma(p, rest, 1.0 / 40320);
  p = __builtin_fma(p, rest, 1.0 / 5040);
  p = __builtin_fma(p, rest, 1.0 / 720);
  p = __builtin_fma(p, rest, 1.0 / 120);
  p = __builtin_fma(p, rest, 1.0 / 24);
  p = __builtin_fma(p, rest, 1.0 / 6);
  p = __builtin_fma(p, rest, 0.5);
  p = __builtin_fma(p, rest, 1.0);
  p = __builtin_fma(p, rest, 1.0);
  u64 scale = (__builtin_bit_cast(u64, shifted) + 1023) << 52;
  return p * __builtin_bit_cast(f64, scale);
}

//: wide_atan
// atan(a / b) in f64, to 35 bits, for a, b >= 0, one of them finite and one not zero; the
// coefficients are fitted from 0 to tan(pi/8).
inline __attribute__((always_inline)) f64 wide_atan(f64 a, f64 b) {
  bool low = a <= b * 0x1.a827999fcef32p-2, high = a > b * 0x1.3504f333f9de6p+1;
  f64 over = choose(high, -b, choose(low, a, a - b));
  f64 under = choose(high, a, choose(low, b, a + b));
  f64 begin = choose(high, 0x1.921fb54442d18p+0, choose(low, 0.0, 0x1.921fb54442d18p-1));
  f64 t = over / under, z = t * t;
  f64 p = 0x1.84fa8aca7753dp-5;
  p = __builtin_fma(p, z, -0x1.5b4687cf69ba8p-4);
  p = __builtin_fma(p, z, 0x1.c4683319c9dd1p-4);
  p = __builtin_fma(p, z, -0x1.247f0860faf71p-3);
  p = __builtin_fma(p, z, 0x1.99991a57fb76fp-3);
  p = __builtin_fma(p, z, -0x1.555554c8ad4bfp-2);
  return begin + __builtin_fma(p * z, t, t);
}

//: atan
inline __attribute__((always_inline)) f32 atan(f32 a) {
  return __builtin_copysignf(f32(wide_atan(__builtin_fabs(f64(a)), 1)), a);
}
namespace libm { extern "C" double atan(double); }
inline f64 atan(f64 a) { return libm::atan(a); }

//: asin
inline __attribute__((always_inline)) f32 asin(f32 a) {
  f64 x = __builtin_fabs(f64(a));
  return __builtin_copysignf(f32(wide_atan(x, sqrt((1 - x) * (1 + x)))), a);
}
namespace libm { extern "C" double asin(double); }
inline f64 asin(f64 a) { return libm::asin(a); }

//: acos
inline __attribute__((always_inline)) f32 acos(f32 a) {
  f64 x = __builtin_fabs(f64(a)), result = wide_atan(sqrt((1 - x) * (1 + x)), x);
  return f32(choose(a < 0, 0x1.921fb54442d18p+1 - result, result));
}
namespace libm { extern "C" double acos(double); }
inline f64 acos(f64 a) { return libm::acos(a); }

//: sinh
inline __attribute__((always_inline)) f32 sinh(f32 a) {
  f64 x = __builtin_fabs(f64(a)), z = x * x, e = wide_exp2(x * 0x1.71547652b82fep+0);
  f64 p = __builtin_fma(1.0 / 362880, z, 1.0 / 5040);
  p = __builtin_fma(p, z, 1.0 / 120);
  p = __builtin_fma(p, z, 1.0 / 6);
  p = __builtin_fma(p * z, x, x);
  return __builtin_copysignf(f32(choose(x < 0.5, p, (e - 1 / e) * 0.5)), a);
}
namespace libm { extern "C" double sinh(double); }
inline f64 sinh(f64 a) { return libm::sinh(a); }

//: cosh
inline __attribute__((always_inline)) f32 cosh(f32 a) {
  f64 e = wide_exp2(f64(a) * 0x1.71547652b82fep+0);
  return f32((e + 1 / e) * 0.5);
}
namespace libm { extern "C" double cosh(double); }
inline f64 cosh(f64 a) { return libm::cosh(a); }

//: erfc
// exp(-a * a) / (1 + a) times a polynomial of (a - 2) / (a + 2), to 31 bits, fitted to 10.1 (M. Shepherd and J. Laframboise).
inline __attribute__((always_inline)) f32 erfc(f32 a) {
  f64 x = __builtin_fabs(f64(a));
  x = choose(x > 11, 11.0, x);
  f64 z = (x - 2) / (x + 2);
  f64 p = __builtin_fma(0x1.3799d2e559552p-15, z, 0x1.969c2ff1c72a0p-14);
  p = __builtin_fma(p, z, -0x1.0724fab984e1dp-13);
  p = __builtin_fma(p, z, -0x1.6ad9b264603ebp-11);
  p = __builtin_fma(p, z, 0x1.267b5112e90cfp-13);
  p = __builtin_fma(p, z, 0x1.01c17d6c1e789p-8);
  p = __builtin_fma(p, z, -0x1.0f622fad4ef05p-11);
  p = __builtin_fma(p, z, -0x1.9d943fd29f2a7p-6);
  p = __builtin_fma(p, z, 0x1.5c7515ad689e7p-5);
  p = __builtin_fma(p, z, 0x1.35c56a3181a58p-5);
  p = __builtin_fma(p, z, -0x1.0a36d7e2b0339p-2);
  p = __builtin_fma(p, z, 0x1.8849aa9286e7ep-1);
  f64 result = p / (1 + x) * wide_exp2(x * x * -0x1.71547652b82fep+0);
  return f32(choose(a < 0, 2 - result, result));
}
namespace libm { extern "C" double erfc(double); }
inline f64 erfc(f64 a) { return libm::erfc(a); }

//: wide_tan
// tan(rest + number * pi / 2) in f64, to 35 bits, by the series of sine and cosine.
inline __attribute__((always_inline)) f64 wide_tan(u32 number, f64 rest) {
  f64 z = rest * rest;
  f64 p = __builtin_fma(-1.0 / 39916800, z, 1.0 / 362880);
  p = __builtin_fma(p, z, -1.0 / 5040);
  p = __builtin_fma(p, z, 1.0 / 120);
  p = __builtin_fma(p, z, -1.0 / 6);
  p = __builtin_fma(p * z, rest, rest);
  f64 q = __builtin_fma(1.0 / 479001600, z, -1.0 / 3628800);
  q = __builtin_fma(q, z, 1.0 / 40320);
  q = __builtin_fma(q, z, -1.0 / 720);
  q = __builtin_fma(q, z, 1.0 / 24);
  q = __builtin_fma(q, z, -0.5);
  q = __builtin_fma(q, z, 1.0);
  bool is_odd = (number & 1) != 0;
  return choose(is_odd, -q, p) / choose(is_odd, p, q);
}

//: tan
inline __attribute__((always_inline)) f32 tan(f32 a) {
  quadrant q = split_angle(a);
  return choose(a == 0, a, f32(wide_tan(q.number, q.rest)) + (a - a));
}
namespace libm { extern "C" double tan(double); }
inline f64 tan(f64 a) { return libm::tan(a); }

//: near_tan
inline __attribute__((always_inline)) f32 near_tan(f32 a) {
  quadrant q = split_near_angle(a);
  return choose(a == 0, a, f32(wide_tan(q.number, q.rest)));
}

//: asinh
inline __attribute__((always_inline)) f32 asinh(f32 a) {
  f64 x = __builtin_fabs(f64(a)), z = x * x;
  f64 near = __builtin_fma(z * (-1.0 / 6), x, x);
  f64 far = wide_log(x + sqrt(z + 1));
  return __builtin_copysignf(f32(choose(x < 0x1p-8, near, far)), a);
}
namespace libm { extern "C" double asinh(double); }
inline f64 asinh(f64 a) { return libm::asinh(a); }

//: acosh
inline __attribute__((always_inline)) f32 acosh(f32 a) {
  f64 x = a, result = wide_log(x + sqrt((x - 1) * (x + 1)));
  return f32(choose(x >= 1, result, __builtin_nan("")));
}
namespace libm { extern "C" double acosh(double); }
inline f64 acosh(f64 a) { return libm::acosh(a); }

//: atanh
inline __attribute__((always_inline)) f32 atanh(f32 a) {
  f64 x = __builtin_fabs(f64(a)), near = __builtin_fma(x * x * (1.0 / 3), x, x);
  f64 far = 0.5 * wide_log((1 + x) / (1 - x));
  return __builtin_copysignf(f32(choose(x < 0x1p-8, near, far)), a);
}
namespace libm { extern "C" double atanh(double); }
inline f64 atanh(f64 a) { return libm::atanh(a); }

//: atan2
inline __attribute__((always_inline)) f32 atan2(f32 a, f32 b) {
  f64 y = __builtin_fabs(f64(a)), x = __builtin_fabs(f64(b));
  bool is_same = y == x;  // both may be zero or infinite
  f64 over = choose(is_same & (y != 0), 1.0, y), under = choose(is_same, 1.0, x);
  f64 result = wide_atan(over, under);
  result = choose(bits_of(b) >> 31 != 0, 0x1.921fb54442d18p+1 - result, result);
  return __builtin_copysignf(f32(choose(x != x, x, result)), a);
}
namespace libm { extern "C" double atan2(double, double); }
inline f64 atan2(f64 a, f64 b) { return libm::atan2(a, b); }

//: hypot
inline __attribute__((always_inline)) f32 hypot(f32 a, f32 b) {
  f64 x = __builtin_fabs(f64(a)), y = __builtin_fabs(f64(b)), far = __builtin_inf();
  return f32(choose((x == far) | (y == far), far, sqrt(x * x + y * y)));
}
namespace libm { extern "C" double hypot(double, double); }
inline f64 hypot(f64 a, f64 b) { return libm::hypot(a, b); }

//: pow
// As in C: 1 where the exponent is 0 or the base is 1, and where -1 has an infinite one.
inline __attribute__((always_inline)) f32 pow(f32 a, f32 b) {
  f64 x = __builtin_fabs(f64(a)), far = __builtin_inf();
  f64 result = wide_exp2(wide_log(x) * (b * 0x1.71547652b82fep+0));
  f32 half = b * 0.5f;
  bool is_whole = __builtin_rintf(b) == b;
  bool is_odd = is_whole & (__builtin_rintf(half) != half);
  result = choose((bits_of(a) >> 31 != 0) & is_odd, -result, result);
  result = choose((a < 0) & !is_whole & (x < far), __builtin_nan(""), result);
  bool is_one = (b == 0) | (a == 1) | ((x == 1) & (__builtin_fabsf(b) == __builtin_inff()));
  return f32(choose(is_one, 1.0, result));
}
namespace libm { extern "C" double pow(double, double); }
inline f64 pow(f64 a, f64 b) { return libm::pow(a, b); }

//: real_fmod
// Each step takes a whole multiple of b away, with the 51 highest bits of the quotient or
// all of it; what is left has few bits, so that nothing is rounded.  A quotient has at most
// 277 bits, and the last is one too much or too little.
inline __attribute__((always_inline)) f32 real_fmod(f32 a, f32 b) {
  f64 x = __builtin_fabs(f64(a)), y = __builtin_fabs(f64(b)), by = 1 / y, rest = x;
#pragma GCC unroll 6
  for (int step = 0; step < 6; ++step)
    rest = __builtin_fma(-__builtin_trunc(rest * by), y, rest);
  rest = choose(rest < 0, rest + y, rest);
  rest = choose(rest >= y, rest - y, rest);
  rest = choose((y == __builtin_inf()) & (x < y), x, rest);
  return __builtin_copysignf(f32(rest), a);
}
