"""Where each value of a program lives, and what holds it.

A *memory* is a storage that the emitted code can reach: part of an arena, a constant, or
what the tensor in a slot of the call holds.  Names of one memory are counted while code is
emitted, so a memory is dropped at the line that drops its last name, and a view costs
nothing until something needs a tensor of it.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from attrs import define, evolve, field, frozen

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.ir.expr import Expr, add, mul, sub
from wrapperir.ir.types import (
    OpaqueType,
    PoolType,
    ScalarType,
    TensorType,
    TupleType,
    ValueType,
)
from wrapperir_cpp.bounds import bytes_of

Indices: TypeAlias = tuple[int, ...]
"""Where a value is in a tuple."""
Layout: TypeAlias = tuple[Expr, object, tuple[Expr, ...], tuple[Expr, ...], str | None]
"""The byte of a memory that a tensor's first element is at, dtype, size and stride.

Last is the name of a tensor that is no other name's, too.
"""


@define(eq=False)
class Memory:
    """A storage: what reaches it, and how many names hold it.

    ``handle`` is a tensor of type ``root``; ``base`` is the address of that tensor's first
    element, or of the arena, where the memory begins at byte ``begin``.  ``slot`` owns the
    handle.  ``constant`` is the number of a constant; an arena's is -1, and those are the
    memories of which a frame can have tensors ready.
    """

    base: Fragment
    root: TensorType | None = None
    handle: Fragment | None = None
    slot: Fragment | None = None
    begin: int = 0
    constant: int | None = None
    names: int = 1

    @property
    def first(self) -> Expr:
        """The byte of the storage that ``base`` is the address of."""
        if self.root is None:
            return -self.begin
        return mul(self.root.offset, self.root.dtype.itemsize)


@frozen
class Home:
    """A tensor or pool that begins, as its type counts, at a byte of a memory.

    ``apart`` is the name of what needs a tensor of its own.  ``room`` is how many bytes of
    storage there are from ``begin`` on; ``None`` is as many as the memory's tensor has.
    """

    memory: Memory
    type: TensorType | PoolType | None
    begin: Expr = 0
    apart: str | None = None
    room: Expr | None = None

    @property
    def first(self) -> Expr:
        """The byte of the first element."""
        if not isinstance(self.type, TensorType):
            return self.begin
        return add(self.begin, mul(self.type.offset, self.type.dtype.itemsize))

    @property
    def layout(self) -> Layout | None:
        """What tells it from other tensors of the same memory."""
        if not isinstance(self.type, TensorType):
            return None
        return self.first, self.type.dtype, self.type.size, self.type.stride, self.apart


@frozen
class Scope:
    """What a block has made: tensors by layout, and the memories whose addresses it has."""

    tensors: dict[tuple[Memory, Layout], Fragment] = field(
        factory=dict[tuple[Memory, Layout], Fragment]
    )
    views: dict[Memory, list[Fragment]] = field(factory=dict[Memory, list[Fragment]])
    fetched: set[Memory] = field(factory=set[Memory])


class Homes:
    """Knows the home of each value; ``emit_drop`` appends the reset of a slot."""

    def __init__(self, emit_drop: Callable[[Fragment], None]) -> None:
        """Start in the outermost block, with no values."""
        self.scopes = [Scope()]
        self._emit_drop = emit_drop
        self._homes: dict[str, dict[Indices, Home]] = {}
        self._scalars: dict[str, dict[Indices, Fragment]] = {}
        self._owners: dict[Fragment, tuple[Fragment, Memory]] = {}

    def __getitem__(self, name: str) -> Home:
        """Return the home of a tensor, pool or opaque value."""
        return self._homes[name][()]

    def element(self, name: str, indices: Indices) -> Home:
        """Return the home of a part of a value."""
        return self._homes[name][indices]

    def __contains__(self, name: str) -> bool:
        """Say whether a name has a home that is no tuple."""
        return () in self._homes.get(name, ())

    def scalar(self, name: str, indices: Indices = ()) -> Fragment:
        """Return the number that a name, or a part of it, stands for."""
        return self._scalars[name][indices]

    def put(self, name: str, home: Home, indices: Indices = ()) -> None:
        """Give a value a home of which it is the first name."""
        self._homes.setdefault(name, {})[indices] = home

    def put_scalar(self, name: str, number: Fragment, indices: Indices = ()) -> None:
        """Let a name stand for a number."""
        self._scalars.setdefault(name, {})[indices] = number

    def view(
        self, name: str, source: str, type: TensorType, *, apart: bool = False
    ) -> None:
        """Name a view; types' offsets count from where the source's storage begins.

        ``apart`` says that it needs a tensor of its own.
        """
        home = self[source]
        home.memory.names += 1
        self.put(name, evolve(home, type=type, apart=name if apart else None))

    def place(
        self,
        name: str,
        pool: str,
        offset: Expr,
        type: TensorType | PoolType,
        *,
        apart: bool = False,
    ) -> None:
        """Name what begins at a byte of a pool; see :meth:`view`."""
        home = self[pool]
        home.memory.names += 1
        begin, own = add(home.begin, offset), name if apart else None
        self.put(name, Home(home.memory, type, begin, own, bytes_of(type)))

    def take_element(self, name: str, source: str, indices: Indices) -> None:
        """Name an element of a tuple."""
        depth = len(indices)
        for place, home in self._homes.get(source, {}).items():
            if place[:depth] == indices:
                home.memory.names += 1
                self.put(name, home, place[depth:])
        for place, number in self._scalars.get(source, {}).items():
            if place[:depth] == indices:
                self.put_scalar(name, number, place[depth:])

    def lend(self, parameter: str, operand: str) -> None:
        """Let a block's parameter stand for its operand, without holding it."""
        self._homes[parameter] = self._homes[operand]

    def drop(self, name: str) -> None:
        """Drop a name; with the last name of a memory, reset what holds it."""
        for home in self._homes.pop(name, {}).values():
            home.memory.names -= 1
            if not home.memory.names:
                self._release(home.memory)

    def enter(self) -> None:
        """Begin a nested block."""
        self.scopes.append(Scope())

    def leave(self) -> None:
        """End a nested block: drop the views that it made."""
        for views in self.scopes.pop().views.values():
            for view in views:
                self._emit_drop(view)

    def known_tensor(self, home: Home) -> Fragment | None:
        """Return the handle of a tensor there is."""
        memory, layout = home.memory, home.layout
        if layout is None or (memory.root is not None and layout == layout_of(memory.root)):
            return memory.handle
        for scope in reversed(self.scopes):
            known = scope.tensors.get((memory, layout))
            if known is not None:
                return known
        return None

    def add_tensor(self, home: Home, handle: Fragment, slot: Fragment | None) -> None:
        """Note a tensor that the block has made, and the slot that owns it."""
        layout = home.layout
        assert layout is not None
        scope = self.scopes[-1] if slot is not None else self.scopes[0]
        scope.tensors[home.memory, layout] = handle
        if slot is not None:
            scope.views.setdefault(home.memory, []).append(slot)
            self.own(handle, slot, home.memory)

    def is_fetched(self, memory: Memory) -> bool:
        """Say whether the address of a slot's memory is there."""
        return any(memory in scope.fetched for scope in self.scopes)

    def own(self, handle: Fragment, slot: Fragment, memory: Memory) -> None:
        """Note which slot owns a handle of a memory."""
        self._owners[handle] = slot, memory

    def take_slot(self, handle: Fragment) -> Fragment | None:
        """Return the slot that owns a handle, to be emptied: it is no longer dropped."""
        if handle not in self._owners:
            return None
        slot, memory = self._owners[handle]
        if memory.slot == slot:
            memory.slot = None
        for scope in self.scopes:
            if slot in scope.views.get(memory, ()):
                scope.views[memory].remove(slot)
        return slot

    def _release(self, memory: Memory) -> None:
        for view in self.scopes[-1].views.pop(memory, ()):
            self._emit_drop(view)
        if memory.slot is not None:
            self._emit_drop(memory.slot)


def leaves(
    type: ValueType, indices: Indices = ()
) -> Iterator[tuple[Indices, TensorType | OpaqueType | ScalarType]]:
    """Yield the parts of a type that are no tuples, with their places."""
    if isinstance(type, TupleType):
        for index, element in enumerate(type.elements):
            yield from leaves(element, (*indices, index))
    elif isinstance(type, TensorType | OpaqueType | ScalarType):
        yield indices, type


def layout_of(type: TensorType) -> Layout:
    """Return the layout of a tensor whose storage begins where its memory does."""
    first = mul(type.offset, type.dtype.itemsize)
    return first, type.dtype, type.size, type.stride, None


def difference(left: Expr, right: Expr) -> Expr:
    """Return ``left - right``; 0 where they are the same."""
    return 0 if left == right else sub(left, right)


def handle_of(slot: Fragment) -> Fragment:
    """Return the handle that a slot owns."""
    return fragment("{}.get()", slot)
