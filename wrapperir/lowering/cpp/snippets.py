"""C++ source of what kernels call; each kernel gets the parts that it names."""

import re
from collections.abc import Mapping
from pathlib import Path

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
_UNARY = ("lgamma",)
_BINARY = ("nextafter",)


def _declaration(name: str, count: int) -> str:
    double, single = ", ".join(["double"] * count), ", ".join(["float"] * count)
    return (
        f'namespace libm {{ extern "C" {{\n'
        f"double {name}({double});\nfloat {name}f({single});\n}} }}"
    )


def _function(name: str, count: int) -> str:
    parameters = ("f32 a", "f32 a, f32 b")[count - 1]
    arguments = ("a", "a, b")[count - 1]
    return (
        f"{_declaration(name, count)}\n"
        f"inline f32 {name}({parameters}) {{ return libm::{name}f({arguments}); }}\n"
        f"inline f64 {name}({parameters.replace('f32', 'f64')}) "
        f"{{ return libm::{name}({arguments}); }}"
    )


_LIBM = {
    **{name: _function(name, 1) for name in _UNARY},
    **{name: _function(name, 2) for name in _BINARY},
}
"""Functions of the C library, declared without its header."""

_MATH = {**_parts("math_functions.h"), **_parts("wide_functions.h")}
POLYNOMIALS = tuple(name for name, text in _MATH.items() if f"libm::{name}(a)" in text)
"""The functions of ``f32`` that are written here, not called in the C library."""

SNIPPETS: Mapping[str, str] = {**_TYPES, **_LIBM, **_MATH, **_parts("functions.h")}
"""Source by the name that kernels use it by; what a part uses is before it."""
