"""Operators in Python: the fastest callable that takes the same arguments.

PyTorch's Python bindings parse arguments, dispatch and prepare for gradients: half a
microsecond for a product of small matrices.  The functions of ``emitted/operators.cpp``,
which the module compiles, go straight to the operator.
"""

import keyword
from collections.abc import Mapping
from pathlib import Path
from typing import LiteralString

from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.python.compiled_launches import CACHE, EMITTED
from wrapperir.emit.python.expressions import format_keyword, format_string
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.ir import (
    DEFAULT_SPACE,
    Argument,
    BufferRef,
    DType,
    ExternKernelLine,
    TensorType,
)
from wrapperir.operators import UnknownOperatorError, split_operator
from wrapperir_python.context import PythonContext


@frozen
class _FastOperator:
    """A function of ``torch`` that stands for an operator.

    Python's bindings cost half as much to call as the dispatcher's, but choose among
    overloads and accept older argument orders; so it is used only for calls with
    ``positional`` arguments and keywords among ``keywords``, where no other choice exists.
    ``direct`` is the function of ``emitted/operators.py`` that takes the same by position.
    """

    function: LiteralString
    positional: int
    keywords: tuple[str, ...] = ()
    direct: LiteralString | None = None


_EMITTED = Path(__file__).with_name("emitted")
_DIRECT_DTYPES = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
"""Dtypes whose numbers lose nothing as a double; complex tensors may be lazy."""
_OUT = ("out",)
_SCALED = ("beta", "alpha")
_FAST: Mapping[str, _FastOperator] = {
    "aten.mm.default": _FastOperator("mm", 2),
    "aten.mm.out": _FastOperator("mm", 2, _OUT, "mm_out"),
    "aten.bmm.default": _FastOperator("bmm", 2),
    "aten.bmm.out": _FastOperator("bmm", 2, _OUT, "bmm_out"),
    "aten.mv.default": _FastOperator("mv", 2),
    "aten.mv.out": _FastOperator("mv", 2, _OUT),
    "aten.addmm.default": _FastOperator("addmm", 3, _SCALED),
    "aten.addmm.out": _FastOperator("addmm", 3, (*_SCALED, *_OUT), "addmm_out"),
    "aten.baddbmm.default": _FastOperator("baddbmm", 3, _SCALED),
    "aten.baddbmm.out": _FastOperator("baddbmm", 3, (*_SCALED, *_OUT), "baddbmm_out"),
    "aten.convolution.default": _FastOperator("convolution", 9),
    "aten._int_mm.default": _FastOperator("_int_mm", 2),
    "aten._int_mm.out": _FastOperator("_int_mm", 2, _OUT),
}


def format_operator_call(context: PythonContext, line: ExternKernelLine) -> Fragment:
    """Return the call of an operator, with its arguments in Python.

    Raises:
        DiagnosticError: torch has no such operator or argument.
    """
    fast = _FAST.get(line.operator)
    keywords = dict(line.keywords)
    if (
        fast is not None
        and len(line.arguments) == fast.positional
        and keywords.keys() <= {*fast.keywords}
    ):
        if fast.direct is not None and _is_direct(context, line):
            given = [keywords.get(name, 1) for name in fast.keywords]
            formatted = map(context.arguments.format_argument, (*line.arguments, *given))
            function = _bind_direct(context.module, fast.direct)
            return fragment("{}({})", function, joined(", ", formatted))
        expression = fragment("torch.{}", fragment(fast.function))
        function = context.module.bind(expression, f"torch_{fast.function}")
    else:
        function = _bind_operator(context.module, line.operator)
    format_argument = context.arguments.format_argument
    parts = [format_argument(argument) for argument in line.arguments]
    parts += [format_keyword(key, format_argument(v)) for key, v in line.keywords]
    return fragment("{}({})", function, joined(", ", parts))


def _is_direct(context: PythonContext, line: ExternKernelLine) -> bool:
    """Return whether a direct function computes a line; ``out`` must be the program's own.

    It counts no version and records no gradient.
    """
    out = dict(line.keywords).get("out")
    return (
        line.result is None
        and isinstance(out, BufferRef)
        and out.name in context.owned
        and all(_is_plain(context, argument) for argument in (*line.arguments, out))
    )


def _is_plain(context: PythonContext, argument: Argument) -> bool:
    type = (
        context.facts.types.get(argument.name) if isinstance(argument, BufferRef) else None
    )
    return (
        isinstance(type, TensorType)
        and type.device.kind == "cpu"
        and type.dtype in _DIRECT_DTYPES
        and type.space == DEFAULT_SPACE
        and type.layout is None
    )


def _bind_direct(module: ModuleText, name: LiteralString) -> Fragment:
    extension = EMITTED / "native_module.py", EMITTED / "tensors.h"
    operators = module.import_file(
        "operators", _EMITTED, "operators.cpp", CACHE, *extension
    )
    return module.import_from_file(operators, name)


def _bind_operator(module: ModuleText, operator: str) -> Fragment:
    """Return the global that holds the callable for an operator.

    Raises:
        DiagnosticError: the dispatcher cannot have an operator of that name.
    """
    try:
        parts = split_operator(operator)
    except UnknownOperatorError as error:
        raise Code.UNSUPPORTED_FEATURE.error(str(error)) from None
    expression = fragment("torch.ops")
    for part in parts:
        if keyword.iskeyword(part):  # aten.random.from
            expression = fragment("getattr({}, {})", expression, format_string(part))
        else:
            expression = fragment("{}.{}", expression, Fragment(part))
    return module.bind_operator(expression, "_".join(parts)[:200])
