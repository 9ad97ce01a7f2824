"""Which names of a program may share storage, in blocks and around them."""

from collections.abc import Iterable, Sequence

from attrs import define, field

from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line import (
    Argument,
    Block,
    BlockParameter,
    BodyLine,
    ConditionalLine,
    ExternKernelLine,
    MultiOutputLine,
    PlaceLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    SubgraphCallLine,
    WhileLoopLine,
)
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.program import Program


@define
class Sharing:
    """Groups of names; each but one of a group leads to another of it."""

    _leads: dict[str, str] = field(factory=dict[str, str])

    def join(self, one: str, others: Iterable[str]) -> None:
        """Let names be of one group."""
        for other in others:
            first, second = self._last(one), self._last(other)
            if first != second:
                self._leads[first] = second

    def names_with(self, names: Iterable[str]) -> frozenset[str]:
        """Return all names that are in a group with one of ``names``."""
        wanted = set(names)
        last = {self._last(name) for name in wanted}
        return frozenset(wanted | last | {n for n in self._leads if self._last(n) in last})

    def _last(self, name: str) -> str:
        while (next := self._leads.get(name)) is not None:
            further = self._leads.get(next)
            if further is not None:
                self._leads[name] = further
            name = next
        return name


def find_sharing(program: Program) -> Sharing:
    """Return the groups of a program's names."""
    sharing = Sharing()
    for line in walk_lines(program.lines):
        _note(sharing, line)
    return sharing


def _note(sharing: Sharing, line: BodyLine) -> None:
    match line:
        case (
            ReuseLine(result=result, source=source)
            | ReinterpretLine(result=result, source=source)
            | MultiOutputLine(result=result, source=source)
            | PlaceLine(result=result, pool=source)
        ):
            sharing.join(source, (result,))
        case ExternKernelLine(result=str(result), aliases=aliases):
            sharing.join(result, aliases)
        case ConditionalLine():
            for block in (line.on_true, line.on_false):
                _note_block(sharing, block, line.operands, line.results)
        case SubgraphCallLine():
            _note_block(sharing, line.body, line.operands, line.results)
        case WhileLoopLine():
            operands = (*line.carried, *line.invariant)
            _note_values(sharing, line.condition.parameters, operands)
            _note_block(sharing, line.body, operands, line.results)
            _note_values(sharing, line.results, line.carried)
        case _:
            pass


def _note_block(
    sharing: Sharing,
    block: Block,
    operands: Sequence[Argument],
    results: Sequence[Result],
) -> None:
    _note_values(sharing, block.parameters, operands)
    _note_values(sharing, results, block.results)


def _note_values(
    sharing: Sharing,
    names: Sequence[BlockParameter | Result],
    values: Sequence[Argument],
) -> None:
    for name, value in zip(names, values, strict=False):
        sharing.join(name.name, buffers_in(value))
