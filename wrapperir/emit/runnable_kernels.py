"""The kernels that each call of a program may run, and the rule that picks one."""

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from attrs import evolve, frozen

from wrapperir.ir import (
    BenchmarkChoice,
    Block,
    BodyLine,
    BufferRef,
    ComputedChoice,
    DefinitionLine,
    Expr,
    Hint,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    NearestChoice,
    Number,
    Operation,
    Program,
    TensorParameter,
    TensorType,
    ValueType,
    choose,
    runtime_parameters,
    settled_choice,
    settled_where,
    substitute,
)
from wrapperir.ir.blocks import blocks_of, rewrite_blocks, walk_lines
from wrapperir.ir.effects import definitions

T = TypeVar("T")
Argument = TypeVar("Argument", bound=Hashable)


@frozen
class Candidate:
    """A kernel that a call may run.

    ``positions`` are the call's arguments that it takes, by number; ``None`` where it takes
    all of them in order.
    """

    kernel: KernelDefinitionLine
    positions: tuple[int, ...] | None

    def take(self, arguments: Sequence[T]) -> tuple[T, ...]:
        """Return the arguments of a call that the kernel takes."""
        if self.positions is None:
            return tuple(arguments)
        return tuple([arguments[position] for position in self.positions])


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
"""The rule that picks a call's kernel; an ``int`` is a choice known before the run."""


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
    """Return the rule that picks the kernel of a call with these arguments.

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
    """Return the values of a multi-kernel's sizes and scalar parameters at a call.

    ``types`` are the types of the program's values, by name.
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


@frozen
class Runnable:
    """The rule that picks a call's kernel, and the kernels that it may run, by choice.

    ``dispatch`` is the only number where there is one.
    """

    dispatch: Dispatch
    kernels: Mapping[int, Candidate]


def runnable_kernels(
    kernels: Mapping[str, DefinitionLine],
    line: KernelCallLine,
    types: Mapping[str, ValueType],
) -> Runnable:
    """Return the kernels that a call may run; ``types`` are the types of all values."""
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


def choice_reason(line: MultiKernelLine) -> str:
    """Return the reason that the log of choices gives for one by sizes or numbers."""
    if isinstance(line.selection, ComputedChoice) and line.selection.device:
        return f"computed from times on {line.selection.device}"
    return "the nearest hint" if isinstance(line.selection, NearestChoice) else "computed"


def taken_arguments(runnable: Runnable, count: int) -> frozenset[int]:
    """Return the positions of a call's ``count`` arguments that a kernel of it may take."""
    taken: set[int] = set()
    for candidate in runnable.kernels.values():
        taken.update(candidate.take(range(count)))
    return frozenset(taken)


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
    """Return the type of every value of a program, in nested blocks too."""
    types: dict[str, ValueType] = {item.name: item.type for item in program.inputs}
    types.update({constant.name: constant.type for constant in program.constants})
    for line in walk_lines(program.lines):
        types.update(definitions(line))
        for block in blocks_of(line):
            types.update({item.name: item.type for item in block.parameters})
    return types


def resolve_multi_kernels(program: Program) -> Program:
    """Return a verified program whose calls name the kernels that they run.

    Where only the run knows the choice of a multi-kernel, that is the first of those that
    the call may run: all choices do the same.  Choices that no call runs are left out.
    """
    multi_kernels = [x for x in program.definitions if isinstance(x, MultiKernelLine)]
    if not multi_kernels:
        return program
    known = {line.name: line for line in program.definitions}
    lines = _settled(program.lines, known, value_types(program))
    called = {x.kernel for x in walk_lines(lines) if isinstance(x, KernelCallLine)}
    idle = {choice.kernel for x in multi_kernels for choice in x.choices} - called
    kernels = tuple(
        line
        for line in program.definitions
        if isinstance(line, KernelDefinitionLine) and line.name not in idle
    )
    return evolve(program, definitions=kernels, lines=lines)


def _settled(
    lines: tuple[BodyLine, ...],
    known: Mapping[str, DefinitionLine],
    types: Mapping[str, ValueType],
) -> tuple[BodyLine, ...]:
    def block(given: Block) -> Block:
        return evolve(given, lines=_settled(given.lines, known, types))

    return tuple(
        [
            _call(line, known, types)
            if isinstance(line, KernelCallLine)
            else rewrite_blocks(line, block)
            for line in lines
        ]
    )


def _call(
    line: KernelCallLine,
    known: Mapping[str, DefinitionLine],
    types: Mapping[str, ValueType],
) -> KernelCallLine:
    kernels = runnable_kernels(known, line, types).kernels
    chosen = kernels[min(kernels)]
    if chosen.kernel.name == line.kernel:
        return line
    arguments = chosen.take(line.arguments)
    return evolve(line, kernel=chosen.kernel.name, arguments=arguments)


def kernel_digest(line: KernelDefinitionLine) -> str:
    """Return the SHA-256 of all of a definition but its name and where it is from.

    That is its language, source, entry, parameters, constants, configs, grid and metadata:
    what decides how fast it is, beside its arguments and the machine.
    """
    told = repr(evolve(line, name="", provenance=None))
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def updated_arguments(
    kernels: Iterable[tuple[KernelDefinitionLine, Sequence[Argument]]],
    zeroed: Iterable[Argument] = (),
) -> frozenset[Argument]:
    """Return the arguments that a run of any of the kernels may change for a later one.

    Each kernel comes with its arguments, one a runtime parameter.  The result includes
    every argument that one kernel reads and another, or the same, writes; and every
    argument in ``zeroed``, which must begin as zeros, that any kernel writes.
    """
    reads: set[Argument] = set(zeroed)
    writes: set[Argument] = set()
    for kernel, arguments in kernels:
        parameters = runtime_parameters(kernel.parameters)
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(parameter, TensorParameter):
                if parameter.access.reads:
                    reads.add(argument)
                if parameter.access.writes:
                    writes.add(argument)
    return frozenset(reads & writes)
