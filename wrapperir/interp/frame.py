"""The names of a program or block while it runs."""

from collections.abc import Mapping

from attrs import define, field, frozen

from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.interp.fault import FaultError
from wrapperir.interp.pool import Pool
from wrapperir.interp.storage import Storage
from wrapperir.interp.streams import Event
from wrapperir.interp.values import RunValue, TensorValue, storages_of
from wrapperir.ir import Number


@frozen
class Dropped:
    """How and where a name was dropped."""

    verb: str
    path: LinePath


@define(eq=False, kw_only=True)
class Frame:
    """Names and symbols that the lines of one block see.

    ``borrowed`` are names that the block does not own; ``results`` those it defined and
    must drop or return.  Every name it holds counts in its storages.
    """

    constants: Mapping[str, RunValue]
    symbols: dict[str, Number]
    values: dict[str, RunValue] = field(factory=dict[str, RunValue])
    borrowed: set[str] = field(factory=set[str])
    owned: dict[str, LinePath] = field(factory=dict[str, LinePath])
    dropped: dict[str, Dropped] = field(factory=dict[str, Dropped])

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
        dropped = self.dropped.get(name)
        if dropped is None:
            message = f"%{name} is not defined here"
            raise FaultError(Code.RUN_UNDEFINED_NAME, message, subject=f"%{name}")
        raise FaultError(
            Code.RUN_USE_AFTER_FREE,
            f"%{name} is used after it was {dropped.verb}",
            subject=f"%{name}",
            notes=(Note(message=f"{dropped.verb} here", path=dropped.path),),
        )

    def tensor(self, name: str) -> TensorValue:
        """Return the tensor that a name stands for.

        Raises:
            FaultError: as :meth:`value`, or it is not a tensor.
        """
        value = self.value(name)
        if isinstance(value, TensorValue):
            return value
        message = f"%{name} is not a tensor"
        raise FaultError(Code.RUN_VALUE_KIND, message, subject=f"%{name}")

    def pool(self, name: str) -> Pool:
        """Return the pool that a name stands for.

        Raises:
            FaultError: as :meth:`value`, or it is not a pool.
        """
        value = self.value(name)
        if isinstance(value, Pool):
            return value
        message = f"%{name} is not a pool"
        raise FaultError(Code.RUN_VALUE_KIND, message, subject=f"%{name}")

    def define(self, name: str, value: RunValue, path: LinePath) -> None:
        """Give a name that the block owns its value.

        Raises:
            FaultError: the name is taken.
        """
        self._bind(name, value)
        if not isinstance(value, int | float | Event):  # those hold no memory
            self.owned[name] = path

    def borrow(self, name: str, value: RunValue) -> None:
        """Give a name its value, which the block does not own.

        Raises:
            FaultError: the name is taken.
        """
        self._bind(name, value)
        self.borrowed.add(name)

    def lend(self, name: str, value: RunValue) -> None:
        """Give an input its value: the program may drop it, but need not.

        Raises:
            FaultError: the name is taken.
        """
        self._bind(name, value)

    def drop(self, name: str, verb: str, path: LinePath) -> RunValue:
        """Drop a name and return its value; its storages lose a name.

        Raises:
            FaultError: it was dropped, is not defined, or is not the block's to drop.
        """
        earlier = self.dropped.get(name)
        if earlier is not None:
            raise FaultError(
                Code.RUN_DOUBLE_FREE,
                f"%{name} was already {earlier.verb}",
                subject=f"%{name}",
                notes=(Note(message=f"{earlier.verb} here", path=earlier.path),),
            )
        value = self.value(name)
        if name in self.borrowed or name not in self.values:
            message = f"%{name} is borrowed: it cannot be {verb}"
            raise FaultError(Code.RUN_BORROWED, message, subject=f"%{name}")
        del self.values[name]
        self.owned.pop(name, None)
        self.dropped[name] = Dropped(verb, path)
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

    def borrowed_storages(self) -> list[Storage]:
        """Return the storages that the block was lent."""
        return [s for name in self.borrowed for s in storages_of(self.values[name])]

    def leaks(self, returned: frozenset[str]) -> tuple[tuple[str, LinePath], ...]:
        """Return owned names that were neither dropped nor returned, and their places."""
        return tuple(
            (name, path) for name, path in self.owned.items() if name not in returned
        )

    def _bind(self, name: str, value: RunValue) -> None:
        if name in self.values or name in self.dropped or name in self.constants:
            message = f"%{name} is already defined"
            raise FaultError(Code.RUN_REDEFINED_NAME, message, subject=f"%{name}")
        self.values[name] = value
        for storage in storages_of(value):
            storage.keep()
