"""Measure the errors of the functions of ``f32`` that C++ kernels have, in ulp.

Each is computed for every bit pattern, or every STEPth, and compared with the C library's
function of doubles.

    python -m bench.lowering.math_errors [STEP]
"""

import ctypes
import sys

from attrs import frozen

from wrapperir.kernels import CppBuildError, build_libraries
from wrapperir.lowering.cpp.renderer import HEAD, TAIL
from wrapperir.lowering.cpp.snippets import POLYNOMIALS, SNIPPETS
from wrapperir.lowering.source_parts import needed_parts

_CHECK = """
extern "C" void check_{name}(u32 step, f64* worst, f32* at, i64* wrong) {{
  *worst = 0, *wrong = 0;
  static f32 in[4096], out[4096];
  for (u64 next = 0; next < (u64(1) << 32);) {{
    i64 n = 0;
    for (; n < 4096 && next < (u64(1) << 32); next += step) in[n++] = of_bits(u32(next));
    #pragma omp simd
    for (i64 i = 0; i < n; ++i) out[i] = {name}(in[i]);
    for (i64 i = 0; i < n; ++i) {{
      f64 exact = {name}(f64(in[i]));
      f32 rounded = f32(exact);
      if (rounded != rounded || rounded - rounded != 0 || rounded == 0) {{
        // NaN, infinities and zeros are exact, zeros with their sign.
        bool same = bits_of(out[i]) == bits_of(rounded);
        if (rounded != rounded) same = out[i] != out[i];
        bool least = rounded == 0 && __builtin_fabsf(out[i]) == 0x1p-149f;
        if (!same && !least) ++*wrong, *at = in[i];
        continue;
      }}
      i32 exponent = i32(bits_of(rounded) >> 23 & 255);
      f64 ulp = __builtin_ldexp(1.0, (exponent ? exponent : 1) - 150);
      f64 error = __builtin_fabs(out[i] - exact) / ulp;
      if (!(error <= *worst)) *worst = error, *at = in[i];
    }}
  }}
}}"""


@frozen
class MathError:
    """The largest error of a function in ulp, an argument with it, and wrong results.

    Wrong are results other than an exact NaN, infinity or zero.
    """

    name: str
    ulp: float
    argument: float
    wrong: int


def measure(step: int) -> list[MathError]:
    """Return the errors of all functions, for every ``step``th bit pattern."""
    checks = "\n".join(_CHECK.format(name=name) for name in POLYNOMIALS)
    head = "\n".join(needed_parts(checks, SNIPPETS))
    (library,) = build_libraries([f"{HEAD}\n{head}\n{checks}\n{TAIL}"])
    if isinstance(library, CppBuildError):
        raise library
    found: list[MathError] = []
    for name in POLYNOMIALS:
        worst, at, wrong = ctypes.c_double(), ctypes.c_float(), ctypes.c_int64()
        references = ctypes.byref(worst), ctypes.byref(at), ctypes.byref(wrong)
        library[f"check_{name}"](ctypes.c_uint32(step), *references)
        found.append(MathError(name, worst.value, at.value, wrong.value))
    return found


def main() -> None:
    """Print a line for each function."""
    for error in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        print(
            f"{error.name:8}{error.ulp:7.3f} ulp at {error.argument:.9g},"
            f" {error.wrong} wrong"
        )


if __name__ == "__main__":
    main()
