"""Which lines of a block must stay in order, as a graph of the lines that may be moved."""

from collections.abc import Sequence

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.analysis import BlockStorages, Storage
from wrapperir.ir.effects import Effects, Origin
from wrapperir.operators import may_leave_out

_NAMESPACES = frozenset({"aten", "prims"})
"""Operators of other libraries may do anything, such as send to other ranks."""
_NAMES_ONLY = frozenset({Origin.VIEW, Origin.ELEMENT})
_OF_POOLS = frozenset({Origin.POOL, Origin.PLACED})


def is_fixed(line: wir.BodyLine, done: Effects) -> bool:
    """Say whether no line may be moved past a line."""
    if isinstance(line, wir.ExternKernelLine):
        return line.operator.partition(".")[0] not in _NAMESPACES
    orders = done.records is not None or done.awaits is not None
    checks_numbers = _is_check(done) and not done.uses
    uses_pools = any(made.origin in _OF_POOLS for made in done.definitions)
    return bool(
        done.blocks
        or done.host_waits
        or done.symbol is not None
        or orders
        or checks_numbers
        or uses_pools
    )


def _is_check(done: Effects) -> bool:
    return done.may_fail and not done.launches


@define(eq=False)
class Dependences:
    """For each line of a run, the later lines that need it, and how many it needs."""

    after: list[list[int]]
    before: list[list[int]]

    @classmethod
    def of(
        cls,
        lines: Sequence[wir.BodyLine],
        effects: Sequence[Effects],
        found: BlockStorages,
    ) -> "Dependences":
        """Return the dependences of consecutive lines, none of them fixed.

        Linear in the accesses.  A line that writes a storage stays between the accesses
        around it; where two names may share bytes, they have a storage in common.  Checks
        of a tensor stay before the calls that use it.  Starts of collectives keep their
        order, and no wait moves before a start that precedes it: so ranks that met before
        still do.
        """
        graph = cls([[] for _ in lines], [[] for _ in lines])
        walk = _Walk(graph, found)
        for index, (line, done) in enumerate(zip(lines, effects, strict=True)):
            walk.take(index, line, done)
        return graph

    def add(self, first: int, second: int) -> None:
        """Have a line come after another, which is before it."""
        if first != second:
            self.after[first].append(second)
            self.before[second].append(first)


def pool_of(storage: Storage) -> Storage:
    """Return the outermost pool of a storage, or the storage."""
    while storage.pool is not None:
        storage = storage.pool
    return storage


@define(eq=False)
class _Accessed:
    """The last line that wrote a storage, and the lines that read it since."""

    written: int = -1
    read: list[int] = field(factory=list[int])


@define(eq=False)
class _Walk:
    graph: Dependences
    found: BlockStorages
    accessed: dict[int, _Accessed] = field(factory=dict[int, _Accessed])
    defined: dict[str, int] = field(factory=dict[str, int])
    started: int = -1
    effect: int = -1

    def take(self, index: int, line: wir.BodyLine, done: Effects) -> None:
        """Add the dependences of the next line."""
        for name in dict.fromkeys(done.uses):
            if name in self.defined:
                self.graph.add(self.defined[name], index)
        written: dict[int, bool] = {}
        checks = _is_check(done)
        for name in done.uses:
            self._note(written, name, checks or name == done.drops)
        for access in done.accesses:
            self._note(written, access.name, access.writes)
        for made in done.definitions:
            self.defined[made.name] = index
            self._note(written, made.name, made.origin not in _NAMES_ONLY)
        for storage, writes in written.items():
            self._access(index, self.accessed.setdefault(storage, _Accessed()), writes)
        if done.starts is not None:
            self._follow(index, self.started)
            self.started = index
        elif done.completes is not None:
            self._follow(index, self.started)
        if isinstance(line, wir.ExternKernelLine) and not may_leave_out(line.operator):
            self._follow(index, self.effect)
            self.effect = index

    def _note(self, written: dict[int, bool], name: str, writes: bool) -> None:
        for storage in self.found.of_name.get(name, ()):
            key = id(pool_of(storage))
            written[key] = written.get(key, False) or writes

    def _access(self, index: int, known: _Accessed, writes: bool) -> None:
        if writes:
            for reader in known.read or (known.written,):
                self._follow(index, reader)
            known.written, known.read = index, []
        else:
            self._follow(index, known.written)
            known.read.append(index)

    def _follow(self, index: int, earlier: int) -> None:
        if earlier >= 0:
            self.graph.add(earlier, index)
