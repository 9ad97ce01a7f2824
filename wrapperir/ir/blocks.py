"""The nested blocks of lines: listed, rewritten and walked.

They are found by the fields of the line classes, so a new kind with blocks needs nothing
here.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

from attrs import evolve, fields_dict

from wrapperir.ir.line import (
    BODY_LINES,
    Block,
    BodyLine,
    KernelCallLine,
)
from wrapperir.ir.program import Program

Path: TypeAlias = tuple[str | int, ...]
"""The place of a line in a program, such as ``("lines", 3, "body", "lines", 0)``."""

BLOCK_FIELDS: dict[type[BodyLine], tuple[str, ...]] = {
    kind: names
    for kind in BODY_LINES
    if (names := tuple(n for n, f in fields_dict(kind).items() if f.type is Block))
}
"""The fields that hold blocks, of each line kind that has any, in the order of the text."""


def nested_blocks(line: BodyLine) -> tuple[tuple[str, Block], ...]:
    """Return the field name and the block of each nested block of a line."""
    names = BLOCK_FIELDS.get(type(line))
    return () if names is None else tuple((name, getattr(line, name)) for name in names)


def blocks_of(line: BodyLine) -> tuple[Block, ...]:
    """Return the nested blocks of a line, in the order of the text."""
    names = BLOCK_FIELDS.get(type(line))
    return () if names is None else tuple(getattr(line, name) for name in names)


def rewrite_blocks(line: BodyLine, rewrite: Callable[[Block], Block]) -> BodyLine:
    """Return ``line`` with ``rewrite`` applied to each of its blocks, if it has any."""
    if type(line) not in BLOCK_FIELDS:
        return line
    new: dict[str, Any] = {name: rewrite(block) for name, block in nested_blocks(line)}
    return evolve(line, **new)


def parts_on(program: Program, path: Path) -> Iterator[object]:
    """Yield each part of a program that a path leads through, the outermost first.

    It ends where the program has no such part.
    """
    part: object = program
    for step in path:
        if isinstance(step, str):
            part = getattr(part, step, None)
        else:
            items = cast(tuple[object, ...], part if isinstance(part, tuple) else ())
            part = items[step] if 0 <= step < len(items) else None
        if part is None:
            return
        yield part


def walk_lines(lines: Iterable[BodyLine]) -> Iterator[BodyLine]:
    """Yield each line, then the lines of its nested blocks, then the next line."""
    # A stack, so that memory and not Python's recursion limit bounds the nesting.
    stack = [iter(lines)]
    while stack:
        for line in stack[-1]:
            yield line
            if type(line) in BLOCK_FIELDS:
                stack.extend(iter(block.lines) for block in reversed(blocks_of(line)))
                break
        else:
            stack.pop()


def called_names(program: Program) -> frozenset[str]:
    """Return the names of the kernels and multi-kernels that a program's lines call."""
    lines = walk_lines(program.lines)
    return frozenset(line.kernel for line in lines if isinstance(line, KernelCallLine))


def walk_places(
    lines: Iterable[BodyLine], path: Path = ()
) -> Iterator[tuple[BodyLine, Path]]:
    """Yield what :func:`walk_lines` does, each line with its place.

    ``path`` is the place of the owner of ``lines``: empty for a program.
    """
    stack = [(iter(enumerate(lines)), path)]
    while stack:
        numbered, outer = stack[-1]
        for index, line in numbered:
            place = (*outer, "lines", index)
            yield line, place
            if type(line) in BLOCK_FIELDS:
                stack.extend(
                    (iter(enumerate(block.lines)), (*place, name))
                    for name, block in reversed(nested_blocks(line))
                )
                break
        else:
            stack.pop()
