"""Root storages of a program's values, and the views, tensors and numbers made of them.

A *root storage* is memory that emitted code can reach: part of an arena, a constant, or
what the tensor in a slot of the call holds.  The names that refer to one are counted while
code is emitted, so it is released at the line that drops the last, and a view costs nothing
until something needs a tensor of it.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from attrs import define, evolve, frozen

from wrapperir import ir as wir
from wrapperir.analysis import storage_bytes
from wrapperir.emit import Fragment, fragment

Indices: TypeAlias = tuple[int, ...]
"""The place of a value in nested tuples."""
LayoutKey: TypeAlias = tuple[
    wir.Expr, object, tuple[wir.Expr, ...], tuple[wir.Expr, ...], str | None
]
"""First byte in the root storage, dtype, size, stride, and the owner of an own tensor."""


@define(eq=False)
class RootStorage:
    """Memory, how emitted code reaches it, and the number of names that refer to it.

    Attributes:
        base: Address of the first element of the tensor ``handle``, or of the arena.
        root: Type of that tensor; ``None`` in an arena.
        handle: The tensor.
        slot: Owner of the handle.
        begin: Byte of the arena at which the storage begins.
        constant: Index of a constant; -1 in an arena; ``None`` for others.  A frame has
            tensors of the first two ready.
        names: Number of names that refer to it.
    """

    base: Fragment
    root: wir.TensorType | None = None
    handle: Fragment | None = None
    slot: Fragment | None = None
    begin: int = 0
    constant: int | None = None
    names: int = 1

    @property
    def first(self) -> wir.Expr:
        """The byte of the storage that ``base`` is the address of."""
        if self.root is None:
            return -self.begin
        return wir.mul(self.root.offset, self.root.dtype.itemsize)


@frozen
class StorageView:
    """A tensor or pool in a root storage.

    Attributes:
        storage: The root storage.
        type: Its type; the type's offset counts from ``begin``.
        begin: Byte offset from the root storage.
        own: Name of the value, if it needs a tensor that no other value shares.
        room: Bytes of storage from ``begin`` on; ``None``: as many as the tensor has.
    """

    storage: RootStorage
    type: wir.TensorType | wir.PoolType | None
    begin: wir.Expr = 0
    own: str | None = None
    room: wir.Expr | None = None

    @property
    def first(self) -> wir.Expr:
        """The byte of the first element."""
        if not isinstance(self.type, wir.TensorType):
            return self.begin
        return wir.add(self.begin, wir.mul(self.type.offset, self.type.dtype.itemsize))

    @property
    def layout(self) -> LayoutKey | None:
        """The key that tells it from other tensors of the same storage."""
        if not isinstance(self.type, wir.TensorType):
            return None
        return self.first, self.type.dtype, self.type.size, self.type.stride, self.own


class BlockTensors:
    """Tensors made in one block by layout, their slots, and the addresses fetched there."""

    def __init__(self) -> None:
        """Start without tensors."""
        self.tensors: dict[tuple[RootStorage, LayoutKey], Fragment] = {}
        self.views: dict[RootStorage, list[Fragment]] = {}
        self.fetched: set[RootStorage] = set()


class ValueStorage:
    """The storage view, or number, of each value and each part of a tuple.

    ``emit_drop`` appends the reset of a slot.
    """

    def __init__(self, emit_drop: Callable[[Fragment], None]) -> None:
        """Start in the outermost block, without values."""
        self.scopes = [BlockTensors()]
        self._emit_drop = emit_drop
        self._views: dict[str, dict[Indices, StorageView]] = {}
        self._scalars: dict[str, dict[Indices, Fragment]] = {}
        self._owners: dict[Fragment, tuple[Fragment, RootStorage]] = {}

    def __getitem__(self, name: str) -> StorageView:
        """Return the view of a tensor, pool or opaque value."""
        return self.element(name, ())

    def element(self, name: str, indices: Indices) -> StorageView:
        """Return the view of a part of a value."""
        return self._views[name][indices]

    def __contains__(self, name: str) -> bool:
        """Say whether a name has a view, and is not a tuple."""
        return () in self._views.get(name, ())

    def scalar(self, name: str, indices: Indices = ()) -> Fragment:
        """Return the number that a name, or a part of it, stands for."""
        return self._scalars[name][indices]

    def put(self, name: str, view: StorageView, indices: Indices = ()) -> None:
        """Add the view of the first name of a storage."""
        self._views.setdefault(name, {})[indices] = view

    def put_scalar(self, name: str, number: Fragment, indices: Indices = ()) -> None:
        """Let a name stand for a number."""
        self._scalars.setdefault(name, {})[indices] = number

    def add_view(self, name: str, source: str, type: wir.TensorType, *, own: bool) -> None:
        """Add a view; types' offsets count from where the source's storage begins.

        ``own`` says that it needs a tensor of its own.
        """
        view = self[source]
        view.storage.names += 1
        self.put(name, evolve(view, type=type, own=name if own else None))

    def place(
        self,
        name: str,
        pool: str,
        offset: wir.Expr,
        type: wir.TensorType | wir.PoolType,
        *,
        own: bool,
    ) -> None:
        """Add what begins at a byte of a pool; see :meth:`add_view`."""
        view = self[pool]
        view.storage.names += 1
        begin = wir.add(view.begin, offset)
        self.put(
            name,
            StorageView(view.storage, type, begin, name if own else None, bytes_of(type)),
        )

    def take_element(self, name: str, source: str, indices: Indices) -> None:
        """Name an element of a tuple."""
        depth = len(indices)
        for place, view in self._views.get(source, {}).items():
            if place[:depth] == indices:
                view.storage.names += 1
                self.put(name, view, place[depth:])
        for place, number in self._scalars.get(source, {}).items():
            if place[:depth] == indices:
                self.put_scalar(name, number, place[depth:])

    def lend(self, parameter: str, operand: str) -> None:
        """Let a block's parameter stand for its operand, without a reference."""
        self._views[parameter] = self._views[operand]

    def drop(self, name: str) -> None:
        """Drop a name; with the last name of a storage, reset what owns it."""
        for view in self._views.pop(name, {}).values():
            view.storage.names -= 1
            if not view.storage.names:
                self._release(view.storage)

    def enter(self) -> None:
        """Begin a nested block."""
        self.scopes.append(BlockTensors())

    def leave(self) -> None:
        """End a nested block: drop the views made in it."""
        for views in self.scopes.pop().views.values():
            for view in views:
                self._emit_drop(view)

    def known_tensor(self, view: StorageView) -> Fragment | None:
        """Return the handle of a tensor that is already made."""
        storage, layout = view.storage, view.layout
        if layout is None or (
            storage.root is not None and layout == layout_of(storage.root)
        ):
            return storage.handle
        for scope in reversed(self.scopes):
            known = scope.tensors.get((storage, layout))
            if known is not None:
                return known
        return None

    def add_tensor(
        self, view: StorageView, handle: Fragment, slot: Fragment | None
    ) -> None:
        """Add a tensor made in this block, and the slot that owns it."""
        layout = view.layout
        assert layout is not None
        scope = self.scopes[-1] if slot is not None else self.scopes[0]
        scope.tensors[view.storage, layout] = handle
        if slot is not None:
            scope.views.setdefault(view.storage, []).append(slot)
            self.own(handle, slot, view.storage)

    def is_fetched(self, storage: RootStorage) -> bool:
        """Say whether the address of a slot's storage was fetched."""
        return any(storage in scope.fetched for scope in self.scopes)

    def own(self, handle: Fragment, slot: Fragment, storage: RootStorage) -> None:
        """Set the slot that owns a handle of a storage."""
        self._owners[handle] = slot, storage

    def take_slot(self, handle: Fragment) -> Fragment | None:
        """Return the slot that owns a handle, to be emptied: it is no longer dropped."""
        if handle not in self._owners:
            return None
        slot, storage = self._owners[handle]
        if storage.slot == slot:
            storage.slot = None
        for scope in self.scopes:
            if slot in scope.views.get(storage, ()):
                scope.views[storage].remove(slot)
        return slot

    def _release(self, storage: RootStorage) -> None:
        for view in self.scopes[-1].views.pop(storage, ()):
            self._emit_drop(view)
        if storage.slot is not None:
            self._emit_drop(storage.slot)


