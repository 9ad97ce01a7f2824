"""Have operators write their results over arguments that nothing needs any more."""

from collections.abc import Sequence

from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.analysis import (
    BlockStorages,
    Body,
    Entry,
    Storage,
    StorageKind,
    StreamOrder,
    find_storages,
    order_streams,
    rewrite_bodies,
    storage_bytes,
)
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.renaming import rename_values
from wrapperir.operators import is_pointwise
from wrapperir.passes.reuse_choice import reuse_line

_ROUNDED_OTHERWISE = frozenset({wir.DType.C32, wir.DType.C64, wir.DType.C128})
"""Complex numbers: compilers round their products differently for shared memory."""


def update_in_place(program: wir.Program) -> wir.Program:
    """Return the program with pointwise results in the memory of an argument.

    Before::

        program @main(%x: f32[8], %y: f32[8]) {
          %buf0 = allocate f32[8]
          extern_kernel aten.add.out(%x, %y, out = %buf0) writes(%buf0)
          %buf1 = allocate f32[8]
          extern_kernel aten.tanh.out(%buf0, out = %buf1) writes(%buf1)
          free %buf0
          return %buf1
        }

    After::

        program @main(%x: f32[8], %y: f32[8]) {
          %buf0 = allocate f32[8]
          extern_kernel aten.add.out(%x, %y, out = %buf0) writes(%buf0)
          %buf1 = reuse %buf0 as f32[8]
          extern_kernel aten.tanh.out(%buf1, out = %buf1) writes(%buf1)
          return %buf1
        }

    An argument gives its memory if it is a buffer of the block, or a dense donated input,
    that no later line uses, of the result's type, not complex, and no other argument is a
    view of it: then each element is read before it is written.  On several streams all
    earlier uses must be ordered before the call.
    """
    effects = LineEffects.of_program(program)
    return rewrite_bodies(program, lambda body: _updated(body, effects))


def _updated(body: Body, effects: LineEffects) -> list[wir.BodyLine]:
    """Return the lines of a body with its operators in place where they may be."""
    lines = body.lines
    found = find_storages(lines, body.results, body.entry, effects)
    names = _Names.of(lines, found.effects, body.entry)
    order = order_streams(found.effects)
    reuses: dict[int, wir.ReuseLine] = {}
    gone: set[int] = set()
    for index, line in enumerate(lines):
        if isinstance(line, wir.ExternKernelLine) and len(line.writes) == 1:
            call = _Call(index, line, line.writes[0], found, names, order)
            source = call.source()
            if source is not None:
                begun, freed = names.allocated[call.target], names.freed[source]
                reuses[index] = reuse_line(lines[begun], source)
                gone |= {begun, freed}
    changed: list[wir.BodyLine] = []
    for index, line in enumerate(lines):
        if index in reuses:
            changed += [reuses[index], _in_place(line, reuses[index])]
        elif index not in gone:
            changed.append(line)
    return changed


def _in_place(line: wir.BodyLine, reuse: wir.ReuseLine) -> wir.BodyLine:
    """Return a call that reads the result's name where it read the source's."""
    source, result = reuse.source, reuse.result
    return rename_values(line, lambda name: result if name == source else name)


@define
class _Names:
    """Each name's type, and the lines that allocate it, free it and use it otherwise."""

    types: dict[str, wir.ValueType] = field(factory=dict[str, wir.ValueType])
    allocated: dict[str, int] = field(factory=dict[str, int])
    freed: dict[str, int] = field(factory=dict[str, int])
    first: dict[str, int] = field(factory=dict[str, int])
    last: dict[str, int] = field(factory=dict[str, int])

    @classmethod
    def of(
        cls, lines: Sequence[wir.BodyLine], effects: Sequence[Effects], entry: Entry
    ) -> "_Names":
        """Return the facts about the names that lines define or use."""
        names = cls({name: type for name, type, _ in entry})
        for index, (line, found) in enumerate(zip(lines, effects, strict=True)):
            for made in found.definitions:
                names.types[made.name] = made.type
            if isinstance(line, wir.FreeLine):
                names.freed[line.buffer] = index
                continue
            for name in found.uses:
                names.first.setdefault(name, index)
                names.last[name] = index
            if isinstance(line, wir.AllocateLine) and line.workspace is None:
                names.allocated[line.result] = index
        return names


@define
class _Call:
    """A call that writes one buffer."""

    index: int
    line: wir.ExternKernelLine
    target: str
    found: BlockStorages
    names: _Names
    order: StreamOrder

    @property
    def uses(self) -> tuple[str, ...]:
        """The names that the call uses, repeats included."""
        return self.found.effects[self.index].uses

    def source(self) -> str | None:
        """Return the argument whose memory the result may take, if there is one."""
        begun = self.names.allocated.get(self.target)
        values = (*self.line.arguments, *(value for _, value in self.line.keywords))
        given = [value.name for value in values if isinstance(value, wir.BufferRef)]
        if (
            begun is None
            or len(given) != len(self.uses)
            or self.names.first[self.target] != self.index
            or given.count(self.target) != 1
            or not is_pointwise(self.line.operator, self.line.device.kind)
        ):
            return None
        return next((name for name in given if self._may_give(name)), None)

    def _may_give(self, name: str) -> bool:
        """Say whether the memory of ``name`` may become the result's."""
        source, target = self.names.types.get(name), self.names.types[self.target]
        held = self.found.of_name[name]
        if name == self.target or name not in self.names.freed or len(held) != 1:
            return False
        if not isinstance(source, wir.TensorType) or not isinstance(target, wir.TensorType):
            return False
        (storage,) = held
        return (
            storage.kind in (StorageKind.ALLOCATED, StorageKind.DONATED)
            and evolve(source, alignment=target.alignment) == target
            and (target.alignment or 1) <= (source.alignment or 1)
            and source.layout is None
            and source.dtype not in _ROUNDED_OTHERWISE
            and storage_bytes(storage.type) == storage_bytes(target)
            and all(self.names.last.get(n, -1) <= self.index for n in storage.names)
            and not storage.escapes
            and not any(storage in self.found.of_name[n] for n in self.uses if n != name)
            and self._comes_last(storage)
        )

    def _comes_last(self, storage: Storage) -> bool:
        """Say whether all earlier uses of a storage are ordered before the call."""
        if self.order.is_trivial:
            return True
        call = {wir.Stream(self.line.device, self.line.stream): [self.index]}
        return all(
            self.order.settled(use.line, use.stream, call) <= self.index
            for use in storage.uses
            if use.stream is not None and use.line < self.index
        )
