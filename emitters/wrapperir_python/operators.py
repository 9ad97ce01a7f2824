"""Operators in Python: the fastest callable that takes the same arguments."""

import keyword
from collections.abc import Mapping
from typing import LiteralString

from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.python.literals import format_keyword, format_string
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.ir import ExternKernelLine
from wrapperir.operators import UnknownOperatorError, split_operator
from wrapperir_python.context import PythonContext
from wrapperir_python.direct_operators import format_direct_call


@frozen
class _Binding:
    """A function of ``torch`` that stands for an operator.

    Python's bindings cost half as much to call as the dispatcher's, but choose among
    overloads and accept older argument orders; so it is used only for calls with
    ``positional`` arguments and keywords among ``keywords``, where no other choice exists.
    """

    function: LiteralString
    positional: int
    keywords: frozenset[str] = frozenset()


_OUT = frozenset({"out"})
_SCALED = frozenset({"beta", "alpha"})
_FAST: Mapping[str, _Binding] = {
    "aten.mm.default": _Binding("mm", 2),
    "aten.mm.out": _Binding("mm", 2, _OUT),
    "aten.bmm.default": _Binding("bmm", 2),
    "aten.bmm.out": _Binding("bmm", 2, _OUT),
    "aten.mv.default": _Binding("mv", 2),
    "aten.mv.out": _Binding("mv", 2, _OUT),
    "aten.addmm.default": _Binding("addmm", 3, _SCALED),
    "aten.addmm.out": _Binding("addmm", 3, _OUT | _SCALED),
    "aten.baddbmm.default": _Binding("baddbmm", 3, _SCALED),
    "aten.baddbmm.out": _Binding("baddbmm", 3, _OUT | _SCALED),
    "aten.convolution.default": _Binding("convolution", 9),
    "aten._int_mm.default": _Binding("_int_mm", 2),
    "aten._int_mm.out": _Binding("_int_mm", 2, _OUT),
}


def format_operator_call(context: PythonContext, line: ExternKernelLine) -> Fragment:
    """Return the call of an operator, with its arguments in Python.

    Raises:
        DiagnosticError: torch has no such operator or argument.
    """
    direct = format_direct_call(context, line)
    if direct is not None:
        return direct
    function = bind_operator(context.module, line)
    format_argument = context.arguments.format_argument
    parts = [format_argument(argument) for argument in line.arguments]
    parts += [format_keyword(key, format_argument(v)) for key, v in line.keywords]
    return fragment("{}({})", function, joined(", ", parts))


def bind_operator(module: ModuleText, line: ExternKernelLine) -> Fragment:
    """Return the global that holds the callable for an operator call.

    Raises:
        DiagnosticError: the dispatcher cannot have an operator of that name.
    """
    fast = _FAST.get(line.operator)
    if (
        fast is not None
        and len(line.arguments) == fast.positional
        and fast.keywords.issuperset(name for name, _ in line.keywords)
    ):
        return module.bind(
            fragment("torch.{}", fragment(fast.function)), f"torch_{fast.function}"
        )
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
    return module.bind_operator(expression, "_".join(parts)[:200])
