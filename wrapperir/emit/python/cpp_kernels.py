"""C++ kernels in Python: functions that torch builds and binds."""

from typing import LiteralString

from wrapperir.emit.fragment import fragment, joined
from wrapperir.emit.names import NameTable
from wrapperir.emit.python.literals import format_string, format_text
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.ir import (
    Access,
    DType,
    KernelDefinitionLine,
    RuntimeParameter,
    ScalarParameter,
    TensorParameter,
    runtime_parameters,
)

# Numbers that the binding of torch reads from a Python argument by itself.
_PARSED = frozenset({DType.I64, DType.U64, DType.F32})
_WHOLE = frozenset({DType.I32, DType.I16, DType.I8, DType.U32, DType.U16, DType.U8})
# The binding's own function for reading an argument, made to read a double as well.
_PARSE_DOUBLE: LiteralString = """\
#include <Python.h>
template <typename T> static inline T parse_arg(PyObject* args, size_t n);
template <> inline double parse_arg<double>(PyObject* args, size_t n) {
    double result = PyFloat_AsDouble(PyTuple_GET_ITEM(args, n));
    if (result == -1.0 && PyErr_Occurred()) throw std::runtime_error("expected float arg");
    return result;
}
"""
_ENTRY = "kernel"
"""The name that torch's binding of C++ functions calls."""


def emit_cpp_kernel(module: ModuleText, line: KernelDefinitionLine) -> None:
    """Append the building of a C++ kernel; all are compiled side by side."""
    module.need("AsyncCompile")
    types = [_c_type(parameter) for parameter in runtime_parameters(line.parameters)]
    module.definitions.emit_line(
        "{} = async_compile.cpp_pybinding([{}], {})",
        module.kernels[line.name],
        joined(", ", map(format_string, types)),
        format_text(_adapted_source(line, types)),
    )


def _adapted_source(line: KernelDefinitionLine, types: list[str]) -> str:
    """Return the source with an ``extern "C"`` function named ``kernel``."""
    runtime = runtime_parameters(line.parameters)
    if line.entry == _ENTRY and not any(map(_is_adapted, runtime)):
        return line.source
    entry = NameTable(()).claim(line.entry)
    if line.entry == _ENTRY:
        entry = fragment("{}_of_source", entry)
    names = [f"a{index}" for index in range(len(runtime))]
    declared = ", ".join(f"{t} {name}" for t, name in zip(types, names, strict=True))
    return f"""\
{_PARSE_DOUBLE if DType.F64.cpp_type in types else ""}\
#define {_ENTRY} {_ENTRY}_of_source
{line.source}
#undef {_ENTRY}
extern "C" void {_ENTRY}({declared}) {{
    {entry}({", ".join(names)});
}}
"""


def _is_adapted(parameter: RuntimeParameter) -> bool:
    return isinstance(parameter, ScalarParameter) and parameter.dtype not in _PARSED


def _c_type(parameter: RuntimeParameter) -> str:
    if isinstance(parameter, TensorParameter):
        const = "const " if parameter.access is Access.READ else ""
        return f"{const}{parameter.dtype.cpp_type}*"
    if parameter.dtype in _WHOLE or parameter.dtype is DType.BOOL:
        return "int64_t"
    if parameter.dtype in (DType.F16, DType.BF16):
        return "float"
    return parameter.dtype.cpp_type
