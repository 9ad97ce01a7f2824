"""The parts of a program that a reduction tries to remove or to make smaller, by kind."""

from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve, frozen

from wrapperir.ir import (
    BodyLine,
    BufferRef,
    DefinitionLine,
    FirstChoice,
    KernelDefinitionLine,
    Program,
)
from wrapperir.ir.blocks import BLOCK_FIELDS, walk_lines
from wrapperir.ir.effects import NestedBlock
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import source_buffer
from wrapperir.ir.renaming import rename_values
from wrapperir.reduce.lines import line_count, replace_line, without_lines
from wrapperir.reduce.ranges import integers_of, with_narrower_range
from wrapperir.reduce.sizes import sizes_of, with_smaller_size

_EFFECTS = LineEffects(None)


@frozen
class PartKind:
    """A kind of parts: their number, and programs without those from one to before another.

    Each program is smaller, and need not be valid.
    """

    name: str
    count: Callable[[Program], int]
    without: Callable[[Program, int, int], Iterator[Program]]


def _items_of(field: str) -> PartKind:
    """Return the kind of the items of a field of programs."""

    def count(program: Program) -> int:
        return len(getattr(program, field))

    def without(program: Program, first: int, last: int) -> Iterator[Program]:
        items: tuple[object, ...] = getattr(program, field)
        changes: dict[str, Any] = {field: items[:first] + items[last:]}
        yield evolve(program, **changes)

    return PartKind(field, count, without)


def _without_inputs(program: Program, first: int, last: int) -> Iterator[Program]:
    """Yield the program without inputs, and without the symbols that are read from them."""
    names = {each.name for each in program.inputs[first:last]}
    symbols = [x for x in program.symbols if source_buffer(x.source) not in names]
    inputs = program.inputs[:first] + program.inputs[last:]
    yield evolve(program, inputs=inputs, symbols=tuple(symbols))


# Configs of kernels, and choices of multi-kernels


def _variants(line: DefinitionLine) -> tuple[object, ...]:
    return line.configs if isinstance(line, KernelDefinitionLine) else line.choices


def _variant_count(program: Program) -> int:
    return sum(len(_variants(line)) for line in program.definitions)


def _without_variants(program: Program, first: int, last: int) -> Iterator[Program]:
    definitions: list[DefinitionLine] = []
    begin = 0
    for line in program.definitions:
        end = begin + len(_variants(line))
        inner = range(max(first, begin) - begin, min(last, end) - begin)
        begin = end
        if not inner:
            definitions.append(line)
        elif isinstance(line, KernelDefinitionLine):
            left = line.configs[: inner.start] + line.configs[inner.stop :]
            definitions.append(evolve(line, configs=left))
        else:
            choices = line.choices[: inner.start] + line.choices[inner.stop :]
            definitions.append(evolve(line, choices=choices, selection=FirstChoice()))
    yield evolve(program, definitions=tuple(definitions))


# Nested blocks


def _block_line_count(program: Program) -> int:
    return sum(type(line) in BLOCK_FIELDS for line in walk_lines(program.lines))


def _without_blocks(program: Program, first: int, last: int) -> Iterator[Program]:
    """Yield programs with the lines of a block in place of the line that has it."""
    if last - first > 1:
        return  # which of the blocks stays is a choice for each line
    wanted = [line for line in walk_lines(program.lines) if type(line) in BLOCK_FIELDS]
    line = wanted[first]
    for nested in _EFFECTS.visit(line).blocks:
        inner = _inlined(line, nested)
        if inner is not None:
            yield evolve(program, lines=replace_line(program.lines, line, inner))


def _inlined(line: BodyLine, nested: NestedBlock) -> tuple[BodyLine, ...] | None:
    """Return the lines of a block with the caller's names; ``None`` if it has none."""
    block = nested.block
    results = [value.name for value in _EFFECTS.visit(line).definitions]
    returned = [each.name for each in block.results if isinstance(each, BufferRef)]
    operands = [each.name for each in nested.operands if isinstance(each, BufferRef)]
    if len(returned) != len(results) or len(operands) != len(block.parameters):
        return None
    names = dict(zip(returned, results, strict=True))
    names |= zip([each.name for each in block.parameters], operands, strict=True)
    return tuple(
        [rename_values(each, lambda name: names.get(name, name)) for each in block.lines]
    )


def _with_smaller_sizes(program: Program, first: int, last: int) -> Iterator[Program]:
    if last - first > 1:
        return  # how small each size becomes is a choice by itself
    yield from with_smaller_size(program, sizes_of(program)[first])


def _with_narrower_ranges(program: Program, first: int, last: int) -> Iterator[Program]:
    if last - first > 1:
        return  # which value each symbol has is a choice by itself
    yield from with_narrower_range(program, integers_of(program)[first])


PART_KINDS = (
    PartKind("lines", line_count, without_lines),
    _items_of("outputs"),
    PartKind("blocks", _block_line_count, _without_blocks),
    PartKind("configs and choices", _variant_count, _without_variants),
    _items_of("definitions"),
    _items_of("symbols"),
    PartKind("inputs", lambda program: len(program.inputs), _without_inputs),
    _items_of("constants"),
    PartKind("ranges", lambda program: len(integers_of(program)), _with_narrower_ranges),
    PartKind("sizes", lambda program: len(sizes_of(program)), _with_smaller_sizes),
)
"""All kinds, in the order in which they are tried."""
