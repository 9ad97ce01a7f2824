"""OpenCL C of what kernels call; each kernel gets the parts that it names."""

from collections.abc import Mapping

from wrapperir.ir import DType
from wrapperir.lowering.source_parts import needed_parts
from wrapperir_opencl.renderer.operators import of_type, scalar_type

_OF_WHOLE: Mapping[str, str] = {
    "truncdiv": """\
T truncdiv_T(T a, T b) {
  return b == 0 ? 0 : MINUS_ONE ? (T)(0 - (U)a) : (T)(a / b);
}""",
    "fmod": "T fmod_T(T a, T b) { return b == 0 || MINUS_ONE ? 0 : (T)(a % b); }",
    "remainder": """\
T remainder_T(T a, T b) {
  T rest = b == 0 || MINUS_ONE ? 0 : (T)(a % b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}""",
    "floordiv": """\
T floordiv_T(T a, T b) {
  T quotient = b == 0 ? 0 : MINUS_ONE ? (T)(0 - (U)a) : (T)(a / b);
  return (T)((U)quotient * (U)b) != a && (a < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
}""",
    "power": """\
T power_T(T a, T b) {
  if (b < 0) return a == 1 ? 1 : (T)(a + 1) == 0 ? (b & 1 ? -1 : 1) : 0;
  T result = 1;
  for (; b; b = (T)(b >> 1), a = (T)((U)a * (U)a))
    if (b & 1) result = (T)((U)result * (U)a);
  return result;
}""",
}
_OF_REALS: Mapping[str, str] = {
    "remainder": """\
T remainder_T(T a, T b) {
  T rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    # As Python does, which eager follows.
    "floordiv": """\
T floordiv_T(T a, T b) {
  if (b == 0) return a / b;
  T rest = fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return copysign((T)0, a / b);
  T low = floor(quotient);
  return quotient - low > (T)0.5f ? low + 1 : low;
}""",
    # M. Milakov, N. Gimelshein, 2018.  The lesser of two maxima is scaled.
    "online_softmax": """\
void online_softmax_T(T *most, T *total, T a) {
  T scale = exp(a == *most ? (T)0 : a < *most ? a - *most : *most - a);
  *total = a > *most ? *total * scale + 1 : *total + scale;
  *most = *most > a || *most != *most ? *most : a;
}""",
    "softmax_total": """\
T softmax_total_T(T most, T total) {
  return most - most == 0 || total == 0 ? total : (T)NAN;
}""",
}
_FIXED: Mapping[str, str] = {
    "f32_of_bf16": "float f32_of_bf16(ushort a) { return as_float((uint)a << 16); }",
    "bf16_of_f32": """\
ushort bf16_of_f32(float a) {
  uint bits = as_uint(a);
  return a != a ? 0x7fc0 : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}""",
    "f32_of_f16": "float f32_of_f16(ushort a) { return vload_half(0, (const half *)&a); }",
    "f16_of_f32": """\
ushort f16_of_f32(float a) {
  ushort bits;
  vstore_half_rte(a, 0, (half *)&bits);
  return bits;
}""",
    "u64_of_real": """\
ulong u64_of_real(double a) {
  return a >= 0x1p63 ? (ulong)(long)(a - 0x1p63) + (1UL << 63) : (ulong)(long)a;
}""",
    # B. P. Welford, 1962; and T. F. Chan, G. H. Golub, R. J. LeVeque, 1979, for two sets.
    "welford": """\
void welford(double *mean, double *squares, double *count, double mean2, double squares2,
             double count2) {
  double total = *count + count2, delta = mean2 - *mean;
  double share = count2 == 0 ? 0 : count2 / total;
  *squares += squares2 + (share == 0 ? 0 : delta * delta * *count * share);
  *mean += share == 0 ? 0 : delta * share;
  *count = total;
}""",
}
_WHOLE = tuple(d for d in DType if d.value[0] in "iu")
_REAL = (DType.F32, DType.F64)
SNIPPETS: Mapping[str, str] = {
    **_FIXED,
    **{
        f"{name}_{scalar_type(dtype)}": of_type(text, dtype)
        for parts, dtypes in ((_OF_WHOLE, _WHOLE), (_OF_REALS, _REAL))
        for name, text in parts.items()
        for dtype in dtypes
    },
}
"""Source by the name that kernels use it by."""
_COMBINING = """\
void combine_OP_T(volatile global T *to, T b) {
  volatile global W *bits = (volatile global W *)to;
  W old = *bits, seen;
  do {
    seen = old;
    T a = as_T(seen);
    old = CAS(bits, seen, as_W((T)(RESULT)));
  } while (old != seen);
}"""


def combining_function(name: str, dtype: DType, result: str) -> str:
    """Return ``name``, which atomically makes an element ``a`` the ``result`` of a, b."""
    is_long = dtype.itemsize == 8
    text = _COMBINING.replace("combine_OP_T", name).replace("RESULT", result)
    text = text.replace("CAS", "atom_cmpxchg" if is_long else "atomic_cmpxchg")
    text = text.replace("W ", "ulong " if is_long else "uint ")
    text = text.replace("as_W", "as_ulong" if is_long else "as_uint")
    kind = scalar_type(dtype)
    return (
        text.replace("as_T", f"as_{kind}")
        .replace("(T)", f"({kind})")
        .replace("T ", f"{kind} ")
    )


def kernel_source(functions: list[str], kernel: str) -> str:
    """Return a file of a kernel, of functions for it, and of what both call."""
    text = "\n".join([*functions, kernel])
    parts = [*needed_parts(text, SNIPPETS), text]
    head = ["#pragma OPENCL FP_CONTRACT OFF"]
    extensions = {"double": "cl_khr_fp64", "atom_cmpxchg": "cl_khr_int64_base_atomics"}
    for word, extension in extensions.items():
        if any(word in part for part in parts):
            head.append(f"#pragma OPENCL EXTENSION {extension} : enable")
    return "\n".join([*head, *parts, ""])
