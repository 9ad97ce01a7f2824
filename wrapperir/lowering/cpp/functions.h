// Functions that kernels call, templates over one element where they can be.
// A kernel has the parts that it names; each begins after "//:" and its name.

//: stored
// A buffer may be memory that another dtype was kept in.
template <class T> struct stored_of { typedef T type __attribute__((may_alias)); };
template <class T> using stored = typename stored_of<T>::type;

//: count
// A number of lanes that is known to the compiler.
template <i64 N> struct count { constexpr operator i64() const { return N; } };

//: transpose
// Four rounds of interleaving the rows of the upper half with those of the lower half,
// in elements of 32 bits.
template <class T> inline void transpose(T (*to)[64], const stored<T>* from, i64 stride) {
  typedef u32 row __attribute__((vector_size(64)));
  constexpr row low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  constexpr row high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  typedef T elements __attribute__((vector_size(16 * sizeof(T))));
  row a[16], b[16];
  elements line;
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    __builtin_memcpy(&line, from + i * stride, sizeof(line));
    if constexpr (sizeof(T) == 4) a[i] = row(line);
    else a[i] = __builtin_convertvector(line, row);
  }
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = __builtin_shuffle(a[i], a[i + 8], low);
      b[2 * i + 1] = __builtin_shuffle(a[i], a[i + 8], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) a[i] = b[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if constexpr (sizeof(T) == 4) line = elements(a[i]);
    else line = __builtin_convertvector(a[i], elements);
    __builtin_memcpy(to[i], &line, sizeof(line));
  }
}

//: load_transposed
template <class T>
inline void load_transposed(
    T (*to)[64], const stored<T>* from, i64 stride, i64 height, i64 width) {
  i64 l = 0;
  if constexpr (sizeof(T) <= 4)
    if (height % 16 == 0)
      for (; l + 16 <= width; l += 16)
        for (i64 a = 0; a < height; a += 16)
          transpose<T>((T (*)[64])(&to[a][l]), from + l * stride + a, stride);
  for (; l < width; ++l)
    for (i64 a = 0; a < height; ++a) to[a][l] = from[l * stride + a];
}

//: f32_of_bf16
inline __attribute__((always_inline)) f32 f32_of_bf16(u16 a) { return __builtin_bit_cast(f32, u32(a) << 16); }

