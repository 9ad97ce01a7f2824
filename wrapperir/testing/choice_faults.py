"""Faults of multi-kernels: selection policies, choices and their workspaces."""

from collections.abc import Callable, Iterator
from random import Random

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing.injection import (
    Faulty,
    Injector,
    added_definition,
    at_line,
    choose,
    definition_fault,
    definitions_of,
    places_of,
    with_definition,
)

_ODD = "odd_size"


def _selection_fault(code: Code, select: Callable[[int], wir.Selection]) -> Injector:
    """Return an injector that changes a policy; ``select`` takes the number of choices."""
    return definition_fault(
        wir.MultiKernelLine,
        code,
        lambda line: evolve(line, selection=select(len(line.choices))),
        "selection",
    )


choice_index = _selection_fault(Code.CHOICE_INDEX, wir.ForcedChoice)
"""Force a choice that is not there."""

no_hints = _selection_fault(Code.INVALID_HINT, lambda _: wir.NearestChoice(()))
"""Pick by the nearest of no hints."""

_TREE = wir.Operation(
    wir.ExprOp.WHERE, (wir.compare(wir.ExprOp.LT, wir.Symbol(_ODD), 8), 0, 0)
)
unknown_size_in_tree = _selection_fault(
    Code.INVALID_TREE, lambda _: wir.ComputedChoice(_TREE)
)
"""Pick by a size that nothing names."""

extra_time = _selection_fault(
    Code.RECORDED_TIMES, lambda count: wir.RecordedChoice(0, (1.0,) * (count + 1))
)
"""Record one time more than there are choices."""


def _positions(
    line: wir.MultiKernelLine, wanted: Callable[[wir.Parameter], bool]
) -> list[int]:
    return [i for i, parameter in enumerate(line.parameters) if wanted(parameter)]


def _with_needs(
    line: wir.MultiKernelLine, *needs: wir.WorkspaceNeed
) -> wir.MultiKernelLine:
    """Return the multi-kernel with these needs of its first choice."""
    first, *others = line.choices
    return evolve(line, choices=(evolve(first, workspaces=needs), *others))


def _by_scalar_size(line: wir.MultiKernelLine) -> wir.MultiKernelLine:
    scalar = _positions(line, lambda p: isinstance(p, wir.ScalarParameter))[0]
    sizes = (wir.KernelSize(_ODD, scalar, 0), *line.sizes)
    return evolve(line, sizes=sizes, selection=wir.FirstChoice())


size_of_scalar = definition_fault(
    wir.MultiKernelLine, Code.SIZE_OF_NOTHING, _by_scalar_size, "sizes", 0
)
"""Name the size of a scalar parameter."""

repeated_choice = definition_fault(
    wir.MultiKernelLine,
    Code.REPEATED_CHOICE,
    lambda line: evolve(
        line, choices=(line.choices[0], *line.choices), selection=wir.BenchmarkChoice()
    ),
    *("choices", 1),
)
"""Have a choice twice."""


def _needing_read(line: wir.MultiKernelLine) -> wir.MultiKernelLine:
    reads = _positions(
        line, lambda p: isinstance(p, wir.TensorParameter) and not p.access.writes
    )
    need = wir.WorkspaceNeed(reads[0], 1, wir.ZeroMode.UNINITIALIZED)
    return _with_needs(line, *line.choices[0].workspaces, need)


need_of_read = definition_fault(
    wir.MultiKernelLine, Code.WORKSPACE_NEED, _needing_read, "choices", 0
)
"""Need a workspace that is only read."""


@Injector
def same_multi_kernel(program: wir.Program, rng: Random) -> Faulty:
    """Define a multi-kernel under another name, too."""
    _, line = choose(definitions_of(program, wir.MultiKernelLine), rng)
    again = evolve(line, name="the_same_again")
    return added_definition(program, Code.SAME_MULTI_KERNEL, again)


def _with_kernel(
    program: wir.Program,
    index: int,
    kernel: wir.KernelDefinitionLine,
    choice: wir.KernelChoice,
    code: Code,
) -> Faulty:
    """Define a kernel and have a multi-kernel choose it last, which is the fault."""
    line = program.definitions[index]
    assert isinstance(line, wir.MultiKernelLine)
    choices = (*line.choices, evolve(choice, kernel=_ODD))
    changed = evolve(line, choices=choices, selection=wir.BenchmarkChoice())
    before, after = program.definitions[:index], program.definitions[index + 1 :]
    definitions = (*before, evolve(kernel, name=_ODD), changed, *after)
    path = ("definitions", index + 1, "choices", len(line.choices))
    return Faulty(evolve(program, definitions=definitions), code, path)


def _kernel(program: wir.Program, choice: wir.KernelChoice) -> wir.KernelDefinitionLine:
    kernels = definitions_of(program, wir.KernelDefinitionLine)
    return next(line for _, line in kernels if line.name == choice.kernel)


