"""Members of one call of an emitted program: slots, numbers and fixed tensors."""

from collections.abc import Mapping
from typing import LiteralString

from attrs import define, field, frozen

from wrapperir.emit import Fragment, fragment
from wrapperir.ir import DType, SymbolKind

_C_TYPES: Mapping[SymbolKind, LiteralString] = {
    SymbolKind.INT: "int64_t",
    SymbolKind.FLOAT: "double",
    SymbolKind.BOOL: "bool",
}


@frozen
class FixedKey:
    """A tensor that frames have ready: at a byte of a constant, or of the arena (-1)."""

    constant: int
    offset: int
    dtype: DType
    size: tuple[int, ...]
    stride: tuple[int, ...]


@define
class CallMembers:
    """The members of ``struct Call``, in the order that they are first needed.

    ``numbers`` are declarations such as ``int64_t s0``; ``slots`` and ``fixed`` are the
    enumerators of tensors, ``fixed`` with all names of the same one.  ``roots`` are the
    enumerators of root storages, ``views`` those of views by the value's name.
    """

    numbers: list[Fragment] = field(factory=list[Fragment])
    slots: dict[Fragment, None] = field(factory=dict[Fragment, None])
    fixed: dict[FixedKey, list[Fragment]] = field(factory=dict[FixedKey, list[Fragment]])

    roots: set[Fragment] = field(factory=set[Fragment])
    views: dict[str, Fragment] = field(factory=dict[str, Fragment])

    def add_number(self, kind: SymbolKind, name: Fragment) -> Fragment:
        """Add a number, and return the lvalue."""
        self.numbers.append(format_declaration(kind, name))
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


def format_declaration(kind: SymbolKind, name: Fragment) -> Fragment:
    """Return ``int64_t s0``."""
    return fragment("{} {}", fragment(_C_TYPES[kind]), name)
