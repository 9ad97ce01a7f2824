"""The kernels that each call of a program may run, and the rule that picks one."""

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.ir.blocks import rewrite_blocks, walk_lines
from wrapperir.ir.line_effects import value_types

T = TypeVar("T")
ArgumentT = TypeVar("ArgumentT", bound=Hashable)


@frozen
class Candidate:
    """A kernel that a call may run.

    ``positions`` are the call's arguments that it takes, by number; ``None`` where it takes
    all of them in order.
    """

    kernel: wir.KernelDefinitionLine
    positions: tuple[int, ...] | None

    def take(self, arguments: Sequence[T]) -> tuple[T, ...]:
        """Return the arguments of a call that the kernel takes."""
        if self.positions is None:
            return tuple(arguments)
        return tuple([arguments[position] for position in self.positions])


@frozen
class NearestAt:
    """A choice by hints, at a call: ``sizes`` are the call's, in the order of theirs."""

    hints: tuple[wir.Hint, ...]
    sizes: tuple[wir.Expr, ...]


@frozen
class ComputedAt:
    """A choice by a decision tree, at a call: ``index`` is over the program's symbols."""

    index: wir.Operation


Dispatch: TypeAlias = int | wir.BenchmarkChoice | NearestAt | ComputedAt
"""The rule that picks a call's kernel; an ``int`` is a choice known before the run."""


def candidates(
    definitions: Mapping[str, wir.DefinitionLine], name: str
) -> tuple[Candidate, ...]:
    """Return the kernels that calls of ``name`` may run.

    These are all choices of a multi-kernel, in order, or the one that its policy always
    takes; and of a kernel itself.

    Raises:
        KeyError: no kernel has that name.
    """
    definition = definitions[name]
    if isinstance(definition, wir.KernelDefinitionLine):
        return (Candidate(definition, None),)
    choices = definition.choices
    settled = wir.settled_choice(definition.selection)
    if settled is not None:
        choices = choices[settled : settled + 1]
    in_order = tuple(range(len(definition.parameters)))
    found: list[Candidate] = []
    for choice in choices:
        kernel = definitions[choice.kernel]
        assert isinstance(kernel, wir.KernelDefinitionLine)
        positions = choice.arguments
        found.append(Candidate(kernel, None if positions == in_order else positions))
    return tuple(found)


def dispatch_at(
    line: wir.MultiKernelLine,
    arguments: Sequence[wir.KernelArgument],
    types: Mapping[str, wir.ValueType],
) -> Dispatch:
    """Return the rule that picks the kernel of a call with these arguments.

    An ``int`` is a position in the choices of ``line``.
    """
    settled = wir.settled_choice(line.selection)
    if settled is not None:
        return settled
    match line.selection:
        case wir.NearestChoice(hints):
            known = sizes_at(line, arguments, types)
            sizes = tuple(known[size.name] for size in line.sizes)
            numbers = [size for size in sizes if isinstance(size, int)]
            if len(numbers) == len(sizes):
                return wir.choose(line.selection, numbers, {})
            return NearestAt(hints, sizes)
        case wir.ComputedChoice(index):
            tree = wir.settled_where(
                wir.substitute(index, sizes_at(line, arguments, types))
            )
            return (
                ComputedAt(tree) if isinstance(tree, wir.Operation) else int(_number(tree))
            )
        case (
            wir.BenchmarkChoice()
            | wir.FirstChoice()
            | wir.ForcedChoice()
            | wir.RecordedChoice()
        ):
            return wir.BenchmarkChoice()  # the last three are settled


def sizes_at(
    line: wir.MultiKernelLine,
    arguments: Sequence[wir.KernelArgument],
    types: Mapping[str, wir.ValueType],
) -> dict[str, wir.Expr]:
    """Return the values of a multi-kernel's sizes and scalar parameters at a call.

    ``types`` are the types of the program's values, by name.
    """
    known: dict[str, wir.Expr] = {}
    for parameter, argument in zip(line.parameters, arguments, strict=True):
        if not isinstance(argument, wir.BufferRef):
            known[parameter.name] = argument
    for size in line.sizes:
        argument = arguments[size.parameter]
        assert isinstance(argument, wir.BufferRef)
        type = types[argument.name]
        assert isinstance(type, wir.TensorType)
        known[size.name] = type.size[size.dim]
    return known


