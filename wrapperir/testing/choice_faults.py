"""Faults of multi-kernels, of how they pick, and of workspaces that choices need."""

import random
from collections.abc import Callable, Iterator

from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    BenchmarkChoice,
    ComputedChoice,
    ExprOp,
    FirstChoice,
    ForcedChoice,
    KernelCallLine,
    KernelChoice,
    KernelDefinitionLine,
    KernelSize,
    MultiKernelLine,
    NearestChoice,
    Operation,
    Program,
    RecordedChoice,
    ScalarParameter,
    Selection,
    Symbol,
    TensorParameter,
    WorkspaceNeed,
    ZeroMode,
    compare,
    runtime_parameters,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing.injection import Faulty, at_line, choose, places_of

_ODD = "odd_size"


def _multi_kernels(program: Program) -> Iterator[tuple[int, MultiKernelLine]]:
    for index, line in enumerate(program.definitions):
        if isinstance(line, MultiKernelLine):
            yield index, line


def _change(
    program: Program,
    rng: random.Random,
    code: Code,
    part: tuple[str | int, ...],
    change: Callable[[MultiKernelLine], MultiKernelLine],
) -> Faulty | None:
    """Change a multi-kernel; the fault is in a part of it."""
    found = choose(_multi_kernels(program), rng)
    if found is None:
        return None
    index, line = found
    changed = _with_definition(program, index, change(line))
    return Faulty(changed, code, ("definitions", index, *part))


def _with_definition(program: Program, index: int, line: MultiKernelLine) -> Program:
    definitions = list(program.definitions)
    definitions[index] = line
    return evolve(program, definitions=tuple(definitions))


def _select(
    program: Program, rng: random.Random, code: Code, select: Callable[[int], Selection]
) -> Faulty | None:
    """Have a multi-kernel pick in another way, made of how many choices it has."""

    def change(line: MultiKernelLine) -> MultiKernelLine:
        return evolve(line, selection=select(len(line.choices)))

    return _change(program, rng, code, ("selection",), change)


def choice_index(program: Program, rng: random.Random) -> Faulty | None:
    """Force a choice that is not there."""
    return _select(program, rng, Code.CHOICE_INDEX, ForcedChoice)


def no_hints(program: Program, rng: random.Random) -> Faulty | None:
    """Pick by the nearest of no hints."""
    return _select(program, rng, Code.INVALID_HINT, lambda _: NearestChoice(()))


def unknown_size_in_tree(program: Program, rng: random.Random) -> Faulty | None:
    """Pick by a size that nothing names."""
    condition = compare(ExprOp.LT, Symbol(_ODD), 8)
    tree = Operation(ExprOp.WHERE, (condition, 0, 0))
    return _select(program, rng, Code.INVALID_TREE, lambda _: ComputedChoice(tree))


def extra_time(program: Program, rng: random.Random) -> Faulty | None:
    """Record one time more than there are choices."""
    return _select(
        program,
        rng,
        Code.RECORDED_TIMES,
        lambda count: RecordedChoice(0, (1.0,) * (count + 1)),
    )


def size_of_scalar(program: Program, rng: random.Random) -> Faulty | None:
    """Name the size of a scalar parameter."""

    def change(line: MultiKernelLine) -> MultiKernelLine:
        scalar = next(
            i for i, p in enumerate(line.parameters) if isinstance(p, ScalarParameter)
        )
        sizes = (KernelSize(_ODD, scalar, 0), *line.sizes)
        return evolve(line, sizes=sizes, selection=FirstChoice())

    return _change(program, rng, Code.SIZE_OF_NOTHING, ("sizes", 0), change)


def repeated_choice(program: Program, rng: random.Random) -> Faulty | None:
    """Have a choice twice."""

    def change(line: MultiKernelLine) -> MultiKernelLine:
        choices = (line.choices[0], *line.choices)
        return evolve(line, choices=choices, selection=BenchmarkChoice())

    return _change(program, rng, Code.REPEATED_CHOICE, ("choices", 1), change)


def need_of_read(program: Program, rng: random.Random) -> Faulty | None:
    """Need a workspace that is only read."""

    def change(line: MultiKernelLine) -> MultiKernelLine:
        read = next(
            i
            for i, p in enumerate(line.parameters)
            if isinstance(p, TensorParameter) and not p.access.writes
        )
        need = WorkspaceNeed(read, 1, ZeroMode.UNINITIALIZED)
        needs = (*line.choices[0].workspaces, need)
        first = evolve(line.choices[0], workspaces=needs)
        return evolve(line, choices=(first, *line.choices[1:]))

    return _change(program, rng, Code.WORKSPACE_NEED, ("choices", 0), change)


def _written(line: MultiKernelLine) -> int | None:
    """Return the position of a buffer that every choice writes and none has a need of."""
    for position, parameter in enumerate(line.parameters):
        if (
            isinstance(parameter, TensorParameter)
            and parameter.access.writes
            and all(position in choice.arguments for choice in line.choices)
            and not any(n.parameter == position for c in line.choices for n in c.workspaces)
        ):
            return position
    return None


def _with_kernel(
    program: Program,
    index: int,
    kernel: KernelDefinitionLine,
    choice: KernelChoice,
    code: Code,
) -> Faulty:
    """Define a kernel and have a multi-kernel choose it last, which is the fault."""
    line = program.definitions[index]
    assert isinstance(line, MultiKernelLine)
    kernel = evolve(kernel, name=_ODD)
    choices = (*line.choices, evolve(choice, kernel=_ODD))
    changed = evolve(line, choices=choices, selection=BenchmarkChoice())
    before, after = program.definitions[:index], program.definitions[index + 1 :]
    path = ("definitions", index + 1, "choices", len(line.choices))
    return Faulty(
        evolve(program, definitions=(*before, kernel, changed, *after)), code, path
    )


