"""Calls of operators by name: through PyTorch's stable C interface, or its C++ one."""

from collections.abc import Mapping, Sequence
from typing import LiteralString

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    ComplexLiteral,
    Device,
    DType,
    OpaqueType,
    ScalarType,
    SymbolKind,
    TensorType,
    TorchEnum,
    TupleType,
    ValueType,
)
from wrapperir.operators import Kind, Schema, SchemaType
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_dtype, format_float, format_int, format_string
from wrapperir_cpp.memory import define_scalar, result_slot
from wrapperir_cpp.module_text import CppModule
from wrapperir_cpp.operator_values import (
    ListValue,
    NoValue,
    NumberValue,
    OperatorValue,
    TensorValue,
)
from wrapperir_cpp.schemas import refused
from wrapperir_cpp.value_storage import Indices

# What the stable C interface carries, as an argument and as a result.
_CARRIED = frozenset(
    {
        *(Kind.TENSOR, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.STRING),
        *(Kind.DTYPE, Kind.LAYOUT, Kind.MEMORY_FORMAT, Kind.DEVICE),
    }
)
_RETURNED = frozenset({Kind.TENSOR, Kind.INT, Kind.FLOAT, Kind.BOOL})
_NUMBERS: dict[SymbolKind | None, LiteralString] = {
    SymbolKind.BOOL: "op::boolean({})",
    SymbolKind.INT: "op::integer({})",
    SymbolKind.FLOAT: "op::real({})",
    None: "op::number({})",
}
_KINDS: dict[Kind, LiteralString] = {
    Kind.TENSOR: "op::Kind::tensor",
    Kind.INT: "op::Kind::integer",
    Kind.FLOAT: "op::Kind::real",
    Kind.BOOL: "op::Kind::boolean",
    Kind.LIST: "op::Kind::list",
}


def is_carried(schema: Schema, values: Sequence[OperatorValue]) -> bool:
    """Say whether the stable C interface carries a call with these arguments."""
    return all(
        _carries(parameter.type, value)
        for parameter, value in zip(schema.parameters, values, strict=True)
    ) and all(_is_returned(type) for type in schema.results)


def format_dispatched_call(
    module: CppModule,
    schema: Schema,
    values: Sequence[OperatorValue],
    results: Sequence[Fragment],
    line: Fragment,
) -> Fragment:
    """Return the call by name; arguments and results are all that the schema has."""
    function = fragment("op::call" if is_carried(schema, values) else "op::call_boxed")
    arguments = [
        format_argument(module, parameter.type, value)
        for parameter, value in zip(schema.parameters, values, strict=True)
    ]
    return fragment(
        "{}({}, {{{}}}, {{{}}}, {});",
        *(function, _operator(module, schema), joined(", ", arguments)),
        *(joined(", ", results), line),
    )


def format_argument(module: CppModule, type: SchemaType, value: OperatorValue) -> Fragment:
    """Return an ``op::Argument`` for a value of a schema's type."""
    if type.kind is Kind.OPTIONAL:
        if isinstance(value, NoValue):
            return fragment("op::maybe(op::none())")
        return fragment("op::maybe({})", format_argument(module, type.required, value))
    match value:
        case NoValue():
            return fragment("op::none()")
        case TensorValue(text):
            return fragment("op::tensor({})", text)
        case NumberValue(text, kind):
            return fragment(_NUMBERS[kind], text)
        case ListValue(items):
            return _format_list(module, type, items)
        case DType():
            return fragment("op::dtype({})", format_dtype(value))
        case str():
            length = format_int(len(value.encode("utf-8", "surrogatepass")))
            return fragment("op::string({}, {})", format_string(value), length)
        case Device():
            return fragment("op::device({}, {})", *format_device(value))
        case TorchEnum("layout", name):
            return fragment("op::layout(op::Layout::{})", Fragment(name))
        case TorchEnum(_, name):
            return fragment("op::memory_format(op::MemoryFormat::{})", Fragment(name))
        case ComplexLiteral(real, imaginary):
            parts = format_float(real), format_float(imaginary)
            return fragment("op::complex({}, {})", *parts)


def format_device(device: Device) -> tuple[Fragment, Fragment]:
    """Return the kind and index of a device; an index that is left out is -1."""
    index = format_int(-1 if device.index is None else device.index)
    return fragment("Device::{}", Fragment(device.kind)), index


