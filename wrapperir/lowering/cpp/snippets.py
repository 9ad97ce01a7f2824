"""C++ source of what kernels call; each kernel gets the parts that it names."""

import re
from collections.abc import Mapping
from pathlib import Path

from wrapperir.lowering.cpp.libm_snippets import LIBM

_PART = re.compile(r"^//: (\w+)\n(?:// .*\n)*", re.MULTILINE)


def _parts(file: str) -> dict[str, str]:
    """Return the parts of a header by name, without the comments before them."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    _, *found = _PART.split(text)
    return dict(zip(found[::2], found[1::2], strict=True))


_TYPES = {
    name: f"typedef {text} {name};"
    for name, text in {
        "f64": "double",
        "f32": "float",
        "i64": "__INT64_TYPE__",
        "i32": "__INT32_TYPE__",
        "i16": "__INT16_TYPE__",
        "i8": "__INT8_TYPE__",
        "u64": "__UINT64_TYPE__",
        "u32": "__UINT32_TYPE__",
        "u16": "__UINT16_TYPE__",
        "u8": "__UINT8_TYPE__",
    }.items()
}
_MATH = _parts("math_functions.h")
POLYNOMIALS = tuple(name for name, text in _MATH.items() if f"libm::{name}(" in text)
"""The functions of ``f32`` that are written here, not called in the C library."""

SNIPPETS: Mapping[str, str] = {**_TYPES, **LIBM, **_MATH, **_parts("functions.h")}
"""Source by the name that kernels use it by; what a part uses is before it."""
