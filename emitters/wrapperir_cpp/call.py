"""What one call of an emitted program has: slots, addresses, numbers and fixed tensors."""

from collections.abc import Iterator, Mapping
from typing import LiteralString

from attrs import define, field, frozen

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.names import Namespace
from wrapperir.ir.line import SymbolKind
from wrapperir.ir.types import DType

_C_TYPES: Mapping[SymbolKind, LiteralString] = {
    SymbolKind.INT: "int64_t",
    SymbolKind.FLOAT: "double",
    SymbolKind.BOOL: "bool",
}


@frozen
class FixedKey:
    """A tensor that frames have ready: of a constant (-1 is the arena), at a byte."""

    constant: int
    offset: int
    dtype: DType
    size: tuple[int, ...]
    stride: tuple[int, ...]


@define
class CallMembers:
    """The members of ``struct Call``, in the order that they are first needed.

    ``numbers`` are declarations such as ``int64_t s0``; ``slots`` and ``fixed`` are the
    enumerators that tell tensors apart, ``fixed`` with all that stand for the same one.
    """

    numbers: list[Fragment] = field(factory=list[Fragment])
    slots: dict[Fragment, None] = field(factory=dict[Fragment, None])
    fixed: dict[FixedKey, list[Fragment]] = field(factory=dict[FixedKey, list[Fragment]])

    def add_number(self, kind: SymbolKind, name: Fragment) -> Fragment:
        """Add a number, and return the lvalue."""
        self.numbers.append(_declaration(kind, name))
        return fragment("c.{}", name)

    def add_slot(self, name: Fragment) -> Fragment:
        """Add a slot unless there is one of that name; return the lvalue."""
        self.slots[name] = None
        return fragment("c.t[{}]", name)

    def add_fixed(self, key: FixedKey, name: Fragment) -> Fragment:
        """Add a name of a fixed tensor, and return its handle."""
        names = self.fixed.setdefault(key, [])
        if name not in names:
            names.append(name)
        return fragment("c.fixed[{}]", name)


class SymbolMembers(Mapping[str, Fragment]):
    """The number of each symbol, a member of the call."""

    def __init__(self, names: Namespace, kinds: Mapping[str, SymbolKind]) -> None:
        """Give the symbols of ``kinds`` their names."""
        self._names = names
        self._kinds = kinds

    def __getitem__(self, symbol: str) -> Fragment:
        """Return the lvalue of a symbol."""
        if symbol not in self._kinds:
            raise KeyError(symbol)
        return fragment("c.{}", self._names[symbol])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the symbols of the program."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """Return how many symbols there are."""
        return len(self._kinds)

    def declarations(self) -> list[Fragment]:
        """Return the members."""
        return [_declaration(kind, self._names[name]) for name, kind in self._kinds.items()]


def _declaration(kind: SymbolKind, name: Fragment) -> Fragment:
    return fragment("{} {}", fragment(_C_TYPES[kind]), name)