def format_results(
    context: Context, schema: Schema, name: str | None, type: ValueType | None
) -> list[Fragment]:
    """Return an ``op::Result`` for each result of the schema.

    Raises:
        DiagnosticError: WIR705, the declared type is none that the schema's can have.
    """
    if name is None or type is None:
        return [_dropped(found) for found in schema.results]
    if not schema.results and isinstance(type, OpaqueType):
        name_nothing(context, type, name, ())
        return []
    if len(schema.results) == 1:
        return [_format_result(context, schema.results[0], name, type, ())]
    if not isinstance(type, TupleType) or len(type.elements) != len(schema.results):
        raise refused(f"{schema.name} returns {len(schema.results)} values")
    return [
        _format_result(context, found, name, element, (position,))
        for position, (found, element) in enumerate(
            zip(schema.results, type.elements, strict=True)
        )
    ]


def _format_result(
    context: Context, found: SchemaType, name: str, type: ValueType, indices: Indices
) -> Fragment:
    if found.kind is Kind.OPTIONAL:
        inner = _format_result(context, found.required, name, type, indices)
        return fragment("op::maybe({})", inner)
    match type:
        case OpaqueType():
            name_nothing(context, type, name, indices)
            return _dropped(found)
        case TensorType() if found.kind is Kind.TENSOR:
            return fragment("op::result({})", result_slot(context, name, indices))
        case ScalarType(dtype) if kind_of(dtype) in _SCALARS.get(found.kind, ()):
            number = define_scalar(context, name, kind_of(dtype), indices)
            return fragment("op::result({})", number)
        case TupleType(elements) if found.kind is Kind.LIST and found.element is not None:
            items = [
                _format_result(context, found.element, name, element, (*indices, position))
                for position, element in enumerate(elements)
            ]
            return fragment("op::results({{{}}})", joined(", ", items))
        case _:
            raise refused(f"a result of type {found.kind.value} has no form in C++ here")


def name_nothing(context: Context, type: OpaqueType, name: str, indices: Indices) -> None:
    """Give a result that is none its slot, which stays empty.

    Raises:
        DiagnosticError: WIR705, it is an object.
    """
    if type.description == "object":
        raise refused(f"%{name[:80]} is an object of PyTorch's that C++ cannot hold")
    result_slot(context, name, indices)


_SCALARS: Mapping[Kind, tuple[SymbolKind, ...]] = {
    Kind.INT: (SymbolKind.INT,),
    Kind.FLOAT: (SymbolKind.FLOAT,),
    Kind.BOOL: (SymbolKind.BOOL,),
    Kind.SYM_BOOL: (SymbolKind.BOOL,),
    Kind.SCALAR: (SymbolKind.INT, SymbolKind.FLOAT, SymbolKind.BOOL),
}


def _dropped(found: SchemaType) -> Fragment:
    if found.kind is Kind.OPTIONAL:
        return fragment("op::maybe({})", _dropped(found.required))
    kind = _KINDS.get(found.kind)
    return fragment("op::dropped({})", fragment(kind or "op::Kind::none"))


def _carries(type: SchemaType, value: OperatorValue) -> bool:
    if type.kind is Kind.OPTIONAL:
        return isinstance(value, NoValue) or _carries(type.required, value)
    if type.kind is Kind.LIST:
        assert type.element is not None
        inner = type.element
        return isinstance(value, ListValue) and all(
            _carries(inner, item) for item in value.items
        )
    if type.kind is Kind.TENSOR:
        return isinstance(value, TensorValue | NoValue)
    return type.kind in _CARRIED


def _is_returned(type: SchemaType) -> bool:
    if type.kind is Kind.OPTIONAL:
        return type.required.kind is Kind.TENSOR
    if type.kind is Kind.LIST:
        return type.element is not None and type.element.kind is Kind.TENSOR
    return type.kind in _RETURNED


def _format_list(
    module: CppModule, type: SchemaType, items: tuple[OperatorValue, ...]
) -> Fragment:
    assert type.element is not None
    if type.element.kind is Kind.INT:
        return fragment("op::integers({})", format_integers(module, items))
    parts = [format_argument(module, type.element, item) for item in items]
    return fragment("op::list({{{}}})", joined(", ", parts))


def format_integers(module: CppModule, items: Sequence[OperatorValue]) -> Fragment:
    """Return a list of ints for a parameter of type ``Ints``."""
    texts: list[Fragment] = []
    known: list[int] = []
    for item in items:
        assert isinstance(item, NumberValue)
        texts.append(item.text)
        if isinstance(item.constant, int):
            known.append(item.constant)
    if len(known) == len(texts):
        return module.table(known)
    return fragment("{{{}}}", joined(", ", texts))


def _operator(module: CppModule, schema: Schema) -> Fragment:
    """Return the constant that has an operator's name."""
    name, overload = format_string(schema.name), format_string(schema.overload)
    return fragment("op::Operator{{{}, {}}}", name, overload)
