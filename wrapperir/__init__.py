"""wrapperir: a typed, serialisable, verified IR of the host program around kernels.

The names below are the ones most programs need; the packages that hold them have the
rest.  ``verify`` is not among them: it has the name of its package, so import it with
``from wrapperir.verify import verify``.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __all__: list[str]
    from wrapperir.diagnostics import Code as Code
    from wrapperir.diagnostics import Diagnostic as Diagnostic
    from wrapperir.diagnostics import DiagnosticError as DiagnosticError
    from wrapperir.emit import Emitter as Emitter
    from wrapperir.emit import compile_program as compile_program
    from wrapperir.interp import interpret as interpret
    from wrapperir.ir import Access as Access
    from wrapperir.ir import BufferParameter as BufferParameter
    from wrapperir.ir import ConstexprParameter as ConstexprParameter
    from wrapperir.ir import DescriptorParameter as DescriptorParameter
    from wrapperir.ir import Device as Device
    from wrapperir.ir import DType as DType
    from wrapperir.ir import EventType as EventType
    from wrapperir.ir import KernelConfig as KernelConfig
    from wrapperir.ir import KernelDefinitionLine as KernelDefinitionLine
    from wrapperir.ir import Language as Language
    from wrapperir.ir import Line as Line
    from wrapperir.ir import LineVisitor as LineVisitor
    from wrapperir.ir import PoolType as PoolType
    from wrapperir.ir import Program as Program
    from wrapperir.ir import ScalarParameter as ScalarParameter
    from wrapperir.ir import SizeOf as SizeOf
    from wrapperir.ir import Symbol as Symbol
    from wrapperir.ir import TensorType as TensorType
    from wrapperir.ir import ZeroMode as ZeroMode
    from wrapperir.ir import ceildiv as ceildiv
    from wrapperir.ir import tensor as tensor
    from wrapperir.ir.builder import ProgramBuilder as ProgramBuilder
    from wrapperir.loading import load as load
    from wrapperir.passes import MEMORY_PASSES as MEMORY_PASSES
    from wrapperir.pipelines import run_passes as run_passes
    from wrapperir.text import format_json as format_json
    from wrapperir.text import format_program as format_program
    from wrapperir.text import parse_json as parse_json
    from wrapperir.text import parse_program as parse_program

__version__ = "0.1.0"

_NAMES = {
    "wrapperir.diagnostics": "Code Diagnostic DiagnosticError",
    "wrapperir.emit": "Emitter compile_program",
    "wrapperir.interp": "interpret",
    "wrapperir.ir": "Access BufferParameter ConstexprParameter DescriptorParameter Device"
    " DType EventType KernelConfig KernelDefinitionLine Language Line LineVisitor PoolType"
    " Program ScalarParameter SizeOf Symbol TensorType ZeroMode ceildiv tensor",
    "wrapperir.ir.builder": "ProgramBuilder",
    "wrapperir.loading": "load",
    "wrapperir.passes": "MEMORY_PASSES",
    "wrapperir.pipelines": "run_passes",
    "wrapperir.text": "format_json format_program parse_json parse_program",
}
"""The public names of each module."""

if not TYPE_CHECKING:  # a type checker would take __getattr__ to define any name
    _HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

    # As ruff sorts: constants, classes, functions.
    __all__ = sorted(_HOMES, key=lambda name: (not name.isupper(), name[0].islower(), name))

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used, so that importing stays fast."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value
