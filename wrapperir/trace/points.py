"""The points of a program at which its values are observed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.ir.blocks import nested_blocks
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects
from wrapperir.trace.block_names import BlockNames


class PointRole(StrEnum):
    """The reason to observe a value after a line."""

    RESULT = "result"
    """The line wrote it."""
    STORAGE = "storage"
    """The line wrote a view of it."""
    VIEW = "view"
    """The line names a view of it, and something was written before."""
    SYMBOL = "symbol"
    """The line gives the symbol its value."""


@frozen(kw_only=True)
class Point:
    """A place where a value is observed: after the line at ``path``.

    ``path`` is ``("symbols", n)`` for a symbol that is known on entry.  ``stream`` is that
    of the observation.
    """

    path: LinePath
    name: str
    role: PointRole
    device: wir.Device = wir.CPU
    stream: int = 0


def points_of(program: wir.Program) -> tuple[Point, ...]:
    """Return the points after all lines that write, in the order of the text.

    Each tensor that a line writes is observed after it, and the buffer that it is a view
    of; a view where it is made, if its storage holds anything yet; and each symbol.
    Elements of an operator's tuple are observed where they are named.  Vendor layouts,
    values that are no tensors, and workspaces of multi-kernels, whose choices runs make
    for themselves, are left out.
    """
    scratch = {
        line.name: _workspaces(line)
        for line in program.definitions
        if isinstance(line, wir.MultiKernelLine)
    }
    effects = LineEffects.of_program(program)
    names = BlockNames.of_program(program)
    known = [
        Point(path=("symbols", index), name=line.symbol, role=PointRole.SYMBOL)
        for index, line in enumerate(program.symbols)
    ]
    inner = partial(BlockNames.of_block, constants=program.constants)
    return (*known, *_block_points(program.lines, (), effects, names, inner, scratch))


def _workspaces(line: wir.MultiKernelLine) -> frozenset[int]:
    """Return the parameters that are workspaces of choices."""
    needs = [need for choice in line.choices for need in choice.workspaces]
    return frozenset(need.parameter for need in needs)


def _block_points(
    lines: Sequence[wir.BodyLine],
    prefix: LinePath,
    effects: LineEffects,
    names: BlockNames,
    inner: Callable[[wir.Block], BlockNames],
    scratch: Mapping[str, frozenset[int]],
) -> Iterator[Point]:
    for index, line in enumerate(lines):
        path = (*prefix, "lines", index)
        for name, block in nested_blocks(line):
            yield from _block_points(
                block.lines, (*path, name), effects, inner(block), inner, scratch
            )
        unused: set[str] = set()
        if isinstance(line, wir.KernelCallLine):
            given = [line.arguments[place] for place in scratch.get(line.kernel, ())]
            unused = {each.name for each in given if isinstance(each, wir.BufferRef)}
        yield from _line_points(path, index, effects.visit(line), names, unused)


def _line_points(
    path: LinePath,
    index: int,
    done: Effects,
    names: BlockNames,
    unused: Collection[str],
) -> Iterator[Point]:
    if done.symbol is not None:
        yield Point(path=path, name=done.symbol, role=PointRole.SYMBOL)
    views = list(names.enter(index, done))
    # Lines of nested blocks write what the block is lent: there it is observed.
    ours = {made.name for made in done.definitions} if done.blocks else None
    found: dict[str, PointRole] = {}
    for access in done.accesses:
        if access.name in unused:
            continue
        if access.writes and (ours is None or access.name in ours):
            found[access.name] = PointRole.RESULT
            if (storage := names.storages.get(access.name)) is not None:
                oldest = next(iter(storage.names), access.name)
                found.setdefault(oldest, PointRole.STORAGE)
    for name in views:
        found.setdefault(name, PointRole.VIEW)
    for name, role in found.items():
        if (type := names.tensor(name)) is not None:
            is_on = done.stream is not None and done.stream.device == type.device
            yield Point(
                path=path,
                name=name,
                role=role,
                device=type.device,
                stream=done.stream.number if is_on and done.stream is not None else 0,
            )
