"""How tensors lie in memory, as far as that is sure before the run."""

import re
from collections.abc import Iterable

from attrs import define, field

from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.ir.effects import uses
from wrapperir.ir.line import (
    AllocateLine,
    Argument,
    BodyLine,
    BufferRef,
    ConditionalLine,
    ExternKernelLine,
    MultiOutputLine,
    PlaceLine,
    ReinterpretLine,
    ReuseLine,
    SubgraphCallLine,
    TorchEnum,
    WhileLoopLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.storage_operators import may_keep, needs_own_tensors
from wrapperir_cpp.sharing import find_sharing

# Parts of the names of operators that return what is no memory with sizes and strides.
_SPECIAL = re.compile(r"sparse|mkldnn|nested|jagged|quant|_(coo|csr|csc|bsr|bsc)(_|\b)")


@define
class TensorLayouts:
    """Names of tensors.

    ``exact`` surely have the layout of their type, which what an operator returns may not
    have.  ``special`` may have no strides: sparse tensors, those of other libraries.
    ``changed`` share storage with one that an operator gives another layout or storage;
    ``apart`` with that, or with one that an operator may keep.
    """

    exact: set[str] = field(factory=set[str])
    special: set[str] = field(factory=set[str])
    changed: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


def survey_layouts(program: Program) -> TensorLayouts:
    """Return what is sure of the tensors of a program."""
    layouts = TensorLayouts()
    layouts.exact.update(input.name for input in program.inputs)
    layouts.exact.update(constant.name for constant in program.constants)
    for line in walk_lines(program.lines):
        _note_exact(layouts.exact, line)
        _note_special(layouts.special, line)
    changed: set[str] = set()
    kept: set[str] = set()
    for line in walk_lines(program.lines):
        if isinstance(line, ExternKernelLine) and needs_own_tensors(line.operator):
            changed.update(line.writes)
            kept.update(uses(line) if may_keep(line.operator) else ())
    if changed or kept:
        sharing = find_sharing(program)
        layouts.changed = sharing.names_with(changed)
        layouts.apart = layouts.changed | sharing.names_with(kept)
        layouts.exact -= layouts.changed
    return layouts


def _note_exact(exact: set[str], line: BodyLine) -> None:
    match line:
        case AllocateLine(result=result) | PlaceLine(result=result):
            exact.add(result)
        case (
            ReuseLine(result=result, source=source)
            | ReinterpretLine(result=result, source=source)
        ) if source in exact:
            exact.add(result)
        case _:
            pass


def _note_special(special: set[str], line: BodyLine) -> None:
    match line:
        case ExternKernelLine(result=str(result)):
            made = _SPECIAL.search(line.operator.split(".")[1]) or any(
                _is_special(value) for value in _arguments(line)
            )
            if made or not special.isdisjoint(uses(line)):
                special.add(result)
        case MultiOutputLine(result=result, source=source) if source in special:
            special.add(result)
        case ConditionalLine(operands=operands) | SubgraphCallLine(operands=operands):
            _note_operands(special, line, operands)
        case WhileLoopLine(carried=carried, invariant=invariant):
            _note_operands(special, line, (*carried, *invariant))
        case _:
            pass


def _note_operands(
    special: set[str],
    line: ConditionalLine | SubgraphCallLine | WhileLoopLine,
    operands: Iterable[Argument],
) -> None:
    names = [a.name if isinstance(a, BufferRef) else "" for a in operands]
    for block in blocks_of(line):
        for parameter, name in zip(block.parameters, names, strict=False):
            if name in special:
                special.add(parameter.name)
    if not special.isdisjoint(names):
        special.update(result.name for result in line.results)


def _arguments(line: ExternKernelLine) -> tuple[Argument, ...]:
    return (*line.arguments, *(value for _, value in line.keywords))


def _is_special(argument: Argument) -> bool:
    return (
        isinstance(argument, TorchEnum)
        and argument.kind == "layout"
        and argument.name != "strided"
    )
