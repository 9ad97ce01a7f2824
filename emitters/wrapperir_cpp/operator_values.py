"""Arguments of operator calls, as what the schema's types make of them.

A value is one of a few kinds, whatever the way that the operator is then called in.
"""

from collections.abc import Mapping
from typing import LiteralString, TypeAlias, Union

from attrs import frozen

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    Argument,
    BufferRef,
    ComplexLiteral,
    Device,
    DType,
    Expr,
    Number,
    OpaqueType,
    Operation,
    ScalarType,
    Symbol,
    SymbolKind,
    TensorType,
    TorchEnum,
    TupleType,
    ValueType,
)
from wrapperir.operators import (
    Kind,
    SchemaType,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.expressions import ExpressionFormatter
from wrapperir_cpp.literals import format_float, format_int
from wrapperir_cpp.memory import tensor_handle
from wrapperir_cpp.operator_binding import refused
from wrapperir_cpp.value_storage import Indices

ENUMS: Mapping[str, frozenset[str]] = {
    "layout": frozenset(
        {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"}
    ),
    "memory_format": frozenset(
        {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"}
    ),
}
"""The named constants of torch that a program may have, by kind."""


@frozen
class NoValue:
    """``None``."""


@frozen
class TensorValue:
    """A tensor: ``text`` is its borrowed handle, ``type`` what is declared of it."""

    text: Fragment
    type: TensorType


@frozen
class NumberValue:
    """A number as C++: ``kind`` is ``None`` where it is a ``num::Number``.

    ``constant`` is its value where that is known.
    """

    text: Fragment
    kind: SymbolKind | None
    constant: Number | None = None


@frozen
class ListValue:
    """A list of values."""

    items: tuple["OperatorValue", ...]


PlainValue: TypeAlias = Union[str, DType, TorchEnum, Device, ComplexLiteral]
OperatorValue: TypeAlias = Union[NoValue, TensorValue, NumberValue, ListValue, PlainValue]
"""What an operator is given.  ``DType`` is a ``str`` subclass: test it first."""


def value_of(
    context: Context, type: SchemaType, argument: Argument, what: str
) -> OperatorValue:
    """Return the value of an argument that the schema gives a type; ``what`` names it.

    Raises:
        DiagnosticError: WIR705, it is not of that type.
    """
    if isinstance(argument, BufferRef):
        argument_type = context.facts.types[argument.name]
        value: OperatorValue = _named(context, argument.name, argument_type, ())
    else:
        value = _literal(context, argument, type.required, what)
    fitted = _fitted(value, type)
    if fitted is None:
        raise refused(f"{what} takes no {_describe(value)} (its type is {_spell(type)})")
    return fitted


def tensors_in(value: OperatorValue) -> list[TensorValue]:
    """Return the tensors of a value."""
    if isinstance(value, ListValue):
        return [tensor for item in value.items for tensor in tensors_in(item)]
    return [value] if isinstance(value, TensorValue) else []


def _named(context: Context, name: str, type: ValueType, indices: Indices) -> OperatorValue:
    match type:
        case TensorType():
            return TensorValue(tensor_handle(context, name, indices), type)
        case ScalarType(dtype):
            return NumberValue(context.values.scalar(name, indices), kind_of(dtype))
        case TupleType(elements):
            return ListValue(
                tuple(
                    _named(context, name, element, (*indices, position))
                    for position, element in enumerate(elements)
                )
            )
        case OpaqueType("object"):
            raise refused(f"%{name[:80]} is an object of PyTorch's that C++ cannot hold")
        case OpaqueType():
            return NoValue()
        case _:
            raise refused(f"%{name[:80]} is no argument of an operator")


def _literal(
    context: Context, argument: Argument, type: SchemaType, what: str
) -> OperatorValue:
    match argument:
        case None:
            return NoValue()
        case bool() | int() | float() | Symbol() | Operation():
            return _number(context.expressions, argument)
        case tuple():
            if type.kind is not Kind.LIST or type.element is None:
                raise refused(f"{what} takes no list (its type is {_spell(type)})")
            element = type.element
            return ListValue(
                tuple(value_of(context, element, item, what) for item in argument)
            )
        case TorchEnum(kind, name) if name not in ENUMS.get(kind, ()):
            raise refused(f"torch has no {kind[:80]!a} named {name[:80]!a}")
        case Device(kind) if kind not in ("cpu", "cuda", "meta"):
            raise refused(f"C++ has no device of kind {kind[:80]!a}")
        case _:
            assert not isinstance(argument, BufferRef)
            return argument


def _number(expressions: ExpressionFormatter, expr: Expr) -> NumberValue:
    constant = expressions.constant(expr)
    kind = expressions.kind(expr)
    if isinstance(constant, int) and not -(2**63) <= constant < 2**63:
        raise refused(f"{constant:.30} does not fit 64 bits")
    if kind is None:
        return NumberValue(expressions.format_any(expr), None, constant)
    if constant is not None and kind is SymbolKind.FLOAT:
        return NumberValue(format_float(constant), kind, constant)
    if constant is not None and kind is SymbolKind.INT:
        return NumberValue(format_int(int(constant)), kind, constant)
    return NumberValue(expressions.format_number(expr, kind), kind, constant)


def _fitted(value: OperatorValue, type: SchemaType) -> OperatorValue | None:
    """Return the value as one of a schema's type; ``None`` if it is not."""
    kind = type.kind
    if kind is Kind.OPTIONAL:
        assert type.element is not None
        return value if isinstance(value, NoValue) else _fitted(value, type.element)
    match value:
        case NoValue():
            # A tensor that is not there: what some operators return, and then take.
            return value if kind is Kind.TENSOR else None
        case TensorValue():
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
        case DType():
            return value if kind is Kind.DTYPE else None
        case str():
            return value if kind is Kind.STRING else None
        case Device():
            return value if kind is Kind.DEVICE else None
        case TorchEnum():
            return value if kind.value == _ENUM_TYPES[value.kind] else None
        case ComplexLiteral():
            return value if kind in (Kind.SCALAR, Kind.COMPLEX, Kind.TENSOR) else None


_ENUM_TYPES = {"layout": "Layout", "memory_format": "MemoryFormat"}
_AS_INT: Mapping[SymbolKind | None, LiteralString] = {
    SymbolKind.INT: "{}",
    SymbolKind.BOOL: "int64_t({})",
    None: "num::whole({})",
}
_AS_FLOAT: Mapping[SymbolKind | None, LiteralString] = {
    SymbolKind.FLOAT: "{}",
    SymbolKind.INT: "double({})",
    SymbolKind.BOOL: "double({})",
    None: "num::real({})",
}


def _fitted_number(value: NumberValue, kind: Kind) -> NumberValue | None:
    """Numbers fit where Python's would: an int where a float is wanted, not the reverse."""
    match kind:
        case Kind.INT:
            if value.kind is SymbolKind.FLOAT:
                return None
            text = fragment(_AS_INT[value.kind], value.text)
            return NumberValue(text, SymbolKind.INT, value.constant)
        case Kind.FLOAT:
            if value.constant is not None:
                text = format_float(float(value.constant))
            else:
                text = fragment(_AS_FLOAT[value.kind], value.text)
            return NumberValue(text, SymbolKind.FLOAT, value.constant)
        case Kind.BOOL | Kind.SYM_BOOL:
            return _as_bool(value)
        case Kind.SCALAR | Kind.TENSOR | Kind.COMPLEX:
            return value
        case _:
            return None


def _as_bool(value: NumberValue) -> NumberValue | None:
    match value.kind:
        case SymbolKind.BOOL:
            return value
        case SymbolKind.INT:
            text = fragment("{} != 0", value.text)
            constant = None if value.constant is None else bool(value.constant)
            return NumberValue(text, SymbolKind.BOOL, constant)
        case _:
            return None


def _describe(value: OperatorValue) -> str:
    match value:
        case NoValue():
            return "None"
        case TensorValue():
            return "tensor"
        case NumberValue(kind=kind):
            return kind.value if kind else "number"
        case ListValue():
            return "list"
        case DType() | Device() | TorchEnum():
            return str(value)[:80]
        case ComplexLiteral():
            return "complex number"
        case _:
            return "string"


def _spell(type: SchemaType) -> str:
    if type.element is None:
        return type.kind.value
    return f"{type.kind.value}[{_spell(type.element)}]"
