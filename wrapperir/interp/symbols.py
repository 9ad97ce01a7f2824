"""Symbol definitions: where a symbol's value comes from, and its range."""

from typing import cast

from wrapperir.diagnostics import Code, FaultError
from wrapperir.interp.fault import value_fault
from wrapperir.interp.frame import Frame
from wrapperir.interp.layout import number_of_kind, value_of
from wrapperir.interp.values import TensorValue
from wrapperir.ir import (
    ItemOf,
    Number,
    OffsetOf,
    Operation,
    SizeOf,
    StrideOf,
    Symbol,
    SymbolDefinitionLine,
    ValueOf,
)


def define_symbol(frame: Frame, line: SymbolDefinitionLine) -> None:
    """Give a symbol its value.

    Raises:
        FaultError: it is defined already, has no value, or one outside its range.
    """
    if line.symbol in frame.symbols:
        message = f"symbol {line.symbol} is already defined"
        raise FaultError(Code.RUN_REDEFINED_NAME, message, subject=line.symbol)
    source = _source_value(frame, line)
    value = number_of_kind(line.kind, source)
    if value is None:
        message = f"{line.symbol} is {source}, not a whole number"
        raise FaultError(Code.RUN_EVALUATION, message, subject=line.symbol)
    low = line.lower is not None and value < line.lower
    high = line.upper is not None and value > line.upper
    bounded = line.lower is not None or line.upper is not None
    if low or high or (bounded and value != value):
        lower = "" if line.lower is None else line.lower
        upper = "" if line.upper is None else line.upper
        message = f"{line.symbol} is {value}, not in {lower}..{upper}"
        raise FaultError(Code.RUN_SYMBOL_RANGE, message, subject=line.symbol)
    frame.symbols[line.symbol] = value


def item_of(value: TensorValue, name: str) -> Number:
    """Return the one element of a tensor.

    Raises:
        FaultError: it has not one element, nothing wrote it, or it is not a real number.
    """
    if value.tensor.numel() != 1:
        problem = f"has {value.tensor.numel()} elements, not one"
        raise value_fault(Code.RUN_VALUE_KIND, name, problem)
    value.require_written(name)
    item = cast(object, value.tensor.item())
    if isinstance(item, int | float):
        return item
    message = f"the element of %{name} is not a real number"
    raise FaultError(Code.RUN_VALUE_KIND, message, subject=f"%{name}")


def _source_value(frame: Frame, line: SymbolDefinitionLine) -> Number:
    match line.source:
        case SizeOf(buffer, dim):
            return _entry(frame.tensor(buffer).layout.size, dim, buffer)
        case StrideOf(buffer, dim):
            return _entry(frame.tensor(buffer).layout.stride, dim, buffer)
        case OffsetOf(buffer):
            return frame.tensor(buffer).own_layout.offset
        case ItemOf(buffer):
            return item_of(frame.tensor(buffer), buffer)
        case ValueOf(name):
            value = frame.value(name)
            if isinstance(value, int | float):
                return value
            raise value_fault(Code.RUN_VALUE_KIND, name, "is not a number")
        case Symbol() | Operation() | int() | float():
            return value_of(line.source, frame.symbols)


def _entry(entries: tuple[int, ...], dim: int, name: str) -> int:
    if 0 <= dim < len(entries):
        return entries[dim]
    problem = f"has {len(entries)} dimensions, so none is number {dim}"
    raise value_fault(Code.RUN_EVALUATION, name, problem)
