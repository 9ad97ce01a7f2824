"""The line that changes a value which it does not name."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import cast

import torch
from attrs import frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath, Note
from wrapperir.emit import Value
from wrapperir.ir.blocks import parts_on
from wrapperir.ir.line_effects import LineEffects
from wrapperir.trace.block_names import BlockNames
from wrapperir.trace.differences import Difference, DifferenceKind
from wrapperir.trace.pairs import Mark
from wrapperir.trace.points import Point, PointRole
from wrapperir.trace.runs import Observed, TracedProgram
from wrapperir.trace.summary import digest_of


@frozen
class _ReadMemory:
    """Memory that a line reads, and the points at which it should be the same.

    It is observed as ``name``: the ``value`` that is read, or another name of its memory.
    """

    value: str
    name: str
    points: tuple[Point, ...]


def find_overwriting(
    traced: TracedProgram, inputs: Sequence[Value], reader: Mark
) -> Difference | None:
    """Return the line that changed what the line of ``reader`` reads, after it was written.

    The emitted code runs again, while each value that the line reads is observed after each
    line of the block since it was written.  ``None`` if no value was changed.
    """
    path = reader.point.path
    end = path[-1]
    if path[0] == "symbols" or not isinstance(end, int):
        return None
    reads = list(_reads(traced.program, path[:-1], end))
    added = [point for read in reads for point in read.points]
    if not added:
        return None
    found: dict[Point, str] = {}

    def note(seen: Observed) -> None:
        if isinstance(seen.value, torch.Tensor) and seen.occurrence == reader.occurrence:
            found[seen.point] = digest_of(seen.value)

    with suppress(Exception):  # it may fail further on
        traced.run(inputs, note, added)
    changes = [
        (cast(int, later.path[-1]), read, earlier)
        for read in reads
        for earlier, later in zip(read.points, read.points[1:], strict=False)
        if earlier in found and later in found and found[earlier] != found[later]
    ]
    if not changes:
        return None
    index, read, earlier = min(changes, key=lambda change: change[0])
    return Difference(
        kind=DifferenceKind.OVERWRITTEN,
        program=traced.program,
        path=(*path[:-1], index),
        message=f"this line changes %{read.value}, which it does not write",
        notes=(
            Note(message=f"%{read.value} was still right here", path=earlier.path),
            Note(message=f"%{read.value} is read here", path=path),
        ),
    )


def _reads(program: wir.Program, prefix: LinePath, end: int) -> Iterator[_ReadMemory]:
    """Yield what a line of a block reads and some line of the block has written before.

    The points begin with the line that last may have written it.
    """
    effects = LineEffects.of_program(program)
    lines, names = _block(program, prefix)
    for index, line in enumerate(lines[:end]):
        for _ in names.enter(index, effects.visit(line)):
            pass
    done = effects.visit(lines[end])
    read = dict.fromkeys(access.name for access in done.accesses if access.reads)
    for value in read:
        storage = names.storages.get(value)
        if storage is None or storage.written_by is None:
            continue
        since = storage.written_by
        candidates = [value, *storage.names]
        name = min(candidates, key=lambda each: max(names.begun.get(each, since), since))
        since = max(names.begun.get(name, since), since)
        type = names.tensor(name)
        if type is not None and since < end - 1:
            points = [
                Point(
                    path=(*prefix, index),
                    name=name,
                    role=PointRole.RESULT,
                    device=type.device,
                )
                for index in range(since, end)
            ]
            yield _ReadMemory(value, name, tuple(points))


def _block(
    program: wir.Program, prefix: LinePath
) -> tuple[Sequence[wir.BodyLine], BlockNames]:
    """Return the lines of a block, and the names that they begin with."""
    *_, part = (program, *parts_on(program, prefix[:-1]))
    if isinstance(part, wir.Block):
        return part.lines, BlockNames.of_block(part, program.constants)
    return program.lines, BlockNames.of_program(program)
