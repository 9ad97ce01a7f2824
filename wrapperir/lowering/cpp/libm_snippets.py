"""Functions of the C library, declared without its header."""

from collections.abc import Mapping

UNARY = (
    *("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
    *("erfc", "lgamma"),
)
BINARY = ("atan2", "hypot", "nextafter")
_OTHER = ("fmod", "pow")


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


LIBM: Mapping[str, str] = {
    **{name: _function(name, 1) for name in UNARY},
    **{name: _function(name, 2) for name in BINARY},
    "powf": _declaration("pow", 2),
    "fmodf": _declaration("fmod", 2),
}
"""Source by name: a function of ``f32`` and ``f64``, or a declaration in ``libm``."""
