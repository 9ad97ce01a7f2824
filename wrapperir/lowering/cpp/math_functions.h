// Mathematical functions of f32, without branches: compilers turn loops over them into vector
// instructions.  The error of each is at most 2 ulp for all arguments, which
// bench/lowering/math_errors.py checks.  Functions of f64 are the C library's.
// All are inlined: of many in one source GCC leaves out some, and loops that call those are
// not vectorised.
// A kernel has the parts that it names; each begins after "//:" and its name.

//: bits_of
inline __attribute__((always_inline)) u32 bits_of(f32 a) { return __builtin_bit_cast(u32, a); }

//: of_bits
inline __attribute__((always_inline)) f32 of_bits(u32 a) { return __builtin_bit_cast(f32, a); }

//: choose
// c ? a : b, which may not become a branch: with many, loops are not vectorised.
inline __attribute__((always_inline)) u32 choose(bool c, u32 a, u32 b) { u32 m = -u32(c); return (a & m) | (b & ~m); }
inline __attribute__((always_inline)) f32 choose(bool c, f32 a, f32 b) {
  return of_bits(choose(c, bits_of(a), bits_of(b)));
}
inline __attribute__((always_inline)) u64 choose(bool c, u64 a, u64 b) { u64 m = -u64(c); return (a & m) | (b & ~m); }
inline __attribute__((always_inline)) f64 choose(bool c, f64 a, f64 b) {
  u64 first = __builtin_bit_cast(u64, a), other = __builtin_bit_cast(u64, b);
  return __builtin_bit_cast(f64, choose(c, first, other));
}

//: sqrt
// Never of a negative number, for which flags may want errno: so loops have vectors of roots.
inline __attribute__((always_inline)) f32 sqrt(f32 a) { return __builtin_sqrtf(a < 0 ? __builtin_nanf("") : a); }
inline f64 sqrt(f64 a) { return __builtin_sqrt(a < 0 ? __builtin_nan("") : a); }

//: small_expm1
// exp(a) - 1 for -ln(2)/2 <= a <= ln(2)/2; coefficients of Cephes (S. L. Moshier).
inline __attribute__((always_inline)) f32 small_expm1(f32 a) {
  f32 p = 1.9875691500e-4f;
  p = __builtin_fmaf(p, a, 1.3981999507e-3f);
  p = __builtin_fmaf(p, a, 8.3334519073e-3f);
  p = __builtin_fmaf(p, a, 4.1665795894e-2f);
  p = __builtin_fmaf(p, a, 1.6666665459e-1f);
  p = __builtin_fmaf(p, a, 5.0000001201e-1f);
  return __builtin_fmaf(p, a * a, a);
}

