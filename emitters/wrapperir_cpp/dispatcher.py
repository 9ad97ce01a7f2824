"""Calls of operators by name: through PyTorch's stable C interface, or its C++ one."""

from collections.abc import Sequence
from typing import LiteralString

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.ir import ComplexLiteral, Device, DType, SymbolKind, TorchEnum
from wrapperir.operators import Kind, Schema, SchemaType
from wrapperir_cpp.literals import format_dtype, format_float, format_int, format_string
from wrapperir_cpp.module_text import CppModule
from wrapperir_cpp.operator_values import (
    ListValue,
    NoValue,
    NumberValue,
    OperatorValue,
    ResultValue,
    TensorHandle,
)

# Kinds that the stable C interface can pass, as an argument and as a result.
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
    """Say whether the stable C interface can pass all arguments and results of a call."""
    return all(
        _carries(parameter.type, value)
        for parameter, value in zip(schema.parameters, values, strict=True)
    ) and all(_is_returned(type) for type in schema.results)


def format_dispatched_call(
    module: CppModule,
    schema: Schema,
    values: Sequence[OperatorValue],
    results: Sequence[ResultValue],
    line: Fragment,
) -> Fragment:
    """Return a call by name, with each argument and result of the schema."""
    function = fragment("op::call" if is_carried(schema, values) else "op::call_boxed")
    arguments = [
        _format_argument(module, parameter.type, value)
        for parameter, value in zip(schema.parameters, values, strict=True)
    ]
    name, overload = format_string(schema.name), format_string(schema.overload)
    operator = fragment("op::Operator{{{}, {}}}", name, overload)
    return fragment(
        "{}({}, {{{}}}, {{{}}}, {});",
        *(function, operator, joined(", ", arguments)),
        *(joined(", ", map(_format_result, results)), line),
    )


def _format_argument(module: CppModule, type: SchemaType, value: OperatorValue) -> Fragment:
    """Return an ``op::Argument`` for a value of a schema's type."""
    if type.kind is Kind.OPTIONAL:
        if isinstance(value, NoValue):
            return fragment("op::maybe(op::none())")
        return fragment("op::maybe({})", _format_argument(module, type.required, value))
    match value:
        case NoValue():
            return fragment("op::none()")
        case TensorHandle(text):
            return fragment("op::tensor({})", text)
        case NumberValue(text, kind):
            return fragment(_NUMBERS[kind], text)
        case ListValue(items):
            assert type.element is not None
            if type.element.kind is Kind.INT:
                return fragment("op::integers({})", format_integers(module, items))
            parts = [_format_argument(module, type.element, item) for item in items]
            return fragment("op::list({{{}}})", joined(", ", parts))
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
            return fragment("op::complex({}, {})", *map(format_float, (real, imaginary)))


def format_device(device: Device) -> tuple[Fragment, Fragment]:
    """Return the kind and index of a device; without an index, -1."""
    index = format_int(-1 if device.index is None else device.index)
    return fragment("Device::{}", Fragment(device.kind)), index


def _format_result(result: ResultValue) -> Fragment:
    """Return an ``op::Result``."""
    if result.items is not None:
        items = joined(", ", map(_format_result, result.items))
        text = fragment("op::results({{{}}})", items)
    elif result.target is not None:
        text = fragment("op::result({})", result.target)
    else:
        kind = _KINDS.get(result.type.required.kind, "op::Kind::none")
        text = fragment("op::dropped({})", fragment(kind))
    return fragment("op::maybe({})", text) if result.type.kind is Kind.OPTIONAL else text


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
        return isinstance(value, TensorHandle | NoValue)
    return type.kind in _CARRIED


def _is_returned(type: SchemaType) -> bool:
    if type.kind is Kind.OPTIONAL:
        return type.required.kind is Kind.TENSOR
    if type.kind is Kind.LIST:
        return type.element is not None and type.element.kind is Kind.TENSOR
    return type.kind in _RETURNED


def format_integers(module: CppModule, items: Sequence[OperatorValue]) -> Fragment:
    """Return a list of ints as an ``Ints``."""
    numbers = [item for item in items if isinstance(item, NumberValue)]
    known = [item.constant for item in numbers if isinstance(item.constant, int)]
    if len(known) == len(items):
        return module.table(known)
    return fragment("{{{}}}", joined(", ", [item.text for item in numbers]))
