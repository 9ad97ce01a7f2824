"""Arguments and results of operator calls, held against the operators' schemas."""

from collections.abc import Mapping

from attrs import frozen

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    Argument,
    ExternKernelLine,
    OpaqueType,
    ScalarType,
    SymbolKind,
    TensorType,
    TupleType,
    ValueType,
)
from wrapperir.operators import (
    Kind,
    Parameter,
    Schema,
    SchemaType,
    UnknownOperatorError,
    find_schema,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.memory import define_scalar, result_slot
from wrapperir_cpp.value_storage import Indices


def refused(message: str) -> DiagnosticError:
    """Return the error for an operator call that has no form in C++."""
    return Code.UNSUPPORTED_FEATURE.error(message)


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


@frozen
class ResultValue:
    """A result of a call: its schema's type, and where it goes.

    ``target`` is a slot or number, ``None`` where the result is dropped; a list of tensors
    has ``items``.
    """

    type: SchemaType
    target: Fragment | None = None
    items: tuple["ResultValue", ...] | None = None


_SCALARS: Mapping[Kind, tuple[SymbolKind, ...]] = {
    Kind.INT: (SymbolKind.INT,),
    Kind.FLOAT: (SymbolKind.FLOAT,),
    Kind.BOOL: (SymbolKind.BOOL,),
    Kind.SYM_BOOL: (SymbolKind.BOOL,),
    Kind.SCALAR: (SymbolKind.INT, SymbolKind.FLOAT, SymbolKind.BOOL),
}


def bind_results(
    context: Context, schema: Schema, name: str | None, type: ValueType | None
) -> list[ResultValue]:
    """Return where each result of a call goes; slots and numbers are defined.

    Raises:
        DiagnosticError: WIR705, the declared type is not one that the schema's can have.
    """
    if name is None or type is None:
        return [ResultValue(found) for found in schema.results]
    if not schema.results and isinstance(type, OpaqueType):
        _bind_opaque(context, type, name, ())
        return []
    if len(schema.results) == 1:
        return [_bind_result(context, schema.results[0], name, type, ())]
    if not isinstance(type, TupleType) or len(type.elements) != len(schema.results):
        raise refused(f"{schema.name} returns {len(schema.results)} values")
    return [
        _bind_result(context, found, name, element, (position,))
        for position, (found, element) in enumerate(
            zip(schema.results, type.elements, strict=True)
        )
    ]


def _bind_result(
    context: Context, found: SchemaType, name: str, type: ValueType, indices: Indices
) -> ResultValue:
    required = found.required
    match type:
        case OpaqueType():
            _bind_opaque(context, type, name, indices)
            return ResultValue(found)
        case TensorType() if required.kind is Kind.TENSOR:
            return ResultValue(found, result_slot(context, name, indices))
        case ScalarType(dtype) if kind_of(dtype) in _SCALARS.get(required.kind, ()):
            return ResultValue(found, define_scalar(context, name, kind_of(dtype), indices))
        case TupleType(elements) if required.kind is Kind.LIST and required.element:
            items = [
                _bind_result(context, required.element, name, element, (*indices, position))
                for position, element in enumerate(elements)
            ]
            return ResultValue(found, items=tuple(items))
        case _:
            raise refused(f"a result of type {required.kind.value} has no form in C++ here")


def _bind_opaque(context: Context, type: OpaqueType, name: str, indices: Indices) -> None:
    """Define the slot of a value without a tensor, which stays empty."""
    if type.description == "object":
        raise refused(f"%{name[:80]} is an object of PyTorch's that C++ cannot hold")
    result_slot(context, name, indices)
