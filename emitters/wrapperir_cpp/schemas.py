"""Calls of operators, held against their schemas."""

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Argument, ExternKernelLine
from wrapperir.operators import Parameter, Schema, UnknownOperatorError, find_schema


def refused(message: str) -> DiagnosticError:
    """Return the error for an operator call that has no form in C++."""
    return DiagnosticError.of(Code.UNSUPPORTED_FEATURE, message)


def called_schema(line: ExternKernelLine) -> Schema:
    """Return the schema of the operator that a line calls.

    Raises:
        DiagnosticError: WIR705, PyTorch has no such operator.
    """
    try:
        return find_schema(line.operator)
    except UnknownOperatorError as error:
        raise refused(str(error)) from None


def bind_arguments(
    schema: Schema, line: ExternKernelLine
) -> tuple[tuple[Parameter, Argument], ...]:
    """Return the argument for each parameter; defaults where the call gives none.

    Raises:
        DiagnosticError: WIR705, an argument is missing, or has no parameter.
    """
    positional = [p for p in schema.parameters if not p.keyword_only]
    if len(line.arguments) > len(positional):
        raise refused(f"{line.operator} takes {len(positional)} arguments by position")
    given: dict[str, Argument] = {
        parameter.name: argument
        for parameter, argument in zip(positional, line.arguments, strict=False)
    }
    known = {parameter.name for parameter in schema.parameters}
    for name, argument in line.keywords:
        if name not in known:
            raise refused(f"{line.operator} has no argument {name[:80]!a}")
        if name in given:
            raise refused(f"{line.operator} is given {name[:80]!a} twice")
        given[name] = argument
    bound: list[tuple[Parameter, Argument]] = []
    for parameter in schema.parameters:
        if parameter.name not in given and not parameter.has_default:
            raise refused(f"{line.operator} needs an argument {parameter.name[:80]!a}")
        if parameter.name not in given and parameter.odd_default is not None:
            raise refused(f"a default of {parameter.odd_default[:80]!a} has no form in C++")
        bound.append((parameter, given.get(parameter.name, parameter.default)))
    return tuple(bound)
