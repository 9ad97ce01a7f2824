"""Expressions compiled into one library, and called."""

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from wrapperir.emit import Fragment, fragment
from wrapperir.ir import Expr, Number, SymbolKind
from wrapperir_cpp.expressions import CppExpressions
from wrapperir_cpp.module_text import source_writer

RUNTIME = Path(__file__).parents[2] / "emitters" / "wrapperir_cpp" / "runtime"
FORMS = ("any", "int", "float", "bool", "condition")
# What the runtime's own function would be.
_FAIL = """
#include <stdarg.h>
#include <stdio.h>
static char message[1000];
namespace wrapperir {
void fail(int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  throw Failure();
}
void fail_in_torch(int line) { fail(line, "torch"); }
}
extern "C" const char* failure() { return message; }
"""
_RUN = """
extern "C" int run(long index, const Call* c, num::Number* out) {
  try {
    *out = functions[index](*c);
    return 0;
  } catch (const wrapperir::Failure&) {
    return 1;
  }
}
"""


def build_runtime(folder: Path, source: str, *parts: str, level: int = 1) -> Path:
    """Compile a source with parts of the runtime, optimized to a level; return its library.

    It has a function for failures.
    """
    file, library = folder / "source.cpp", folder / "source.so"
    file.write_text(source + _FAIL)
    command = ["g++", "-std=c++17", f"-O{level}", "-shared", "-fPIC", f"-I{RUNTIME}"]
    command += [str(file), *(str(RUNTIME / f"{part}.cpp") for part in parts)]
    torch_libraries = Path(torch.__file__).parent / "lib"
    command += [f"-L{torch_libraries}", f"-Wl,-rpath,{torch_libraries}", "-ltorch_cpu"]
    subprocess.run([*command, "-o", str(library)], check=True)
    return library


class _Number(ctypes.Structure):
    kind: int
    bits: int
    _fields_ = (("kind", ctypes.c_int32), ("bits", ctypes.c_int64))


class Library:
    """Compiled expressions over symbols of the kinds that ``symbols`` names."""

    def __init__(
        self,
        folder: Path,
        symbols: Mapping[str, SymbolKind],
        exprs: Sequence[Expr],
        level: int = 1,
    ) -> None:
        """Compile each expression in each of ``FORMS``, optimized to a level."""
        self._symbols = symbols
        self._structure = _structure_of(symbols)
        self.texts: list[Fragment] = []
        self._library = ctypes.CDLL(
            str(build_runtime(folder, self._source(exprs), "numbers", level=level))
        )
        self._library.failure.restype = ctypes.c_char_p

    def _source(self, exprs: Sequence[Expr]) -> str:
        types = {SymbolKind.INT: "int64_t", SymbolKind.FLOAT: "double"}
        fields = "".join(
            f"  {types.get(kind, 'bool')} {name};\n" for name, kind in self._symbols.items()
        )
        formatter = formatter_of(self._symbols)
        writer = source_writer()
        for expr in exprs:
            for form in FORMS:
                self.texts.append(_result(formatter, form, expr))
                writer.emit_line("[](const Call& c) {{ {} }},", self.texts[-1])
        return f"""\
#include "numbers.h"
using namespace wrapperir;
struct Call {{
{fields}}};
static num::Number (*const functions[])(const Call&) = {{
{writer.format_text()}}};
{_RUN}"""

    def run(self, index: int, form: str, values: Mapping[str, Number]) -> Number | None:
        """Return the value of an expression in a form; ``None`` where it fails."""
        call = self._structure(*(values[name] for name in self._symbols))
        out = _Number()
        number = index * len(FORMS) + FORMS.index(form)
        if self._library.run(ctypes.c_long(number), ctypes.byref(call), ctypes.byref(out)):
            return None
        if out.kind == 2:
            return ctypes.c_double.from_buffer_copy(ctypes.c_int64(out.bits)).value
        return out.bits if out.kind == 1 else bool(out.bits)

    @property
    def message(self) -> str:
        """What the last failure said."""
        message = self._library.failure()
        assert isinstance(message, bytes)
        return message.decode()


def _structure_of(symbols: Mapping[str, SymbolKind]) -> type[ctypes.Structure]:
    types: dict[SymbolKind, type[ctypes.c_int64 | ctypes.c_double | ctypes.c_bool]] = {
        SymbolKind.INT: ctypes.c_int64,
        SymbolKind.FLOAT: ctypes.c_double,
        SymbolKind.BOOL: ctypes.c_bool,
    }

    class Call(ctypes.Structure):
        _fields_ = tuple((name, types[kind]) for name, kind in symbols.items())

    return Call


def formatter_of(symbols: Mapping[str, SymbolKind]) -> CppExpressions:
    """Return a formatter over members of a ``Call``."""
    return CppExpressions(
        {name: fragment("c.{}", Fragment(name)) for name in symbols},
        symbols,
    )


def _result(formatter: CppExpressions, form: str, expr: Expr) -> Fragment:
    match form:
        case "any":
            return fragment("return {};", formatter.format_number(expr, None))
        case "int":
            return fragment("return num::of_int({});", formatter.format_index(expr))
        case "float":
            number = formatter.format_number(expr, SymbolKind.FLOAT)
            return fragment("return num::of_float({});", number)
        case "bool":
            number = formatter.format_number(expr, SymbolKind.BOOL)
            return fragment("return num::of_bool({});", number)
        case _:
            condition = formatter.format_condition(expr)
            return fragment(
                "if ({}) return num::of_bool(true); return num::of_bool(false);", condition
            )
