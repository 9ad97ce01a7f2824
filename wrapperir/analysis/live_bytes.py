"""The live bytes at each line of a program, and their peak."""

from collections.abc import Mapping, Sequence

from attrs import define, frozen

from wrapperir.analysis.sizes import allocated_bytes
from wrapperir.analysis.storages import (
    BlockStorages,
    Entry,
    Storage,
    StorageKind,
    block_entry,
    find_storages,
    program_entry,
)
from wrapperir.diagnostics import LinePath
from wrapperir.ir import Argument, Block, BodyLine, EvaluationError, Number, Program
from wrapperir.ir.line_effects import LineEffects

OWN = frozenset(
    {
        StorageKind.ALLOCATED,
        StorageKind.POOL,
        StorageKind.OPERATOR,
        StorageKind.RESULT,
        StorageKind.DONATED,
        StorageKind.SCATTERED,
    }
)
"""Storages whose bytes a block takes from an allocator, or is given for good.

The bytes of placed storages are their pool's.
"""


@frozen(eq=False)
class BlockMemory:
    """The memory of one block.

    ``bytes`` has each storage's size in the order of ``storages``, rounded up to 64.
    ``live`` has, for each line, the bytes that the block's own storages take while it
    runs, with what the line's nested blocks take at most in ``inside``.
    """

    path: LinePath
    lines: tuple[BodyLine, ...]
    found: BlockStorages
    bytes: tuple[int, ...]
    inside: tuple[int, ...]
    live: tuple[int, ...]

    @property
    def storages(self) -> list[Storage]:
        """The storages in the order they begin."""
        return self.found.storages

    @property
    def peak(self) -> int:
        """The most bytes that are alive at a line.

        Without lines, the bytes of donated inputs, which are there before all lines.
        """
        if self.live:
            return max(self.live)
        pairs = zip(self.storages, self.bytes, strict=True)
        return sum(size for storage, size in pairs if storage.is_donated)


@frozen(eq=False)
class ProgramMemory:
    """The memory of a program: the memory of each block by the path of its owner.

    The program's own lines are at ``()``, and a nested block at its line's path and
    attribute name, such as ``("lines", 3, "body")``.
    """

    blocks: Mapping[LinePath, BlockMemory]

    @property
    def top(self) -> BlockMemory:
        """The memory of the program's own lines."""
        return self.blocks[()]

    @property
    def peak(self) -> int:
        """The most bytes that are alive at once, nested blocks included.

        Inputs, constants and ``zero_per_program`` workspaces are not counted: they are
        there before the call and after it.  Donated inputs are there until they are freed.
        """
        return self.top.peak


def analyze_memory(program: Program, symbols: Mapping[str, Number]) -> ProgramMemory:
    """Return the memory of ``program`` where its symbols have these values.

    Sizes whose symbols have no value count as nothing.
    """
    walk = _MemoryAnalysis(symbols, LineEffects.of_program(program), {})
    walk.block((), program.lines, program.outputs, program_entry(program))
    return ProgramMemory(walk.blocks)


@define
class _MemoryAnalysis:
    symbols: Mapping[str, Number]
    effects: LineEffects
    blocks: dict[LinePath, BlockMemory]

    def block(
        self,
        path: LinePath,
        lines: tuple[BodyLine, ...],
        results: Sequence[Argument],
        entry: Entry,
    ) -> BlockMemory:
        found = find_storages(lines, results, entry, self.effects)
        sizes = tuple(self._bytes(storage) for storage in found.storages)
        inside = tuple(
            self._inside((*path, "lines", index), line) for index, line in enumerate(lines)
        )
        live = live_profile(found.storages, sizes, inside)
        memory = BlockMemory(path, lines, found, sizes, inside, live)
        self.blocks[path] = memory
        return memory

    def _bytes(self, storage: Storage) -> int:
        try:
            return allocated_bytes(storage.type, self.symbols)
        except EvaluationError:
            return 0

    def _nested(self, path: LinePath, block: Block) -> int:
        return self.block(path, block.lines, block.results, block_entry(block)).peak

    def _inside(self, path: LinePath, line: BodyLine) -> int:
        """Return the bytes of nested blocks, on top of those alive before the line.

        A loop holds what its last iteration left while the next one runs.
        """
        blocks = self.effects.visit(line).blocks
        if not blocks:
            return 0
        taken = max(self._nested((*path, nested.field), nested.block) for nested in blocks)
        if not any(nested.repeats for nested in blocks):
            return taken
        carried = find_storages((line,), (), (), self.effects).storages
        return taken + sum(self._bytes(storage) for storage in carried)


def live_profile(
    storages: Sequence[Storage], bytes: Sequence[int], inside: Sequence[int]
) -> tuple[int, ...]:
    """Return the bytes alive while each line runs.

    A storage is alive from the line that begins it up to the line that ends it, which
    runs without it.  While a line's nested blocks run, what they return is theirs.
    """
    count = len(inside)
    change = [0] * (count + 2)
    returned = [0] * (count + 1)
    for storage, size in zip(storages, bytes, strict=True):
        if storage.kind in OWN and size:
            change[storage.begin] += size
            change[max(storage.released, storage.begin)] -= size
            if storage.kind is StorageKind.RESULT and storage.end > storage.begin:
                returned[storage.begin] += size
    live: list[int] = []
    alive = 0
    for index in range(count):
        alive += change[index]
        live.append(max(alive, alive - returned[index] + inside[index]))
    return tuple(live)
