"""Operators that an emitted module calls through PyTorch's C functions.

PyTorch's Python bindings parse arguments, dispatch and prepare for gradients: half a
microsecond for a product of small matrices.  The functions of ``emitted/operators.cpp``,
which the module compiles, go straight to the operator.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import LiteralString

from attrs import frozen

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.ir import (
    DEFAULT_SPACE,
    Argument,
    BufferRef,
    DType,
    ExternKernelLine,
    TensorType,
)
from wrapperir_python.choices import CACHE
from wrapperir_python.context import PythonContext

_EMITTED = Path(__file__).with_name("emitted")
_FILES = ("operators.py", "operators.cpp")
_DTYPES = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
"""Dtypes whose numbers lose nothing as a double; complex tensors may be lazy."""


@frozen
class _Direct:
    """A function of ``emitted/operators.py``: it takes tensors, numbers and ``out``."""

    function: LiteralString
    tensors: int
    numbers: tuple[str, ...] = ()


_SCALED = ("beta", "alpha")
_DIRECT: Mapping[str, _Direct] = {
    "aten.mm.out": _Direct("mm_out", 2),
    "aten.bmm.out": _Direct("bmm_out", 2),
    "aten.addmm.out": _Direct("addmm_out", 3, _SCALED),
    "aten.baddbmm.out": _Direct("baddbmm_out", 3, _SCALED),
}


def format_direct_call(context: PythonContext, line: ExternKernelLine) -> Fragment | None:
    """Return the call of a direct function; ``None`` where there is none for the line.

    It counts no version and records no gradient, so ``out`` must be the program's own.
    """
    direct = _DIRECT.get(line.operator)
    keywords = dict(line.keywords)
    out = keywords.pop("out", None)
    if (
        direct is None
        or line.result is not None
        or not isinstance(out, BufferRef)
        or out.name not in context.owned
        or len(line.arguments) != direct.tensors
        or not keywords.keys() <= set(direct.numbers)
        or not all(_is_plain(context, argument) for argument in (*line.arguments, out))
    ):
        return None
    numbers = [keywords.get(name, 1) for name in direct.numbers]
    arguments = map(context.arguments.format_argument, (*line.arguments, *numbers, out))
    return fragment("{}({})", _bind(context.module, direct), joined(", ", arguments))


def _is_plain(context: PythonContext, argument: Argument) -> bool:
    type = (
        context.facts.types.get(argument.name) if isinstance(argument, BufferRef) else None
    )
    return (
        isinstance(type, TensorType)
        and type.device.kind == "cpu"
        and type.dtype in _DTYPES
        and type.space == DEFAULT_SPACE
        and type.layout is None
    )


def _bind(module: ModuleText, direct: _Direct) -> Fragment:
    function = fragment(direct.function)
    key = "direct", function
    if key not in module.made:
        operators = module.import_file("operators", _EMITTED, *_FILES)
        module.files[CACHE.name] = CACHE.read_text("utf-8")
        module.made[key] = module.names.claim(function)
        module.operators.emit_line("{} = {}.{}", module.made[key], operators, function)
    return module.made[key]