//: bf16_of_f32
// Round to nearest, ties to even; NaN is 0x7fc0, as in PyTorch.
inline __attribute__((always_inline)) u16 bf16_of_f32(f32 a) {
  u32 bits = __builtin_bit_cast(u32, a);
  u32 nan = -u32(a != a);
  return (nan & 0x7fc0) | (~nan & (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

//: f32_of_f16
// M. Dukhan's conversions by arithmetic, from the FP16 library.
inline __attribute__((always_inline)) f32 f32_of_f16(u16 a) {
  u32 w = u32(a) << 16, sign = w & 0x80000000u, twice = w + w;
  f32 normal = __builtin_bit_cast(f32, (twice >> 4) + (0xe0u << 23)) * 0x1p-112f;
  f32 denormal = __builtin_bit_cast(f32, (twice >> 17) | (126u << 23)) - 0.5f;
  f32 magnitude = twice < (1u << 27) ? denormal : normal;
  return __builtin_bit_cast(f32, sign | __builtin_bit_cast(u32, magnitude));
}

//: f16_of_f32
inline __attribute__((always_inline)) u16 f16_of_f32(f32 a) {
  f32 base = (__builtin_fabsf(a) * 0x1p+112f) * 0x1p-110f;
  u32 w = __builtin_bit_cast(u32, a), twice = w + w, bias = twice & 0xff000000u;
  bias = bias < 0x71000000u ? 0x71000000u : bias;
  u32 bits = __builtin_bit_cast(u32,
      __builtin_bit_cast(f32, (bias >> 1) + 0x07800000u) + base);
  u32 nonsign = (bits >> 13 & 0x7c00u) + (bits & 0xfffu);
  u32 nan = 0x7e00u | (w >> 13 & 0x1ffu);
  return (w >> 16 & 0x8000u) | (twice > 0xff000000u ? nan : nonsign);
}

//: read_f16
inline __attribute__((always_inline)) void read_f16(
    f32* to, const stored<u16>* from, i64 n) {
  i64 l = 0;
#if defined(__AVX512F__) && !defined(__clang__)
  typedef short half_row __attribute__((vector_size(32)));
  typedef f32 row __attribute__((vector_size(64)));
#pragma GCC unroll 8
  for (; l + 16 <= n; l += 16) {
    half_row halves;
    __builtin_memcpy(&halves, from + l, sizeof(halves));
    row wide = __builtin_ia32_vcvtph2ps512_mask(halves, row{}, -1, 4);
    __builtin_memcpy(to + l, &wide, sizeof(wide));
  }
#elif defined(__F16C__) && !defined(__clang__)
  typedef short half_row __attribute__((vector_size(16)));
  typedef f32 row __attribute__((vector_size(32)));
#pragma GCC unroll 16
  for (; l + 8 <= n; l += 8) {
    half_row halves;
    __builtin_memcpy(&halves, from + l, sizeof(halves));
    row wide = __builtin_ia32_vcvtph2ps256(halves);
    __builtin_memcpy(to + l, &wide, sizeof(wide));
  }
#endif
  for (; l < n; ++l) to[l] = f32_of_f16(from[l]);
}

//: write_f16
inline __attribute__((always_inline)) void write_f16(
    stored<u16>* to, const f32* from, i64 n) {
  i64 l = 0;
#if defined(__AVX512F__) && !defined(__clang__)
  typedef short half_row __attribute__((vector_size(32)));
  typedef f32 row __attribute__((vector_size(64)));
#pragma GCC unroll 8
  for (; l + 16 <= n; l += 16) {
    row wide;
    __builtin_memcpy(&wide, from + l, sizeof(wide));
    half_row halves = __builtin_ia32_vcvtps2ph512_mask(wide, 0, half_row{}, -1);
    __builtin_memcpy(to + l, &halves, sizeof(halves));
  }
#elif defined(__F16C__) && !defined(__clang__)
  typedef short half_row __attribute__((vector_size(16)));
  typedef f32 row __attribute__((vector_size(32)));
#pragma GCC unroll 16
  for (; l + 8 <= n; l += 8) {
    row wide;
    __builtin_memcpy(&wide, from + l, sizeof(wide));
    half_row halves = __builtin_ia32_vcvtps2ph256(wide, 0);
    __builtin_memcpy(to + l, &halves, sizeof(halves));
  }
#endif
  for (; l < n; ++l) to[l] = f16_of_f32(from[l]);
}

//: whole_of
// Numbers out of range of a small dtype wrap, as they do in eager.
template <class T, class S> inline T whole_of(S a) {
  if constexpr (sizeof(T) < 4) return T(i32(a));
  else if constexpr (sizeof(T) == 4) return T(-1) < T(0) ? T(i32(a)) : T(i64(a));
  else if constexpr (T(-1) < T(0)) return T(a);
  else return !(a >= S(0x1p63)) ? T(i64(a)) : T(i64(a - S(0x1p63))) + (T(1) << 63);
}

//: absolute
template <class T> inline T absolute(T a) { return a < 0 ? T(-a) : a; }
inline __attribute__((always_inline)) f32 absolute(f32 a) { return __builtin_fabsf(a); }
inline f64 absolute(f64 a) { return __builtin_fabs(a); }

//: sign
template <class T> inline T sign(T a) { return T((a > 0) - (a < 0)); }

//: floor
inline __attribute__((always_inline)) f32 floor(f32 a) { return __builtin_floorf(a); }
inline f64 floor(f64 a) { return __builtin_floor(a); }

//: ceil
inline __attribute__((always_inline)) f32 ceil(f32 a) { return __builtin_ceilf(a); }
inline f64 ceil(f64 a) { return __builtin_ceil(a); }

//: trunc
inline __attribute__((always_inline)) f32 trunc(f32 a) { return __builtin_truncf(a); }
inline f64 trunc(f64 a) { return __builtin_trunc(a); }

//: round
inline __attribute__((always_inline)) f32 round(f32 a) { return __builtin_rintf(a); }
inline f64 round(f64 a) { return __builtin_rint(a); }

//: truncdiv
template <class T> inline __attribute__((always_inline)) T truncdiv(T a, T b) {
  return b == 0 ? T(0) : T(-1) < T(0) && b == T(-1) ? T(-a) : T(a / b);
}
inline __attribute__((always_inline)) f32 truncdiv(f32 a, f32 b) { return __builtin_truncf(a / b); }
inline f64 truncdiv(f64 a, f64 b) { return __builtin_trunc(a / b); }

//: fmod
template <class T> inline __attribute__((always_inline)) T fmod(T a, T b) {
  return b == 0 || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
inline __attribute__((always_inline)) f32 fmod(f32 a, f32 b) { return real_fmod(a, b); }
namespace libm { extern "C" double fmod(double, double); }
inline f64 fmod(f64 a, f64 b) { return libm::fmod(a, b); }

//: remainder
template <class T> inline __attribute__((always_inline)) T remainder(T a, T b) {
  T rest = fmod(a, b);
  return (rest != 0) & ((rest < 0) != (b < 0)) ? T(rest + b) : rest;
}

//: floordiv
// For floats as Python does, which eager follows.
template <class T> inline __attribute__((always_inline)) T floordiv(T a, T b) {
  T quotient = truncdiv(a, b);
  return T(quotient * b) != a && (a < 0) != (b < 0) ? T(quotient - 1) : quotient;
}
template <class T> inline __attribute__((always_inline)) T floordiv_real(T a, T b) {
  T ratio = a / b, rest = fmod(a, b), quotient = (a - rest) / b;
  quotient = choose((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient);
  T low = floor(quotient);
  low = choose(quotient - low > T(0.5), low + 1, low);
  low = choose(quotient == 0, __builtin_copysign(T(0), ratio), low);
  return choose(b == 0, ratio, low);
}
inline __attribute__((always_inline)) f32 floordiv(f32 a, f32 b) { return floordiv_real(a, b); }
inline f64 floordiv(f64 a, f64 b) { return floordiv_real(a, b); }

//: minimum
// Of chained selections by one condition of two parts, GCC makes branches.
template <class T> inline __attribute__((always_inline)) T minimum(T a, T b) { return a < b ? a : a != a ? a : b; }

//: maximum
template <class T> inline __attribute__((always_inline)) T maximum(T a, T b) { return a > b ? a : a != a ? a : b; }

//: fmin
template <class T> inline T fmin(T a, T b) { return a < b ? a : b != b ? a : b; }

//: fmax
template <class T> inline T fmax(T a, T b) { return a > b ? a : b != b ? a : b; }

//: is_inf
template <class T> inline bool is_inf(T a) { return absolute(a) == T(__builtin_inf()); }

//: sign_bit
template <class T> inline bool sign_bit(T a) { return a < 0; }
inline __attribute__((always_inline)) bool sign_bit(f32 a) { return __builtin_bit_cast(i32, a) < 0; }
inline __attribute__((always_inline)) bool sign_bit(f64 a) { return __builtin_bit_cast(i64, a) < 0; }

//: shift_left
template <class T> inline T shift_left(T a, T b) {
  return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : T(u64(a) << b);
}

//: shift_right
template <class T> inline T shift_right(T a, T b) {
  constexpr bool is_signed = T(-1) < T(0);
  if (b < 0 || b >= T(8 * sizeof(T))) return is_signed && a < 0 ? T(-1) : T(0);
  return T(a >> b);
}

//: power
template <class T> inline T power(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : T(a + 1) == 0 ? T(b & 1 ? -1 : 1) : T(0);
  T result = 1;
  for (; b; b = T(b >> 1), a = T(a * a))
    if (b & 1) result = T(result * a);
  return result;
}
inline __attribute__((always_inline)) f32 power(f32 a, f32 b) { return pow(a, b); }
inline f64 power(f64 a, f64 b) { return pow(a, b); }

//: rsqrt
template <class T> inline __attribute__((always_inline)) T rsqrt(T a) { return 1 / sqrt(a); }

//: copysign
inline __attribute__((always_inline)) f32 copysign(f32 a, f32 b) { return __builtin_copysignf(a, b); }
inline f64 copysign(f64 a, f64 b) { return __builtin_copysign(a, b); }

//: is_before
template <class T> inline bool is_before(T a, T best) {  // for an argmin
  return (a < best) | ((a != a) & (best == best));
}

//: is_after
template <class T> inline bool is_after(T a, T best) {  // for an argmax
  return (a > best) | ((a != a) & (best == best));
}

//: is_same
template <class T> inline bool is_same(T a, T b) {
  return (a == b) | ((a != a) & (b != b));
}

//: add_square
inline void add_square(f64& sum, f64& squares, f64& count, f64 a) {
  sum += a, squares = __builtin_fma(a, a, squares), count += 1;
}

//: add_squares
inline void add_squares(f64& sum, f64& squares, f64& count, f64 sum2, f64 squares2,
                        f64 count2) {
  sum += sum2, squares += squares2, count += count2;
}

//: squared_differences
inline f64 squared_differences(f64 sum, f64 squares, f64 count) {
  f64 result = __builtin_fma(-sum, sum / count, squares);
  return result < 0 ? 0 : result;
}

//: welford
// B. P. Welford, 1962; and T. F. Chan, G. H. Golub, R. J. LeVeque, 1979, for two sets.
template <class T> inline void welford(T& mean, T& squares, T& count, T a) {
  count += 1;
  T delta = a - mean;
  mean += delta / count;
  squares += delta * (a - mean);
}
template <class T>
inline void welford(T& mean, T& squares, T& count, T mean2, T squares2, T count2) {
  T total = count + count2, delta = mean2 - mean;
  T share = count2 == 0 ? T(0) : count2 / total;
  mean += share == 0 ? T(0) : delta * share;
  squares += squares2 + (share == 0 ? T(0) : delta * delta * count * share);
  count = total;
}

//: online_softmax
// M. Milakov, N. Gimelshein, 2018.  The lesser of two maxima is scaled.
template <class T> inline void online_softmax(T& most, T& total, T a, T total2 = 1) {
  T scale = exp(a == most ? T(0) : a < most ? a - most : most - a);
  total = a > most ? total * scale + total2 : total + total2 * scale;
  most = maximum(most, a);
}

//: softmax_total
template <class T> inline T softmax_total(T most, T total) {
  return (most - most == 0) | (total == 0) ? total : T(__builtin_nan(""));
}