def _number(tree: wir.Expr) -> wir.Number:
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
    kernels: Mapping[str, wir.DefinitionLine],
    line: wir.KernelCallLine,
    types: Mapping[str, wir.ValueType],
) -> Runnable:
    """Return the kernels that a call may run; ``types`` are the types of all values."""
    definition = kernels[line.kernel]
    found = candidates(kernels, line.kernel)
    if len(found) == 1 or not isinstance(definition, wir.MultiKernelLine):
        return Runnable(0, {0: found[0]})
    dispatch = dispatch_at(definition, line.arguments, types)
    match dispatch:
        case int():
            numbers = {dispatch}
        case NearestAt(hints):
            numbers = {hint.choice for hint in hints}
        case ComputedAt(index):
            numbers = {*_leaves(index)}
        case wir.BenchmarkChoice():
            numbers = {*range(len(found))}
    if len(numbers) == 1:
        (dispatch,) = numbers
    return Runnable(dispatch, {number: found[number] for number in sorted(numbers)})


def choice_reason(line: wir.MultiKernelLine) -> str:
    """Return the reason that the log of choices gives for one by sizes or numbers."""
    if isinstance(line.selection, wir.ComputedChoice) and line.selection.device:
        return f"computed from times on {line.selection.device}"
    return (
        "the nearest hint" if isinstance(line.selection, wir.NearestChoice) else "computed"
    )


def taken_arguments(runnable: Runnable, count: int) -> frozenset[int]:
    """Return the positions of a call's ``count`` arguments that a kernel of it may take."""
    taken: set[int] = set()
    for candidate in runnable.kernels.values():
        taken.update(candidate.take(range(count)))
    return frozenset(taken)


def _leaves(tree: wir.Expr) -> Iterator[int]:
    stack = [tree]
    while stack:
        part = stack.pop()
        if isinstance(part, wir.Operation):
            stack += part.args[1:]
        else:
            assert isinstance(part, int)  # verified
            yield part


def resolve_multi_kernels(program: wir.Program) -> wir.Program:
    """Return a verified program whose calls name the kernels that they run.

    Where only the run knows the choice of a multi-kernel, that is the first of those that
    the call may run: all choices do the same.  Choices that no call runs are left out.
    """
    multi_kernels = [x for x in program.definitions if isinstance(x, wir.MultiKernelLine)]
    if not multi_kernels:
        return program
    known = {line.name: line for line in program.definitions}
    lines = _settled(program.lines, known, value_types(program))
    called = {x.kernel for x in walk_lines(lines) if isinstance(x, wir.KernelCallLine)}
    idle = {choice.kernel for x in multi_kernels for choice in x.choices} - called
    kernels = tuple(
        line
        for line in program.definitions
        if isinstance(line, wir.KernelDefinitionLine) and line.name not in idle
    )
    return evolve(program, definitions=kernels, lines=lines)


def _settled(
    lines: tuple[wir.BodyLine, ...],
    known: Mapping[str, wir.DefinitionLine],
    types: Mapping[str, wir.ValueType],
) -> tuple[wir.BodyLine, ...]:
    def block(given: wir.Block) -> wir.Block:
        return evolve(given, lines=_settled(given.lines, known, types))

    return tuple(
        [
            _call(line, known, types)
            if isinstance(line, wir.KernelCallLine)
            else rewrite_blocks(line, block)
            for line in lines
        ]
    )


def _call(
    line: wir.KernelCallLine,
    known: Mapping[str, wir.DefinitionLine],
    types: Mapping[str, wir.ValueType],
) -> wir.KernelCallLine:
    kernels = runnable_kernels(known, line, types).kernels
    chosen = kernels[min(kernels)]
    if chosen.kernel.name == line.kernel:
        return line
    arguments = chosen.take(line.arguments)
    return evolve(line, kernel=chosen.kernel.name, arguments=arguments)


def kernel_digest(line: wir.KernelDefinitionLine) -> str:
    """Return the SHA-256 of all of a definition but its name and where it is from.

    That is its language, source, entry, parameters, constants, configs, grid and metadata:
    what decides how fast it is, beside its arguments and the machine.
    """
    told = repr(evolve(line, name="", provenance=None))
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def updated_arguments(
    kernels: Iterable[tuple[wir.KernelDefinitionLine, Sequence[ArgumentT]]],
    zeroed: Iterable[ArgumentT] = (),
) -> frozenset[ArgumentT]:
    """Return the arguments that a run of any of the kernels may change for a later one.

    Each kernel comes with its arguments, one a runtime parameter.  The result includes
    every argument that one kernel reads and another, or the same, writes; and every
    argument in ``zeroed``, which must begin as zeros, that any kernel writes.
    """
    reads: set[ArgumentT] = set(zeroed)
    writes: set[ArgumentT] = set()
    for kernel, arguments in kernels:
        parameters = wir.runtime_parameters(kernel.parameters)
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(parameter, wir.TensorParameter):
                if parameter.access.reads:
                    reads.add(argument)
                if parameter.access.writes:
                    writes.add(argument)
    return frozenset(reads & writes)
