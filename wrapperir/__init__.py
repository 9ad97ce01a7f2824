"""wrapperir: a typed, serialisable, verified IR of the host program around kernels.

The names below are the ones most programs need; the packages that hold them have the
rest.  ``verify`` is not among them: it has the name of its package, so import it with
``from wrapperir.verify import verify``.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wrapperir.diagnostics import Code as Code
    from wrapperir.diagnostics import Diagnostic as Diagnostic
    from wrapperir.diagnostics import DiagnosticError as DiagnosticError
    from wrapperir.emit import Emitter as Emitter
    from wrapperir.emit import compile_program as compile_program
    from wrapperir.interp import interpret as interpret
    from wrapperir.ir.builder import ProgramBuilder as ProgramBuilder
    from wrapperir.ir.line import Line as Line
    from wrapperir.ir.program import Program as Program
    from wrapperir.ir.types import tensor as tensor
    from wrapperir.ir.visitor import LineVisitor as LineVisitor
    from wrapperir.passes import run_passes as run_passes
    from wrapperir.text import format_json as format_json
    from wrapperir.text import format_program as format_program
    from wrapperir.text import parse_json as parse_json
    from wrapperir.text import parse_program as parse_program

__version__ = "0.1.0"

_HOMES = {
    "Code": "wrapperir.diagnostics",
    "Diagnostic": "wrapperir.diagnostics",
    "DiagnosticError": "wrapperir.diagnostics",
    "Emitter": "wrapperir.emit",
    "Line": "wrapperir.ir.line",
    "LineVisitor": "wrapperir.ir.visitor",
    "Program": "wrapperir.ir.program",
    "ProgramBuilder": "wrapperir.ir.builder",
    "compile_program": "wrapperir.emit",
    "format_json": "wrapperir.text",
    "format_program": "wrapperir.text",
    "interpret": "wrapperir.interp",
    "parse_json": "wrapperir.text",
    "parse_program": "wrapperir.text",
    "run_passes": "wrapperir.passes",
    "tensor": "wrapperir.ir.types",
}

__all__ = [
    "Code",
    "Diagnostic",
    "DiagnosticError",
    "Emitter",
    "Line",
    "LineVisitor",
    "Program",
    "ProgramBuilder",
    "compile_program",
    "format_json",
    "format_program",
    "interpret",
    "parse_json",
    "parse_program",
    "run_passes",
    "tensor",
]

if not TYPE_CHECKING:  # a type checker would take it to define any name

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used, so that importing stays fast."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value
