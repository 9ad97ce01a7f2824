"""Which kernels each call of a program may run: no others are built."""

from collections.abc import Iterator, Mapping

from attrs import frozen

from wrapperir.emit.selecting import (
    Candidate,
    ComputedAt,
    Dispatch,
    NearestAt,
    candidates,
    dispatch_at,
)
from wrapperir.emit.walking import walk_lines
from wrapperir.ir.expr import Expr, Operation
from wrapperir.ir.line import DefinitionLine, KernelCallLine, MultiKernelLine
from wrapperir.ir.program import Program
from wrapperir.ir.types import ValueType
from wrapperir.ir.uses import blocks_of, definitions


@frozen
class Runnable:
    """What decides at a call, and the kernels that it may run, by their choice's number.

    ``dispatch`` is the only number where there is one.
    """

    dispatch: Dispatch
    kernels: Mapping[int, Candidate]


def runnable_kernels(
    kernels: Mapping[str, DefinitionLine],
    line: KernelCallLine,
    types: Mapping[str, ValueType],
) -> Runnable:
    """Return what a call may run; ``types`` are those of the program's values."""
    definition = kernels[line.kernel]
    found = candidates(kernels, line.kernel)
    if len(found) == 1 or not isinstance(definition, MultiKernelLine):
        return Runnable(0, {0: found[0]})
    dispatch = dispatch_at(definition, line.arguments, types)
    match dispatch:
        case int():
            numbers = {dispatch}
        case NearestAt(hints):
            numbers = {hint.choice for hint in hints}
        case ComputedAt(index):
            numbers = {*_leaves(index)}
        case _:
            numbers = {*range(len(found))}
    if len(numbers) == 1:
        (dispatch,) = numbers
    return Runnable(dispatch, {number: found[number] for number in sorted(numbers)})


def taken_arguments(runnable: Runnable, count: int) -> frozenset[int]:
    """Return the positions of a call's ``count`` arguments that a kernel of it may take."""
    taken: set[int] = set()
    for candidate in runnable.kernels.values():
        taken.update(range(count) if candidate.positions is None else candidate.positions)
    return frozenset(taken)


def run_by_calls(program: Program) -> frozenset[str]:
    """Return the names of the kernels that calls of a verified program may run."""
    definitions = {line.name: line for line in program.definitions}
    types = value_types(program)
    return frozenset(
        candidate.kernel.name
        for line in walk_lines(program.lines)
        if isinstance(line, KernelCallLine)
        for candidate in runnable_kernels(definitions, line, types).kernels.values()
    )


def _leaves(tree: Expr) -> Iterator[int]:
    stack = [tree]
    while stack:
        part = stack.pop()
        if isinstance(part, Operation):
            stack += part.args[1:]
        else:
            assert isinstance(part, int)  # verified
            yield part


def value_types(program: Program) -> dict[str, ValueType]:
    """Return the type of every value of a program, those of nested blocks included."""
    types: dict[str, ValueType] = {item.name: item.type for item in program.inputs}
    types.update({constant.name: constant.type for constant in program.constants})
    for line in walk_lines(program.lines):
        types.update(definitions(line))
        for block in blocks_of(line):
            types.update({item.name: item.type for item in block.parameters})
    return types
