"""Multi-kernels made from their kernels, and when two of them are the same."""

from collections.abc import Hashable, Mapping, Sequence

from attrs import evolve

from wrapperir.ir.argument_union import argument_union, union_parameters
from wrapperir.ir.expr import Expr, ExprOp, Operation
from wrapperir.ir.kernel import (
    KernelChoice,
    KernelSize,
    RuntimeParameter,
    TensorParameter,
    runtime_parameters,
)
from wrapperir.ir.line import KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.selection import (
    BenchmarkChoice,
    ComputedChoice,
    FirstChoice,
    ForcedChoice,
    NearestChoice,
    RecordedChoice,
    Selection,
)
from wrapperir.ir.types import CPU
from wrapperir.ir.workspace import Workspace, WorkspaceNeed, ZeroMode, merged_workspaces


def multi_kernel_line(
    kernels: Sequence[KernelDefinitionLine],
    *,
    name: str,
    positions: Sequence[Sequence[int]] | None,
    sizes: Mapping[str, tuple[str, int]],
    workspaces: Mapping[str, Mapping[str, tuple[Expr, ZeroMode]]],
    selection: Selection,
) -> MultiKernelLine:
    """Return a multi-kernel; the arguments are those of ``ProgramBuilder.multi_kernel``.

    Raises:
        ValueError: kernels disagree about a parameter or a workspace, or a name that is
            given is none of theirs.
    """
    own = [runtime_parameters(kernel.parameters) for kernel in kernels]
    if positions is None:
        positions = argument_union([[p.name for p in each] for each in own]).positions
    parameters = union_parameters(kernels, positions)
    places = {parameter.name: place for place, parameter in enumerate(parameters)}
    strangers = workspaces.keys() - {kernel.name for kernel in kernels}
    if strangers:
        raise ValueError(f"workspaces of @{min(strangers)}, which is none of the kernels")
    choices: list[KernelChoice] = []
    for kernel, runtime, taken in zip(kernels, own, positions, strict=True):
        at = {p.name: place for p, place in zip(runtime, taken, strict=True)}
        needs = [
            WorkspaceNeed(_place(at, of, f"@{kernel.name}"), count, mode)
            for of, (count, mode) in workspaces.get(kernel.name, {}).items()
        ]
        choices.append(KernelChoice(kernel.name, tuple(taken), tuple(needs)))
    _check_workspaces(parameters, choices)
    return MultiKernelLine(
        name=name,
        parameters=parameters,
        sizes=tuple(
            KernelSize(size, _place(places, of, "the multi-kernel"), dim)
            for size, (of, dim) in sizes.items()
        ),
        choices=tuple(choices),
        selection=selection,
    )


def _place(places: Mapping[str, int], name: str, of: str) -> int:
    if name not in places:
        raise ValueError(f"{name} is no parameter of {of}")
    return places[name]


def _check_workspaces(
    parameters: Sequence[RuntimeParameter], choices: Sequence[KernelChoice]
) -> None:
    """Check that one workspace a parameter does for all choices."""
    wanted: list[tuple[str, Workspace]] = []
    for choice in choices:
        for need in choice.workspaces:
            parameter = parameters[need.parameter]
            if not isinstance(parameter, TensorParameter):
                raise ValueError(f"{parameter.name} is a scalar, and no workspace")
            workspace = Workspace(
                parameter.name, need.count, need.mode, parameter.dtype, CPU
            )
            wanted.append((choice.kernel, workspace))
    merged_workspaces(wanted)


def identity(line: MultiKernelLine) -> Hashable:
    """Return what two multi-kernels have in common that are one but for their names.

    These are parameters, sizes, the set of choices and how they are picked.  The order of
    the choices counts only where the same one would not be picked.
    """
    order = sorted(range(len(line.choices)), key=lambda index: repr(line.choices[index]))
    ranks = {index: rank for rank, index in enumerate(order)}
    choices = tuple(line.choices[index] for index in order)
    return (
        line.parameters,
        line.sizes,
        choices,
        type(line.selection),
        repr(_in_order(line.selection, ranks)),  # tells 1 from 1.0, which == does not
    )


def _in_order(selection: Selection, ranks: Mapping[int, int]) -> Selection:
    """Return a selection, or what it comes to, with the choices in another order."""
    match selection:
        case FirstChoice():
            return ForcedChoice(ranks.get(0, 0))
        case ForcedChoice(index):
            return ForcedChoice(ranks.get(index, index))
        case RecordedChoice(index, times):
            moved = times
            if len(times) == len(ranks):
                by_rank = {rank: times[index] for index, rank in ranks.items()}
                moved = tuple(by_rank[rank] for rank in range(len(ranks)))
            return evolve(selection, index=ranks.get(index, index), microseconds=moved)
        case NearestChoice(hints):
            return NearestChoice(
                tuple(evolve(h, choice=ranks.get(h.choice, h.choice)) for h in hints)
            )
        case ComputedChoice(index):
            return evolve(selection, index=_tree_in_order(index, ranks))
        case BenchmarkChoice():
            return selection


def _tree_in_order(tree: Expr, ranks: Mapping[int, int]) -> Expr:
    if isinstance(tree, int):
        return ranks.get(tree, tree)
    if isinstance(tree, Operation) and tree.op is ExprOp.WHERE and len(tree.args) == 3:
        condition, yes, no = tree.args
        branches = (_tree_in_order(yes, ranks), _tree_in_order(no, ranks))
        return Operation(ExprOp.WHERE, (condition, *branches))
    return tree
