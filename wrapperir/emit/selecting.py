"""Which kernels a call may run, and what decides between them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from wrapperir.ir.expr import (
    Expr,
    Number,
    Operation,
    settled_where,
    substitute,
)
from wrapperir.ir.line import (
    BufferRef,
    DefinitionLine,
    KernelArgument,
    KernelDefinitionLine,
    MultiKernelLine,
)
from wrapperir.ir.selection import (
    BenchmarkChoice,
    ComputedChoice,
    Hint,
    NearestChoice,
    choose,
    settled_choice,
)
from wrapperir.ir.types import TensorType, ValueType


@frozen
class Candidate:
    """A kernel that a call may run.

    ``positions`` are those of the call's arguments that it takes, ``None`` where it takes
    all of them in order.
    """

    kernel: KernelDefinitionLine
    positions: tuple[int, ...] | None


@frozen
class NearestAt:
    """A choice by hints, at a call: ``sizes`` are the call's, in the order of theirs."""

    hints: tuple[Hint, ...]
    sizes: tuple[Expr, ...]


@frozen
class ComputedAt:
    """A choice by a decision tree, at a call: ``index`` is over the program's symbols."""

    index: Operation


Dispatch: TypeAlias = int | BenchmarkChoice | NearestAt | ComputedAt
"""What decides at a call: the choice itself where it is known before the program runs."""


def candidates(
    definitions: Mapping[str, DefinitionLine], name: str
) -> tuple[Candidate, ...]:
    """Return the kernels that calls of ``name`` may run.

    These are all choices of a multi-kernel, in order, or the one that its policy always
    takes; and of a kernel itself.

    Raises:
        KeyError: no kernel has that name.
    """
    definition = definitions[name]
    if isinstance(definition, KernelDefinitionLine):
        return (Candidate(definition, None),)
    choices = definition.choices
    settled = settled_choice(definition.selection)
    if settled is not None:
        choices = choices[settled : settled + 1]
    in_order = tuple(range(len(definition.parameters)))
    found: list[Candidate] = []
    for choice in choices:
        kernel = definitions[choice.kernel]
        assert isinstance(kernel, KernelDefinitionLine)
        positions = choice.arguments
        found.append(Candidate(kernel, None if positions == in_order else positions))
    return tuple(found)


def dispatch_at(
    line: MultiKernelLine,
    arguments: Sequence[KernelArgument],
    types: Mapping[str, ValueType],
) -> Dispatch:
    """Return what decides at a call with these arguments, of these types.

    An ``int`` is a position in the choices of ``line``.
    """
    settled = settled_choice(line.selection)
    if settled is not None:
        return settled
    match line.selection:
        case NearestChoice(hints):
            known = sizes_at(line, arguments, types)
            sizes = tuple(known[size.name] for size in line.sizes)
            numbers = [size for size in sizes if isinstance(size, int)]
            if len(numbers) == len(sizes):
                return choose(line.selection, numbers, {})
            return NearestAt(hints, sizes)
        case ComputedChoice(index):
            tree = settled_where(substitute(index, sizes_at(line, arguments, types)))
            return ComputedAt(tree) if isinstance(tree, Operation) else int(_number(tree))
        case _:
            return BenchmarkChoice()


def sizes_at(
    line: MultiKernelLine,
    arguments: Sequence[KernelArgument],
    types: Mapping[str, ValueType],
) -> dict[str, Expr]:
    """Return what a multi-kernel's sizes and scalar parameters are at a call.

    ``types`` are those of the program's values, by name.
    """
    known: dict[str, Expr] = {}
    for parameter, argument in zip(line.parameters, arguments, strict=True):
        if not isinstance(argument, BufferRef):
            known[parameter.name] = argument
    for size in line.sizes:
        argument = arguments[size.parameter]
        assert isinstance(argument, BufferRef)
        type = types[argument.name]
        assert isinstance(type, TensorType)
        known[size.name] = type.size[size.dim]
    return known


def _number(tree: Expr) -> Number:
    assert isinstance(tree, int | float)
    return tree
