"""Arguments and results of operator calls, as the operators' schemas type them.

The class of a value does not depend on how the operator is called.
"""

from collections.abc import Mapping
from typing import TypeAlias, Union

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.operators import (
    Kind,
    Schema,
    SchemaParameter,
    SchemaType,
    UnknownOperatorError,
    find_schema,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_converted, format_float
from wrapperir_cpp.memory import define_value, tensor_handle
from wrapperir_cpp.value_storage import Indices

ENUMS: Mapping[str, frozenset[str]] = {
    kind: wir.TORCH_ENUM_NAMES[kind] for kind in ("layout", "memory_format")
}
"""The named constants of torch that C++ has, by kind."""


@frozen
class NoValue:
    """``None``."""


@frozen
class TensorHandle:
    """A tensor: ``text`` is its borrowed handle, ``type`` its declared type."""

    text: Fragment
    type: wir.TensorType


@frozen
class NumberValue:
    """A number and its value, if known; ``kind`` is ``None`` for a ``num::Number``."""

    text: Fragment
    kind: wir.SymbolKind | None
    constant: wir.Number | None = None


@frozen
class ListValue:
    """A list of values."""

    items: tuple["OperatorValue", ...]


PlainValue: TypeAlias = Union[str, wir.DType, wir.TorchEnum, wir.Device, wir.ComplexLiteral]
OperatorValue: TypeAlias = Union[NoValue, TensorHandle, NumberValue, ListValue, PlainValue]
"""An argument of an operator.  ``DType`` is a subclass of ``str``: test it first."""


def value_of(
    context: Context, type: SchemaType, argument: wir.Argument, what: str
) -> OperatorValue:
    """Return an argument as a value of its schema's type; ``what`` names it in messages.

    Raises:
        DiagnosticError: WIR705, it is not of that type.
    """
    if isinstance(argument, wir.BufferRef):
        argument_type = context.facts.types[argument.name]
        value: OperatorValue = _named(context, argument.name, argument_type, ())
    else:
        value = _literal(context, argument, type.required, what)
    fitted = _fitted(value, type)
    if fitted is None:
        raise refused(f"{what} takes no {_describe(value)} (its type is {_spell(type)})")
    return fitted


def tensors_in(value: OperatorValue) -> list[TensorHandle]:
    """Return the tensors of a value."""
    if isinstance(value, ListValue):
        return [tensor for item in value.items for tensor in tensors_in(item)]
    return [value] if isinstance(value, TensorHandle) else []


def _named(
    context: Context, name: str, type: wir.ValueType, indices: Indices
) -> OperatorValue:
    match type:
        case wir.TensorType():
            return TensorHandle(tensor_handle(context, name, indices), type)
        case wir.ScalarType(dtype):
            return NumberValue(context.values.scalar(name, indices), kind_of(dtype))
        case wir.TupleType(elements):
            return ListValue(
                tuple(
                    _named(context, name, element, (*indices, position))
                    for position, element in enumerate(elements)
                )
            )
        case wir.OpaqueType("object"):
            raise refused(f"%{name[:80]} is an object of PyTorch's that C++ cannot hold")
        case wir.OpaqueType():
            return NoValue()
        case wir.PoolType() | wir.EventType():
            raise refused(f"%{name[:80]} is not an argument of an operator")


def _literal(
    context: Context, argument: wir.Argument, type: SchemaType, what: str
) -> OperatorValue:
    match argument:
        case None:
            return NoValue()
        case bool() | int() | float() | wir.Symbol() | wir.Operation():
            expressions = context.expressions
            kind, constant = expressions.kind(argument), expressions.constant(argument)
            return NumberValue(expressions.format_number(argument, kind), kind, constant)
        case tuple():
            if type.kind is not Kind.LIST or type.element is None:
                raise refused(f"{what} takes no list (its type is {_spell(type)})")
            element = type.element
            return ListValue(
                tuple(value_of(context, element, item, what) for item in argument)
            )
        case wir.TorchEnum("quantized_dtype", name):
            raise refused(f"C++ has no tensors of the quantized dtype {name[:80]}")
        case wir.TorchEnum(kind, name) if name not in ENUMS.get(kind, ()):
            raise refused(f"torch has no {kind[:80]!a} named {name[:80]!a}")
        case wir.Device(kind, index):
            table = context.tables.get(kind)
            if table is None and kind != "meta":
                raise refused(f"C++ has no device of kind {kind[:80]!a}")
            return argument if table is None else wir.Device(table.enumerator, index)
        case str() | wir.TorchEnum() | wir.ComplexLiteral():
            return argument
        case wir.BufferRef(name):
            raise refused(f"%{name[:80]} is not a literal")


def _fitted(value: OperatorValue, type: SchemaType) -> OperatorValue | None:
    """Return the value as one of a schema's type; ``None`` if it is not."""
    kind = type.kind
    if kind is Kind.OPTIONAL:
        assert type.element is not None
        return value if isinstance(value, NoValue) else _fitted(value, type.element)
    match value:
        case NoValue():
            # A missing tensor: some operators return one, and others take it.
            return value if kind is Kind.TENSOR else None
        case TensorHandle():
            return value if kind is Kind.TENSOR else None
        case NumberValue():
            if kind is Kind.LIST and type.length and type.element:
                item = _fitted(value, type.element)  # as aten.avg_pool2d(x, 2)
                return None if item is None else ListValue((item,) * type.length)
            return _fitted_number(value, kind)
        case ListValue(items):
            if kind is not Kind.LIST or type.element is None:
                return None
            fitted = [_fitted(item, type.element) for item in items]
            found = [item for item in fitted if item is not None]
            return ListValue(tuple(found)) if len(found) == len(fitted) else None
        case wir.DType():
            return value if kind is Kind.DTYPE else None
        case str():
            return value if kind in (Kind.STRING, Kind.ANY) else None
        case wir.Device():
            return value if kind is Kind.DEVICE else None
        case wir.TorchEnum():
            return value if kind.value == _ENUM_TYPES[value.kind] else None
        case wir.ComplexLiteral():
            return value if kind in (Kind.SCALAR, Kind.COMPLEX, Kind.TENSOR) else None


_ENUM_TYPES = {"layout": "Layout", "memory_format": "MemoryFormat"}
_NUMBER_KINDS: Mapping[Kind, wir.SymbolKind] = {
    Kind.INT: wir.SymbolKind.INT,
    Kind.FLOAT: wir.SymbolKind.FLOAT,
    Kind.BOOL: wir.SymbolKind.BOOL,
    Kind.SYM_BOOL: wir.SymbolKind.BOOL,
}


def _fitted_number(value: NumberValue, kind: Kind) -> NumberValue | None:
    """Return a number as Python would pass it: an int may be a float, not the reverse."""
    if kind in (Kind.SCALAR, Kind.TENSOR, Kind.COMPLEX):
        return value
    wanted, constant = _NUMBER_KINDS.get(kind), value.constant
    if wanted is None or wanted is value.kind:
        return None if wanted is None else value
    if wanted is wir.SymbolKind.FLOAT and constant is not None:
        return NumberValue(format_float(float(constant)), wanted, constant)
    if value.kind is wir.SymbolKind.FLOAT or (
        value.kind is None and wanted is wir.SymbolKind.BOOL
    ):
        return None
    text = format_converted(value.text, value.kind, wanted)
    if wanted is wir.SymbolKind.BOOL and constant is not None:
        constant = bool(constant)
    return NumberValue(text, wanted, constant)


def _describe(value: OperatorValue) -> str:
    match value:
        case NoValue():
            return "None"
        case TensorHandle():
            return "tensor"
        case NumberValue(kind=kind):
            return kind.value if kind else "number"
        case ListValue():
            return "list"
        case wir.DType() | wir.Device() | wir.TorchEnum():
            return str(value)[:80]
        case wir.ComplexLiteral():
            return "complex number"
        case str():
            return "string"


def _spell(type: SchemaType) -> str:
    if type.element is None:
        return type.kind.value
    return f"{type.kind.value}[{_spell(type.element)}]"


def refused(message: str) -> DiagnosticError:
    """Return the error for an operator call that has no form in C++."""
    return Code.UNSUPPORTED_FEATURE.error(message)


def called_schema(line: wir.ExternKernelLine) -> Schema:
    """Return the schema of the operator that a line calls.

    Raises:
        DiagnosticError: WIR705, PyTorch has no such operator.
    """
    try:
        return find_schema(line.operator)
    except UnknownOperatorError as error:
        raise refused(str(error)) from None


def bind_arguments(
    schema: Schema, line: wir.ExternKernelLine
) -> tuple[tuple[SchemaParameter, wir.Argument], ...]:
    """Return the argument of each parameter, which may be its default.

    Raises:
        DiagnosticError: WIR705, an argument is missing, or has no parameter.
    """
    positional = [p for p in schema.parameters if not p.keyword_only]
    if len(line.arguments) > len(positional):
        raise refused(f"{line.operator} takes {len(positional)} arguments by position")
    given: dict[str, wir.Argument] = {
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
    bound: list[tuple[SchemaParameter, wir.Argument]] = []
    for parameter in schema.parameters:
        if parameter.name not in given and not parameter.has_default:
            raise refused(f"{line.operator} needs an argument {parameter.name[:80]!a}")
        if parameter.name not in given and parameter.odd_default is not None:
            raise refused(f"a default of {parameter.odd_default[:80]!a} has no form in C++")
        bound.append((parameter, given.get(parameter.name, parameter.default)))
    return tuple(bound)


@frozen
class ResultValue:
    """A result of a call: its schema's type, and its slot or number.

    Without a ``target`` the result is dropped; a list of tensors has ``items``.
    """

    type: SchemaType
    target: Fragment | None = None
    items: tuple["ResultValue", ...] | None = None


def bind_results(
    context: Context, schema: Schema, name: str | None, type: wir.ValueType | None
) -> list[ResultValue]:
    """Return the results of a call; their slots and numbers are defined.

    Raises:
        DiagnosticError: WIR705, the declared type is not one that the schema's can have.
    """
    if name is None or type is None:
        return [ResultValue(found) for found in schema.results]
    if not schema.results and isinstance(type, wir.OpaqueType):
        _bind_opaque(context, type, name, ())
        return []
    if len(schema.results) == 1:
        return [_bind_result(context, schema.results[0], name, type, ())]
    if not isinstance(type, wir.TupleType) or len(type.elements) != len(schema.results):
        raise refused(f"{schema.name} returns {len(schema.results)} values")
    return [
        _bind_result(context, found, name, element, (position,))
        for position, (found, element) in enumerate(
            zip(schema.results, type.elements, strict=True)
        )
    ]


def _bind_result(
    context: Context, found: SchemaType, name: str, type: wir.ValueType, indices: Indices
) -> ResultValue:
    required = found.required
    match type:
        case wir.OpaqueType():
            _bind_opaque(context, type, name, indices)
            return ResultValue(found)
        case wir.TensorType() if required.kind is Kind.TENSOR:
            return ResultValue(found, define_value(context, name, indices))
        case wir.ScalarType(dtype) if required.kind is Kind.SCALAR or (
            _NUMBER_KINDS.get(required.kind) is kind_of(dtype)
        ):
            return ResultValue(found, define_value(context, name, indices))
        case wir.TupleType(elements) if required.kind is Kind.LIST and required.element:
            items = [
                _bind_result(context, required.element, name, element, (*indices, position))
                for position, element in enumerate(elements)
            ]
            return ResultValue(found, items=tuple(items))
        case (
            wir.TensorType()
            | wir.ScalarType()
            | wir.TupleType()
            | wir.PoolType()
            | wir.EventType()
        ):
            raise refused(f"a result of type {required.kind.value} has no form in C++ here")


def _bind_opaque(
    context: Context, type: wir.OpaqueType, name: str, indices: Indices
) -> None:
    """Define the slot of a value without a tensor, which stays empty."""
    if type.description == "object":
        raise refused(f"%{name[:80]} is an object of PyTorch's that C++ cannot hold")
    define_value(context, name, indices)