def _kernel(program: Program, choice: KernelChoice) -> KernelDefinitionLine:
    return next(
        line
        for line in program.definitions
        if isinstance(line, KernelDefinitionLine) and line.name == choice.kernel
    )


_CLASHING = {
    ZeroMode.ZERO_ON_CALL: ZeroMode.ZERO_PER_PROGRAM,
    ZeroMode.ZERO_PER_PROGRAM: ZeroMode.UNINITIALIZED,
}


def clashing_modes(program: Program, rng: random.Random) -> Faulty | None:
    """Add a choice that needs a workspace in a mode that does not combine."""
    options = [
        (index, choice, need)
        for index, line in _multi_kernels(program)
        for choice in line.choices
        for need in choice.workspaces
        if need.mode in _CLASHING
    ]
    found = choose(iter(options), rng)
    if found is None:
        return None
    index, choice, need = found
    clashing = evolve(choice, workspaces=(evolve(need, mode=_CLASHING[need.mode]),))
    kernel = _kernel(program, choice)
    return _with_kernel(program, index, kernel, clashing, Code.WORKSPACE_MODES)


def unwritten_by_choice(program: Program, rng: random.Random) -> Faulty | None:
    """Add a choice that writes nothing."""
    found = choose(_multi_kernels(program), rng)
    if found is None:
        return None
    index, line = found
    first = line.choices[0]
    kernel = _kernel(program, first)
    taken = zip(runtime_parameters(kernel.parameters), first.arguments, strict=True)
    written = {
        parameter.name
        for parameter in kernel.parameters
        if isinstance(parameter, TensorParameter) and parameter.access.writes
    }
    arguments = tuple(at for parameter, at in taken if parameter.name not in written)
    parameters = tuple(p for p in kernel.parameters if p.name not in written)
    return _with_kernel(
        program,
        index,
        evolve(kernel, parameters=parameters),
        KernelChoice(kernel.name, arguments),
        Code.CHOICE_MISMATCH,
    )


def same_multi_kernel(program: Program, rng: random.Random) -> Faulty | None:
    """Define a multi-kernel under another name, too."""
    found = choose(_multi_kernels(program), rng)
    if found is None:
        return None
    again = evolve(found[1], name="the_same_again")
    path = ("definitions", len(program.definitions))
    changed = evolve(program, definitions=(*program.definitions, again))
    return Faulty(changed, Code.SAME_MULTI_KERNEL, path)


def _called_once(program: Program) -> Iterator[tuple[int, int, MultiKernelLine]]:
    """Yield the multi-kernels that one line calls: that line's index, and their own."""
    lines = walk_lines(program.lines)
    calls = [line.kernel for line in lines if isinstance(line, KernelCallLine)]
    for at, call in places_of(program, KernelCallLine):
        for index, line in _multi_kernels(program):
            if line.name == call.kernel and calls.count(line.name) == 1:
                yield at, index, line


def _change_called(
    program: Program,
    rng: random.Random,
    code: Code,
    change: Callable[[MultiKernelLine], MultiKernelLine | None],
) -> Faulty | None:
    """Change a multi-kernel so that its one call is at fault."""
    options = [
        (at, index, changed)
        for at, index, line in _called_once(program)
        if (changed := change(line)) is not None
    ]
    found = choose(iter(options), rng)
    if found is None:
        return None
    at, index, line = found
    return at_line(_with_definition(program, index, line), code, at)


def missing_dimension(program: Program, rng: random.Random) -> Faulty | None:
    """Pick by a dimension that the argument of a call does not have."""

    def change(line: MultiKernelLine) -> MultiKernelLine:
        tensors = [
            i for i, p in enumerate(line.parameters) if isinstance(p, TensorParameter)
        ]
        sizes = (*line.sizes, KernelSize(_ODD, rng.choice(tensors), 9))
        return evolve(line, sizes=sizes, selection=BenchmarkChoice())

    return _change_called(program, rng, Code.SIZE_DIMENSION, change)


def no_workspace(program: Program, rng: random.Random) -> Faulty | None:
    """Leave any bytes in a workspace that a call gives, and that is kept zero."""

    def change(line: MultiKernelLine) -> MultiKernelLine | None:
        first, *others = line.choices
        if not first.workspaces:
            return None
        need, *further = first.workspaces
        if need.mode is not ZeroMode.ZERO_PER_PROGRAM:
            return None
        needs = (evolve(need, mode=ZeroMode.UNINITIALIZED), *further)
        return evolve(line, choices=(evolve(first, workspaces=needs), *others))

    return _change_called(program, rng, Code.WORKSPACE_ARGUMENT, change)


def small_workspace(program: Program, rng: random.Random) -> Faulty | None:
    """Need more of a workspace than a call gives."""

    def change(line: MultiKernelLine) -> MultiKernelLine | None:
        position = _written(line)
        if position is None:
            return None
        first, *others = line.choices
        need = WorkspaceNeed(position, 10**9, ZeroMode.UNINITIALIZED)
        needs = (*first.workspaces, need)
        return evolve(line, choices=(evolve(first, workspaces=needs), *others))

    return _change_called(program, rng, Code.WORKSPACE_ARGUMENT, change)