//: exp_parts
// a = n * ln(2) + rest; n is also in the low bits of shifted, below 1.5 * 2**23.
struct exp_parts { f32 shifted, n, rest; };
inline __attribute__((always_inline)) exp_parts split_exp(f32 a) {
  f32 shifted = __builtin_fmaf(a, 1.44269504f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  f32 rest = __builtin_fmaf(n, -0.693359375f, a);
  return {shifted, n, __builtin_fmaf(n, 2.12194440e-4f, rest)};
}

//: exp_of_normal
// exp(a) for -87 <= a < 88.7
inline __attribute__((always_inline)) f32 exp_of_normal(f32 a) {
  exp_parts p = split_exp(a);
  return of_bits(bits_of(small_expm1(p.rest) + 1.0f) + (bits_of(p.shifted) << 23));
}

//: log_exponent
// The power of 2 by which a number is from 2/3 to 4/3, as bits of an exponent.
inline __attribute__((always_inline)) u32 log_exponent(f32 a) { return (bits_of(a) - 0x3f2aaaabu) & 0xff800000u; }

//: log_rest
// log(1 + m) for -1/3 <= m < 1/3, by N. Juffa.
inline __attribute__((always_inline)) f32 log_rest(f32 m) {
  f32 s = m * m;
  f32 r = -0x1.0ae000p-3f, t = 0x1.208000p-3f;
  r = __builtin_fmaf(r, s, -0x1.f198b2p-4f);
  t = __builtin_fmaf(t, s, 0x1.1e5740p-3f);
  r = __builtin_fmaf(r, s, -0x1.55b36cp-3f);
  t = __builtin_fmaf(t, s, 0x1.99d8b2p-3f);
  r = __builtin_fmaf(r, s, -0x1.fffe02p-3f);
  r = __builtin_fmaf(t, m, r);
  r = __builtin_fmaf(r, m, 0x1.5554fap-2f);
  r = __builtin_fmaf(r, m, -0.5f);
  return __builtin_fmaf(r, s, m);
}

//: log_parts
// log(a) = n * ln(2) + rest
struct log_parts { f32 n, rest; };
inline __attribute__((always_inline)) log_parts split_log(f32 a) {
  bool tiny = a < 0x1p-126f;
  a *= of_bits(0x3f800000u + u32(tiny) * (23u << 23));
  u32 e = log_exponent(a);
  f32 n = f32((i32(e) >> 23) - i32(tiny) * 23);
  return {n, log_rest(of_bits(bits_of(a) - e) - 1.0f)};
}

//: log_special
inline __attribute__((always_inline)) f32 log_special(f32 a, f32 result) {
  result = choose(a == 0, -__builtin_inff(), result);
  f32 other = choose(a < 0, __builtin_nanf(""), a);
  return choose((a >= 0) & (a < __builtin_inff()), result, other);
}

//: quadrant
// The quadrant of an angle and the rest: by W. Cody and W. Waite below 2**30, above by M. Payne and R. Hanek from 256 bits of 2/pi.
struct quadrant { u32 number; f64 rest; };
inline __attribute__((always_inline)) i32 is_far(f32 a) { return __builtin_fabsf(a) >= 0x1p30f; }
inline __attribute__((always_inline)) quadrant split_near_angle(f32 a) {
  f64 n = __builtin_rint(f64(a) * 0x1.45f306dc9c883p-1);
  f64 rest = __builtin_fma(n, -0x1.921fb54442d18p+0, f64(a));
  rest = __builtin_fma(n, -0x1.1a62633145c07p-54, rest);
  return {u32(i32(i64(n))), rest};
}
inline __attribute__((always_inline)) quadrant split_angle(f32 a) {
  quadrant near = split_near_angle(a);
  bool large = is_far(a);
  u64 shift = ((bits_of(a) >> 23) & 255) - 152, by = shift & 63;
  bool far = shift > 63;
  u64 m = (bits_of(a) & 0x7fffffu) | 0x800000u;
  u64 second = choose(far, 0xdb6295993c439041u, 0xfc2757d1f534ddc0u);
  u64 first = choose(far, 0xfc2757d1f534ddc0u, 0xa2f9836e4e441529u);
  u64 third = choose(far, 0xfe5163abdebbc561u, 0xdb6295993c439041u);
  u64 high = first << by | (second >> 1) >> (63 - by);
  u64 low = second << by | (third >> 1) >> (63 - by);
  u64 turn = m * high + ((m * (low >> 32)) >> 32);
  u64 number = (turn + (u64(1) << 61)) >> 62;
  f64 left = f64(i64(turn - (number << 62))) * 0x1.921fb54442d18p-62;
  u32 whole = u32(number);
  whole = choose(large, choose(a < 0, -whole, whole), near.number);
  return {whole, choose(large, choose(a < 0, -left, left), near.rest)};
}
inline __attribute__((always_inline)) f32 wave(u32 number, f64 rest) {  // sin(rest + number * pi / 2), Cephes
  f32 a = f32(rest), s = a * a;
  f32 p = __builtin_fmaf(-1.9515295891e-4f, s, 8.3321608736e-3f);
  p = __builtin_fmaf(p, s, -1.6666654611e-1f);
  p = __builtin_fmaf(p * s, a, a);
  f32 q = __builtin_fmaf(2.443315711809948e-5f, s, -1.388731625493765e-3f);
  q = __builtin_fmaf(q, s, 4.166664568298827e-2f);
  q = __builtin_fmaf(q, s, -0.5f);
  q = __builtin_fmaf(q, s, 1.0f);
  return of_bits(bits_of(choose((number & 1) != 0, q, p)) ^ ((number & 2) << 30));
}

//: exp
// What is masked is masked before it is scaled: denormals cost a hundred times as much.
inline __attribute__((always_inline)) f32 exp(f32 a) {
  exp_parts p = split_exp(a);
  bool tiny = a < -87.0f;  // the result may be denormal
  u32 n = bits_of(p.shifted) + (u32(tiny) << 6);
  f32 result = of_bits(bits_of(small_expm1(p.rest) + 1.0f) + (n << 23));
  result = choose(a < -104.0f, 0.0f, result) * of_bits(0x3f800000u - (u32(tiny) << 29));
  return choose(a <= 88.722839f, result, a + __builtin_inff());
}
namespace libm { extern "C" double exp(double); }
inline f64 exp(f64 a) { return libm::exp(a); }

//: exp2
inline __attribute__((always_inline)) f32 exp2(f32 a) {
  f32 shifted = a + 0x1.8p23f, rest = (a - (shifted - 0x1.8p23f)) * 0.693147181f;
  bool tiny = a < -125.0f;
  u32 n = bits_of(shifted) + (u32(tiny) << 6);
  f32 result = of_bits(bits_of(small_expm1(rest) + 1.0f) + (n << 23));
  result = choose(a < -150.0f, 0.0f, result) * of_bits(0x3f800000u - (u32(tiny) << 29));
  return choose(a < 128.0f, result, a + __builtin_inff());
}
namespace libm { extern "C" double exp2(double); }
inline f64 exp2(f64 a) { return libm::exp2(a); }

//: expm1
inline __attribute__((always_inline)) f32 expm1(f32 a) {
  f32 x = choose(a < -18.0f, -18.0f, a);
  exp_parts p = split_exp(x);
  f32 r = small_expm1(p.rest);
  f32 half = of_bits((bits_of(p.shifted) << 23) + 0x3f000000u);
  f32 result = __builtin_fmaf(half, r, half - 0.5f) * 2.0f;
  result = choose(p.n == 0, r, result);
  return __builtin_copysignf(choose(a > 88.722839f, __builtin_inff(), result), a);
}
namespace libm { extern "C" double expm1(double); }
inline f64 expm1(f64 a) { return libm::expm1(a); }

//: log
inline __attribute__((always_inline)) f32 log(f32 a) {
  log_parts p = split_log(a);
  return log_special(a, __builtin_fmaf(p.n, 0.693147182f, p.rest));
}
namespace libm { extern "C" double log(double); }
inline f64 log(f64 a) { return libm::log(a); }

//: log2
inline __attribute__((always_inline)) f32 log2(f32 a) {
  log_parts p = split_log(a);
  f32 low = p.rest * 1.92596303e-8f;
  return log_special(a, __builtin_fmaf(p.rest, 1.44269502f, p.n) + low);
}
namespace libm { extern "C" double log2(double); }
inline f64 log2(f64 a) { return libm::log2(a); }

//: log10
inline __attribute__((always_inline)) f32 log10(f32 a) {
  log_parts p = split_log(a);
  f32 low = __builtin_fmaf(p.rest, -1.00890610e-8f, p.n * 4.60503907e-6f);
  low = __builtin_fmaf(p.rest, 0.434294492f, low);
  return log_special(a, __builtin_fmaf(p.n, 0.301025391f, low));
}
namespace libm { extern "C" double log10(double); }
inline f64 log10(f64 a) { return libm::log10(a); }

//: log1p
inline __attribute__((always_inline)) f32 log1p(f32 a) {
  f32 u = a + 1.0f, most = a > 1.0f ? a : 1.0f, least = a > 1.0f ? 1.0f : a;
  u32 e = log_exponent(u);
  f32 further = (least - (u - most)) * of_bits(choose(u > 0x1p64f, 0u, 0x3f800000u - e));
  f32 rest = log_rest(of_bits(bits_of(u) - e) - 1.0f + further);
  f32 result = __builtin_fmaf(f32(i32(e) >> 23), 0.693147182f, rest);
  return choose(a == 0, a, log_special(u, result));
}
namespace libm { extern "C" double log1p(double); }
inline f64 log1p(f64 a) { return libm::log1p(a); }

//: sin
inline __attribute__((always_inline)) f32 sin(f32 a) {
  quadrant q = split_angle(a);
  return choose(a == 0, a, wave(q.number, q.rest) + (a - a));
}
namespace libm { extern "C" double sin(double); }
inline f64 sin(f64 a) { return libm::sin(a); }

//: near_sin
// Of angles that are not far: half the time.
inline __attribute__((always_inline)) f32 near_sin(f32 a) {
  quadrant q = split_near_angle(a);
  return choose(a == 0, a, wave(q.number, q.rest));
}

//: near_cos
inline __attribute__((always_inline)) f32 near_cos(f32 a) {
  quadrant q = split_near_angle(a);
  return wave(q.number + 1, q.rest);
}

//: cos
inline __attribute__((always_inline)) f32 cos(f32 a) {
  quadrant q = split_angle(a);
  return wave(q.number + 1, q.rest) + (a - a);
}
namespace libm { extern "C" double cos(double); }
inline f64 cos(f64 a) { return libm::cos(a); }

//: tanh
inline __attribute__((always_inline)) f32 tanh(f32 a) {
  f32 s = a * a;
  f32 p = 0x1.246dd2p-9f;
  p = __builtin_fmaf(p, s, -0x1.0ee550p-7f);
  p = __builtin_fmaf(p, s, 0x1.6418d6p-6f);
  p = __builtin_fmaf(p, s, -0x1.b9fa8ap-5f);
  p = __builtin_fmaf(p, s, 0x1.11109ep-3f);
  p = __builtin_fmaf(p, s, -0x1.555554p-2f);
  p = __builtin_fmaf(p * s, a, a);
  f32 size = __builtin_fabsf(a);
  f32 most = size < 10.0f ? size : 10.0f;
  f32 far = 1.0f - 2.0f / (exp_of_normal(most + most) + 1.0f);
  return __builtin_copysignf(choose(size >= 0.6f, far, p), a);
}
namespace libm { extern "C" double tanh(double); }
inline f64 tanh(f64 a) { return libm::tanh(a); }

//: erf
// N. Juffa's two intervals.
inline __attribute__((always_inline)) f32 erf(f32 a) {
  f32 size = __builtin_fabsf(a), t = size < 4.0f ? size : 4.0f, s = a * a;
  f32 r = __builtin_fmaf(-0x1.220000p-16f, t, 0x1.91cfb2p-12f);
  f32 u = __builtin_fmaf(-0x1.fd1438p-9f, t, 0x1.8d6342p-6f);
  r = __builtin_fmaf(r, t * t, u);
  r = __builtin_fmaf(r, t, -0x1.b55cb8p-4f);
  r = __builtin_fmaf(r, t, -0x1.450aa0p-1f);
  r = __builtin_fmaf(r, t, -0x1.079d0cp-3f);
  r = 1.0f - exp_of_normal(__builtin_fmaf(r, t, -t));
  f32 p = -0x1.38e000p-11f;
  p = __builtin_fmaf(p, s, 0x1.471a58p-8f);
  p = __builtin_fmaf(p, s, -0x1.b691b2p-6f);
  p = __builtin_fmaf(p, s, 0x1.ce1c44p-4f);
  p = __builtin_fmaf(p, s, -0x1.812700p-2f);
  p = __builtin_fmaf(p, s, 0x1.06eba8p-3f);
  p = __builtin_fmaf(p, a, a);
  return choose(size > 0.927734375f, __builtin_copysignf(r, a), p);
}
namespace libm { extern "C" double erf(double); }
inline f64 erf(f64 a) { return libm::erf(a); }