def leaves(
    type: wir.ValueType, indices: Indices = ()
) -> Iterator[tuple[Indices, wir.TensorType | wir.OpaqueType | wir.ScalarType]]:
    """Yield the parts of a type that are not tuples, with their places."""
    if isinstance(type, wir.TupleType):
        for index, element in enumerate(type.elements):
            yield from leaves(element, (*indices, index))
    elif isinstance(type, wir.TensorType | wir.OpaqueType | wir.ScalarType):
        yield indices, type


def bytes_of(type: wir.TensorType | wir.PoolType) -> wir.Expr:
    """Return the bytes of a storage of this type, in a short expression."""
    if isinstance(type, wir.PoolType) or type.stride != wir.contiguous_stride(type.size):
        return storage_bytes(type)
    return wir.mul(wir.add(type.offset, wir.product(type.size)), type.dtype.itemsize)


def layout_of(type: wir.TensorType) -> LayoutKey:
    """Return the layout of a tensor that begins with its root storage."""
    first = wir.mul(type.offset, type.dtype.itemsize)
    return first, type.dtype, type.size, type.stride, None


def difference(left: wir.Expr, right: wir.Expr) -> wir.Expr:
    """Return ``left - right``; 0 where they are equal."""
    return 0 if left == right else wir.sub(left, right)


def handle_of(slot: Fragment) -> Fragment:
    """Return the handle that a slot owns."""
    return fragment("{}.get()", slot)