_CLASHING = {
    wir.ZeroMode.ZERO_ON_CALL: wir.ZeroMode.ZERO_PER_PROGRAM,
    wir.ZeroMode.ZERO_PER_PROGRAM: wir.ZeroMode.UNINITIALIZED,
}


@Injector
def clashing_modes(program: wir.Program, rng: Random) -> Faulty:
    """Add a choice that needs a workspace in a mode that does not combine."""
    needs = (
        (index, choice, need)
        for index, line in definitions_of(program, wir.MultiKernelLine)
        for choice in line.choices
        for need in choice.workspaces
        if need.mode in _CLASHING
    )
    index, choice, need = choose(needs, rng)
    clashing = evolve(choice, workspaces=(evolve(need, mode=_CLASHING[need.mode]),))
    kernel = _kernel(program, choice)
    return _with_kernel(program, index, kernel, clashing, Code.WORKSPACE_MODES)


@Injector
def unwritten_by_choice(program: wir.Program, rng: Random) -> Faulty:
    """Add a choice that writes nothing."""
    index, line = choose(definitions_of(program, wir.MultiKernelLine), rng)
    first = line.choices[0]
    kernel = _kernel(program, first)

    def is_kept(parameter: wir.Parameter) -> bool:
        return not (isinstance(parameter, wir.TensorParameter) and parameter.access.writes)

    taken = zip(wir.runtime_parameters(kernel.parameters), first.arguments, strict=True)
    arguments = tuple(at for parameter, at in taken if is_kept(parameter))
    kernel = evolve(kernel, parameters=tuple(filter(is_kept, kernel.parameters)))
    choice = wir.KernelChoice(kernel.name, arguments)
    return _with_kernel(program, index, kernel, choice, Code.CHOICE_MISMATCH)


def _called_once(program: wir.Program) -> Iterator[tuple[int, int, wir.MultiKernelLine]]:
    """Yield the multi-kernels that one line calls: that line's index, and their own."""
    lines = walk_lines(program.lines)
    calls = [line.kernel for line in lines if isinstance(line, wir.KernelCallLine)]
    for at, call in places_of(program, wir.KernelCallLine):
        for index, line in definitions_of(program, wir.MultiKernelLine):
            if line.name == call.kernel and calls.count(line.name) == 1:
                yield at, index, line


def _call_fault(
    code: Code, change: Callable[[wir.MultiKernelLine, Random], wir.MultiKernelLine | None]
) -> Injector:
    """Return an injector that changes a multi-kernel so that its one call is at fault.

    ``change`` returns ``None`` for a multi-kernel without a place for the fault.
    """

    def inject(program: wir.Program, rng: Random) -> Faulty:
        options = (
            (at, index, changed)
            for at, index, line in _called_once(program)
            if (changed := change(line, rng)) is not None
        )
        at, index, changed = choose(options, rng)
        return at_line(with_definition(program, index, changed), code, at)

    return Injector(inject)


def _by_missing_dimension(line: wir.MultiKernelLine, rng: Random) -> wir.MultiKernelLine:
    tensors = _positions(line, lambda p: isinstance(p, wir.TensorParameter))
    sizes = (*line.sizes, wir.KernelSize(_ODD, rng.choice(tensors), 9))
    return evolve(line, sizes=sizes, selection=wir.BenchmarkChoice())


missing_dimension = _call_fault(Code.SIZE_DIMENSION, _by_missing_dimension)
"""Pick by a dimension that the argument of a call does not have."""


def _leaving_bytes(line: wir.MultiKernelLine, _: Random) -> wir.MultiKernelLine | None:
    needs = line.choices[0].workspaces
    if not needs or needs[0].mode is not wir.ZeroMode.ZERO_PER_PROGRAM:
        return None
    return _with_needs(line, evolve(needs[0], mode=wir.ZeroMode.UNINITIALIZED), *needs[1:])


no_workspace = _call_fault(Code.WORKSPACE_ARGUMENT, _leaving_bytes)
"""Leave any bytes in a workspace that a call gives, and that is kept zero."""


def _needing_more(line: wir.MultiKernelLine, _: Random) -> wir.MultiKernelLine | None:
    needed = {need.parameter for choice in line.choices for need in choice.workspaces}
    written = _positions(
        line, lambda p: isinstance(p, wir.TensorParameter) and p.access.writes
    )
    for position in written:
        if position not in needed and all(position in c.arguments for c in line.choices):
            need = wir.WorkspaceNeed(position, 10**9, wir.ZeroMode.UNINITIALIZED)
            return _with_needs(line, *line.choices[0].workspaces, need)
    return None


small_workspace = _call_fault(Code.WORKSPACE_ARGUMENT, _needing_more)
"""Need more of a workspace than a call gives."""
