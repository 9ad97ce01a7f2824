"""Functions that kernels in C call, for each type; a kernel gets those that it names.

In the texts, ``T`` is the type, ``U`` the unsigned type that its arithmetic wraps in, and
``BITS`` the bits of ``T``.  Functions of real numbers have no branches, so that ``T`` may
be a vector where a language has operators on these.  They call ``exp``, ``fabs``, ``fma``,
``fmod``, ``floor``, ``sqrt``, ``trunc`` and ``copysign``.
"""

from collections.abc import Iterable, Mapping

from attrs import frozen

_ANY: Mapping[str, str] = {
    "minimum": "T minimum_T(T a, T b) { return a < b ? a : a != a ? a : b; }",
    "maximum": "T maximum_T(T a, T b) { return a > b ? a : a != a ? a : b; }",
    "sign": """\
T sign_T(T a) { return a > (T)(0) ? (T)(1) : a < (T)(0) ? (T)(-1) : (T)(0); }""",
}
_OF_ONE: Mapping[str, str] = {
    # For an argmin, an argmax, and to combine either.
    "is_before": "bool is_before_T(T a, T b) { return a < b || (a != a && b == b); }",
    "is_after": "bool is_after_T(T a, T b) { return a > b || (a != a && b == b); }",
    "is_same": "bool is_same_T(T a, T b) { return a == b || (a != a && b != b); }",
}
_WHOLE: Mapping[str, str] = {
    "absolute": "T absolute_T(T a) { return a < 0 ? (T)(0 - (U)a) : a; }",
    "fmin": "T fmin_T(T a, T b) { return a < b ? a : b; }",
    "fmax": "T fmax_T(T a, T b) { return a > b ? a : b; }",
    "sign_bit": "bool sign_bit_T(T a) { return a < 0; }",
    "truncdiv": """\
T truncdiv_T(T a, T b) {
  return b == 0 ? 0 : (T)-1 < 0 && b == (T)-1 ? (T)(0 - (U)a) : (T)(a / b);
}""",
    "fmod": """\
T fmod_T(T a, T b) {
  return b == 0 || ((T)-1 < 0 && b == (T)-1) ? 0 : (T)(a % b);
}""",
    "remainder": """\
T remainder_T(T a, T b) {
  T rest = fmod_T(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}""",
    "floordiv": """\
T floordiv_T(T a, T b) {
  T quotient = truncdiv_T(a, b);
  return (T)((U)quotient * (U)b) != a && (a < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
}""",
    "shift_left": """\
T shift_left_T(T a, T b) { return b < 0 || b >= BITS ? 0 : (T)((U)a << b); }""",
    "shift_right": """\
T shift_right_T(T a, T b) {
  return b < 0 || b >= BITS ? (a < 0 ? (T)-1 : 0) : (T)(a >> b);
}""",
    "power": """\
T power_T(T a, T b) {
  T result = 1;
  if (b < 0) return a == 1 ? 1 : (T)(a + 1) == 0 ? (b & 1 ? (T)-1 : 1) : 0;
  for (; b; b = (T)(b >> 1), a = (T)((U)a * (U)a))
    if (b & 1) result = (T)((U)result * (U)a);
  return result;
}""",
}
_REAL: Mapping[str, str] = {
    "rsqrt": "T rsqrt_T(T a) { return 1 / sqrt(a); }",
    "truncdiv": "T truncdiv_T(T a, T b) { return trunc(a / b); }",
    "remainder": """\
T remainder_T(T a, T b) {
  T rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    # As Python does, which eager follows.
    "floordiv": """\
T floordiv_T(T a, T b) {
  T ratio = a / b, rest = fmod(a, b), quotient = (a - rest) / b, low;
  quotient = rest != 0 && (b < 0) != (rest < 0) ? quotient - 1 : quotient;
  low = floor(quotient);
  low = quotient - low > (T)(0.5f) ? low + 1 : low;
  low = quotient == 0 ? copysign((T)(0), ratio) : low;
  return b == 0 ? ratio : low;
}""",
    # M. Milakov, N. Gimelshein, 2018.  The lesser of two maxima is scaled.
    "online_softmax": """\
void online_softmax_T(T *most, T *total, T a, T total2) {
  T scale = exp(a == *most ? (T)(0) : a < *most ? a - *most : *most - a);
  *total = a > *most ? *total * scale + total2 : *total + total2 * scale;
  *most = maximum_T(*most, a);
}""",
    "online_softmax_value": """\
void online_softmax_value_T(T *most, T *total, T a) {
  online_softmax_T(most, total, a, (T)(1));
}""",
    "softmax_total": """\
T softmax_total_T(T most, T total) {
  return most - most == 0 || total == 0 ? total : most - most;
}""",
    "add_square": """\
void add_square_T(T *sum, T *squares, T *count, T a) {
  *sum += a, *squares = fma(a, a, *squares), *count += 1;
}""",
    "add_squares": """\
void add_squares_T(T *sum, T *squares, T *count, T sum2, T squares2, T count2) {
  *sum += sum2, *squares += squares2, *count += count2;
}""",
    "squared_differences": """\
T squared_differences_T(T sum, T squares, T count) {
  T result = fma(-sum, sum / count, squares);
  return result < 0 ? (T)(0) : result;
}""",
    # B. P. Welford, 1962; and T. F. Chan, G. H. Golub, R. J. LeVeque, 1979, for two sets.
    "welford_value": """\
void welford_value_T(T *mean, T *squares, T *count, T a) {
  T delta = a - *mean;
  *count += 1;
  *mean += delta / *count;
  *squares += delta * (a - *mean);
}""",
    "welford": """\
void welford_T(T *mean, T *squares, T *count, T mean2, T squares2, T count2) {
  T total = *count + count2, delta = mean2 - *mean;
  T share = count2 == 0 ? (T)(0) : count2 / total;
  *squares += squares2 + (share == 0 ? (T)(0) : delta * delta * *count * share);
  *mean += share == 0 ? (T)(0) : delta * share;
  *count = total;
}""",
}


@frozen(kw_only=True)
class CType:
    """A type of numbers; one of whole numbers has the ``unsigned`` type it wraps in."""

    name: str
    bits: int
    unsigned: str | None = None
    is_vector: bool = False


def functions_of(types: Iterable[CType]) -> dict[str, str]:
    """Return the functions of some types, by names such as ``floordiv_float``."""
    found: dict[str, str] = {}
    for kind in types:
        texts = dict(_ANY)
        if not kind.is_vector:
            texts.update(_OF_ONE)
        if kind.unsigned is None:
            texts.update(_REAL)
        elif not kind.is_vector:
            texts.update(_WHOLE)
        # What a function calls is before it.
        for name, text in texts.items():
            found[f"{name}_{kind.name}"] = of_type(text, kind)
    return found


def of_type(text: str, kind: CType) -> str:
    """Return a text for a type."""
    text = text.replace("(U)", f"({kind.unsigned})").replace("BITS", str(kind.bits))
    text = text.replace("_T(", f"_{kind.name}(").replace("(T)", f"({kind.name})")
    return text.replace("T ", f"{kind.name} ")
