"""The parameters that a pass declares by its signature, and the arguments that it gets."""

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeAlias, cast

from attrs import frozen

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.ir import Program
from wrapperir.passes.pass_call import PassArgument, PassCall, format_argument
from wrapperir.text.cursor import suggestion

PassFunction: TypeAlias = Callable[..., Program]
"""A function that takes a program, and perhaps arguments by name."""

_KINDS: dict[type, str] = {
    bool: "`true` or `false`",
    int: "an integer",
    float: "a number",
    str: "a string",
}


@frozen
class PassParameter:
    """A parameter of a pass.

    ``kind`` is ``bool``, ``int``, ``float``, ``str`` or a class of ``StrEnum``.  Without a
    ``default``, the argument must be given.
    """

    name: str
    kind: type[PassArgument]
    default: PassArgument | None


def parameters_of(run: PassFunction) -> tuple[PassParameter, ...]:
    """Return the parameters after the program that a pass declares by its signature.

    Raises:
        TypeError: it cannot be called with a program alone in front, or a parameter is not
            declared with a type that arguments have.
    """
    first, *rest = inspect.signature(run).parameters.values() or (None,)
    if first is None or first.kind not in (
        first.POSITIONAL_ONLY,
        first.POSITIONAL_OR_KEYWORD,
    ):
        raise TypeError("a pass takes a program as its first argument")
    names: dict[str, object] = {each.__name__: each for each in _KINDS}
    names |= getattr(inspect.unwrap(run), "__globals__", {})
    return tuple(_parameter(each, names) for each in rest)


def _parameter(declared: inspect.Parameter, names: Mapping[str, object]) -> PassParameter:
    name = declared.name
    kind: object = declared.annotation
    if isinstance(kind, str):  # annotations may be postponed
        kind = names.get(kind)
    if declared.kind not in (declared.KEYWORD_ONLY, declared.POSITIONAL_OR_KEYWORD):
        raise TypeError(f"parameter {name!a} of a pass must be one that is given by name")
    if not isinstance(kind, type) or not (kind in _KINDS or issubclass(kind, StrEnum)):
        allowed = ", ".join(each.__name__ for each in _KINDS)
        raise TypeError(
            f"parameter {name!a} of a pass must be declared as {allowed} or a StrEnum"
        )
    if declared.default is declared.empty:
        return PassParameter(name, kind, None)
    default: object = declared.default
    if not isinstance(default, kind):
        raise TypeError(f"the default of parameter {name!a} must be a {kind.__name__}")
    return PassParameter(name, kind, cast(PassArgument, default))


def format_parameter(parameter: PassParameter) -> str:
    """Return a parameter with its default, or with its type if it has none."""
    default = parameter.default
    if default is None:
        return f"{parameter.name}: {parameter.kind.__name__}"
    return f"{parameter.name} = {format_argument(default)}"


def bind_arguments(
    call: PassCall, parameters: tuple[PassParameter, ...]
) -> dict[str, PassArgument]:
    """Return the arguments of a call with the types that a pass declares.

    Raises:
        DiagnosticError: WIR742 for each argument that the pass does not take, that is given
            twice, has another type, or is missing.
    """
    known = {parameter.name: parameter for parameter in parameters}
    bound: dict[str, PassArgument] = {}
    wrong: list[Diagnostic] = []
    for name, value in call.arguments:
        if name not in known:
            hint = suggestion(name, known) if known else "it takes none"
            wrong.append(_wrong(call, f"`{call.name}` has no argument `{name}`", hint))
        elif name in bound:
            wrong.append(_wrong(call, f"`{call.name}` is given `{name}` twice"))
        else:
            converted = _converted(value, known[name].kind)
            bound[name] = value if converted is None else converted
            if converted is None:
                wanted = f"`{name}` of `{call.name}` is {_wanted(known[name].kind)}"
                wrong.append(_wrong(call, f"{wanted}, not {format_argument(value)}"))
    for parameter in parameters:
        if parameter.default is None and parameter.name not in bound:
            message = f"`{call.name}` needs the argument `{parameter.name}`"
            wrong.append(_wrong(call, message, f"it is {_wanted(parameter.kind)}"))
    if wrong:
        raise DiagnosticError(*wrong)
    return bound


def _converted(value: PassArgument, kind: type[PassArgument]) -> PassArgument | None:
    """Return an argument as a value of a parameter's type, ``None`` if it is not one."""
    if issubclass(kind, StrEnum):
        return kind(value) if value in list(kind) else None
    if kind is float and type(value) is int:
        return float(value) if abs(value) < 2**53 else None
    return value if type(value) is kind else None


def _wanted(kind: type[PassArgument]) -> str:
    if issubclass(kind, StrEnum):
        return " or ".join(format_argument(each.value) for each in kind)
    return _KINDS[kind]


def _wrong(call: PassCall, message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic(Code.WRONG_PASS_ARGUMENT, message, position=call.position, hint=hint)
