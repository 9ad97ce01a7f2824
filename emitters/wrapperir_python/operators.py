"""Operators in Python: the fastest callable that takes the same arguments.

A call through PyTorch's dispatcher by name costs twice as much as one of its C functions,
which ``emitted/bindings.py`` finds.  These still parse arguments, dispatch and prepare for
gradients: half a microsecond for a product of small matrices.  The functions of
``emitted/operators.cpp``, which the module compiles, go straight to the operator.
"""

import keyword
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import LiteralString

from wrapperir.diagnostics import Code
from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.python.compiled_launches import CACHE, EMITTED
from wrapperir.emit.python.expressions import (
    format_int,
    format_keyword,
    format_string,
)
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

_EMITTED = Path(__file__).with_name("emitted")
_DIRECT_DTYPES = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
"""Dtypes whose numbers lose nothing as a double; complex tensors may be lazy."""
_SCALED = ("beta", "alpha")
_DIRECT: Mapping[str, tuple[LiteralString, int, tuple[str, ...]]] = {
    "aten.mm.out": ("mm_out", 2, ()),
    "aten.bmm.out": ("bmm_out", 2, ()),
    "aten.addmm.out": ("addmm_out", 3, _SCALED),
    "aten.baddbmm.out": ("baddbmm_out", 3, _SCALED),
}
"""Functions of ``emitted/operators.py``: their positional arguments and their numbers."""


def format_operator_call(context: PythonContext, line: ExternKernelLine) -> Fragment:
    """Return the call of an operator, with its arguments in Python.

    Raises:
        DiagnosticError: torch has no such operator or argument.
    """
    format_argument = context.arguments.format_argument
    direct = _direct_arguments(context, line)
    if direct is not None:
        function = bind_compiled(context.module, _DIRECT[line.operator][0])
        return fragment("{}({})", function, joined(", ", map(format_argument, direct)))
    parts = [format_argument(argument) for argument in line.arguments]
    parts += [format_keyword(key, format_argument(v)) for key, v in line.keywords]
    return fragment("{}({})", _bind_operator(context.module, line), joined(", ", parts))


def _direct_arguments(
    context: PythonContext, line: ExternKernelLine
) -> Sequence[Argument] | None:
    """Return the arguments of the direct function that computes a line, if one does.

    It counts no version and records no gradient, so ``out`` must be the program's own.
    """
    _, positional, numbers = _DIRECT.get(line.operator, ("", -1, ()))
    keywords = dict(line.keywords)
    out = keywords.pop("out", None)
    if (
        line.result is not None
        or len(line.arguments) != positional
        or not keywords.keys() <= {*numbers}
        or not isinstance(out, BufferRef)
        or out.name not in context.owned
        or not all(_is_plain(context, argument) for argument in (*line.arguments, out))
    ):
        return None
    return [*line.arguments, *(keywords.get(name, 1) for name in numbers), out]


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


def bind_compiled(module: ModuleText, name: LiteralString) -> Fragment:
    """Return the global that holds a function of ``emitted/operators.py``."""
    extension = EMITTED / "native_module.py", EMITTED / "tensors.h"
    operators = module.import_file(
        "operators", _EMITTED, "operators.cpp", CACHE, *extension
    )
    return module.import_from_file(operators, name)


def _bind_operator(module: ModuleText, line: ExternKernelLine) -> Fragment:
    """Return the global that holds the callable for calls like that of a line.

    Raises:
        DiagnosticError: the dispatcher cannot have an operator of that name.
    """
    try:
        parts = split_operator(line.operator)
    except UnknownOperatorError as error:
        raise Code.UNSUPPORTED_FEATURE.error(str(error)) from None
    expression = fragment("torch.ops")
    for part in parts:
        if keyword.iskeyword(part):  # aten.random.from
            expression = fragment("getattr({}, {})", expression, format_string(part))
        else:
            expression = fragment("{}.{}", expression, Fragment(part))
    keywords = [key for key, _ in line.keywords]
    form = [format_int(len(line.arguments)), *map(format_string, keywords)]
    key = "operator", line.operator, len(line.arguments), *keywords
    if key not in module.made:
        bindings = module.import_file("bindings", _EMITTED)
        name = module.made[key] = module.names.claim("_".join(parts)[:200])
        given = joined(", ", [expression, *form])
        module.operators.emit_line("{} = {}.find({})", name, bindings, given)
    return module.made[key]
