"""The names and symbols of a program or block while it runs."""

from collections.abc import Mapping
from typing import TypeVar, cast

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, FaultError, LinePath, Note
from wrapperir.emit.assert_messages import format_range_mismatch
from wrapperir.interp.fault import value_fault
from wrapperir.interp.layout import number_of_kind, value_of
from wrapperir.interp.pool import Pool
from wrapperir.interp.storage import ShadowStorage
from wrapperir.interp.streams import Event
from wrapperir.interp.values import RunValue, TensorValue, storages_of

V = TypeVar("V", bound=RunValue)


@define(eq=False, kw_only=True)
class Frame:
    """Names and symbols that the lines of one block see.

    ``borrowed`` are names that the block does not own; ``owned`` those that it defined and
    must drop or return, with the places of the lines; ``dropped`` the verb and place of
    each drop.  Every name in ``values`` counts in its storages.
    """

    constants: Mapping[str, RunValue]
    symbols: dict[str, wir.Number]
    values: dict[str, RunValue] = field(factory=dict[str, RunValue])
    borrowed: set[str] = field(factory=set[str])
    owned: dict[str, LinePath] = field(factory=dict[str, LinePath])
    dropped: dict[str, tuple[str, LinePath]] = field(
        factory=dict[str, tuple[str, LinePath]]
    )

    def value(self, name: str) -> RunValue:
        """Return the value of a name.

        Raises:
            FaultError: it was dropped, or never defined.
        """
        value = self.values.get(name)
        if value is None:
            value = self.constants.get(name)
        if value is not None:
            return value
        if name not in self.dropped:
            raise value_fault(Code.RUN_UNDEFINED_NAME, name, "is not defined here")
        verb, path = self.dropped[name]
        note = Note(message=f"{verb} here", path=path)
        problem = f"is used after it was {verb}"
        raise value_fault(Code.RUN_USE_AFTER_FREE, name, problem, note)

    def tensor(self, name: str) -> TensorValue:
        """Return the tensor of a name; a :class:`FaultError` where it is not a tensor."""
        return self._of_kind(name, TensorValue, "a tensor")

    def pool(self, name: str) -> Pool:
        """Return the pool of a name; a :class:`FaultError` where it is not a pool."""
        return self._of_kind(name, Pool, "a pool")

    def event(self, name: str) -> Event:
        """Return the event of a name; a :class:`FaultError` where it is not an event."""
        return self._of_kind(name, Event, "an event")

    def _of_kind(self, name: str, kind: type[V], what: str) -> V:
        value = self.value(name)
        if isinstance(value, kind):
            return value
        raise value_fault(Code.RUN_VALUE_KIND, name, f"is not {what}")

    def define(self, name: str, value: RunValue, path: LinePath) -> None:
        """Give a name that the block owns its value.

        Raises:
            FaultError: the name is taken.
        """
        self.lend(name, value)
        if not isinstance(value, int | float | Event):  # those hold no memory
            self.owned[name] = path

    def borrow(self, name: str, value: RunValue) -> None:
        """Give a name its value, which the block does not own.

        Raises:
            FaultError: the name is taken.
        """
        self.lend(name, value)
        self.borrowed.add(name)

    def lend(self, name: str, value: RunValue) -> None:
        """Give an input its value: the program may drop it, but need not.

        Raises:
            FaultError: the name is taken.
        """
        if name in self.values or name in self.dropped or name in self.constants:
            raise value_fault(Code.RUN_REDEFINED_NAME, name, "is already defined")
        self.values[name] = value
        for storage in storages_of(value):
            storage.keep()

    def drop(self, name: str, verb: str, path: LinePath) -> RunValue:
        """Drop a name and return its value; its storages lose a name.

        Raises:
            FaultError: it was dropped, is not defined, or is not the block's to drop.
        """
        if name in self.dropped:
            earlier, place = self.dropped[name]
            note = Note(message=f"{earlier} here", path=place)
            problem = f"was already {earlier}"
            raise value_fault(Code.RUN_DOUBLE_FREE, name, problem, note)
        value = self.value(name)
        if name in self.borrowed or name not in self.values:
            problem = f"is borrowed: it cannot be {verb}"
            raise value_fault(Code.RUN_BORROWED, name, problem)
        del self.values[name]
        self.owned.pop(name, None)
        self.dropped[name] = (verb, path)
        for storage in storages_of(value):
            storage.drop()
        return value

    def give_back(self) -> None:
        """Drop what was borrowed; the block has run."""
        for name in self.borrowed:
            for storage in storages_of(self.values.pop(name)):
                storage.drop()
        self.borrowed.clear()

    def release(self) -> None:
        """Drop all names, once the results have names elsewhere."""
        for value in self.values.values():
            for storage in storages_of(value):
                storage.drop()
        self.values.clear()

    def borrowed_storages(self) -> list[ShadowStorage]:
        """Return the storages that the block was lent."""
        return [s for name in self.borrowed for s in storages_of(self.values[name])]

    def leaks(self, returned: frozenset[str]) -> tuple[tuple[str, LinePath], ...]:
        """Return owned names that were neither dropped nor returned, and their places."""
        return tuple(
            (name, path) for name, path in self.owned.items() if name not in returned
        )


def define_symbol(frame: Frame, line: wir.SymbolDefinitionLine) -> None:
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
        message = format_range_mismatch(line.symbol, value, line.lower, line.upper)
        raise FaultError(Code.RUN_SYMBOL_RANGE, message, subject=line.symbol)
    frame.symbols[line.symbol] = value


def item_of(value: TensorValue, name: str) -> wir.Number:
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


def _source_value(frame: Frame, line: wir.SymbolDefinitionLine) -> wir.Number:
    match line.source:
        case wir.SizeOf(buffer, dim):
            return _entry(frame.tensor(buffer).layout.size, dim, buffer)
        case wir.StrideOf(buffer, dim):
            return _entry(frame.tensor(buffer).layout.stride, dim, buffer)
        case wir.OffsetOf(buffer):
            return frame.tensor(buffer).own_layout.offset
        case wir.ItemOf(buffer):
            return item_of(frame.tensor(buffer), buffer)
        case wir.ValueOf(name):
            value = frame.value(name)
            if isinstance(value, int | float):
                return value
            raise value_fault(Code.RUN_VALUE_KIND, name, "is not a number")
        case wir.Symbol() | wir.Operation() | int() | float():
            return value_of(line.source, frame.symbols)


def _entry(entries: tuple[int, ...], dim: int, name: str) -> int:
    if 0 <= dim < len(entries):
        return entries[dim]
    problem = f"has {len(entries)} dimensions, so none is number {dim}"
    raise value_fault(Code.RUN_EVALUATION, name, problem)
