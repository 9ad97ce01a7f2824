"""OpenCL C of what kernels call; each kernel gets the parts that it names."""

from collections.abc import Mapping, Sequence

from wrapperir.lowering.c.functions import CType, functions_of
from wrapperir.lowering.source_parts import needed_parts

_WIDTHS = ("", "2", "4", "8")
"""The ends of names of types: of single values, and of vectors."""
_HALVES: Mapping[str, str] = {
    "f32_of_bf16": """\
FLOAT f32_of_bf16_FLOAT(USHORT a) { return as_FLOAT(convert_UINT(a) << 16); }""",
    "bf16_of_f32": """\
USHORT bf16_of_f32_FLOAT(FLOAT a) {
  UINT bits = as_UINT(a), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return convert_USHORT(a != a ? (UINT)(0x7fc0) : rounded);
}""",
    "f32_of_f16": """\
FLOAT f32_of_f16_FLOAT(USHORT a) { return vload_halfWIDTH(0, (const half *)&a); }""",
    "f16_of_f32": """\
USHORT f16_of_f32_FLOAT(FLOAT a) {
  USHORT bits;
  vstore_halfWIDTH_rte(a, 0, (half *)&bits);
  return bits;
}""",
}
_U64 = """\
ulong u64_of_real(double a) {
  return a >= 0x1p63 ? (ulong)(long)(a - 0x1p63) + (1UL << 63) : (ulong)(long)a;
}"""


def _of_width(text: str, width: str) -> str:
    """Return a conversion of halves for a vector; without a width, for a single value."""
    for kind in ("float", "uint", "ushort"):
        text = text.replace(kind.upper(), f"{kind}{width}")
    return text.replace("WIDTH", width)


_WHOLE = {"long": 64, "int": 32, "short": 16, "char": 8}
_TYPES = [
    CType(name=f"{kind}{width}", bits=bits, unsigned=unsigned, is_vector=bool(width))
    for width in _WIDTHS
    for kind, bits, unsigned in (
        *(("float", 32, None), ("double", 64, None)),
        *(
            (f"{sign}{kind}", bits, "ulong" if bits == 64 else "uint")
            for kind, bits in _WHOLE.items()
            for sign in ("", "u")
        ),
    )
]
PARTS: Mapping[str, str] = {
    "u64_of_real": _U64,
    **{
        f"{name}_float{width}": _of_width(text, width)
        for name, text in _HALVES.items()
        for width in _WIDTHS
    },
    **functions_of(_TYPES),
}
"""Source by the name that kernels use it by."""
_COMBINING = """\
void NAME(volatile global TYPE *to, TYPE b) {
  volatile global WORD *bits = (volatile global WORD *)to;
  WORD old = *bits, seen;
  do {
    seen = old;
    TYPE a = as_TYPE(seen);
    old = CAS(bits, seen, as_WORD((TYPE)(RESULT)));
  } while (old != seen);
}"""


def combining_function(name: str, kind: str, is_long: bool, result: str) -> str:
    """Return ``name``, which atomically makes an element ``a`` the ``result`` of a, b."""
    words = {
        **{"NAME": name, "TYPE": kind, "RESULT": result},
        "WORD": "ulong" if is_long else "uint",
        "CAS": "atom_cmpxchg" if is_long else "atomic_cmpxchg",
    }
    text = _COMBINING
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def kernel_source(functions: Sequence[str], kernel: str) -> str:
    """Return a file of a kernel, of functions for it, and of what both call."""
    text = "\n".join([*functions, kernel])
    parts = [*needed_parts(text, PARTS), text]
    head = ["#pragma OPENCL FP_CONTRACT OFF"]
    extensions = {"double": "cl_khr_fp64", "atom_cmpxchg": "cl_khr_int64_base_atomics"}
    for word, extension in extensions.items():
        if any(word in part for part in parts):
            head.append(f"#pragma OPENCL EXTENSION {extension} : enable")
    return "\n".join([*head, *parts, ""])
