"""Multi-kernels made from their kernels, and when two of them are the same."""

from collections.abc import Hashable, Mapping, Sequence

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
from wrapperir.ir.workspace import WorkspaceNeed, ZeroMode, combined_mode


def multi_kernel_line(
    kernels: Sequence[KernelDefinitionLine],
    *,
    name: str,
    positions: Sequence[Sequence[int]] | None,
    sizes: Mapping[str, tuple[str, int]],
    workspaces: Mapping[str, Mapping[str, tuple[Expr, ZeroMode]]],
    selection: Selection,
) -> MultiKernelLine:
    """Return a multi-kernel; arguments are as for ``ProgramBuilder.multi_kernel``.

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
        raise ValueError(f"{name} is not a parameter of {of}")
    return places[name]


def _check_workspaces(
    parameters: Sequence[RuntimeParameter], choices: Sequence[KernelChoice]
) -> None:
    """Check that one workspace a parameter does for all choices.

    Raises:
        ValueError: a need is of a scalar, or two choices need one in modes that do not
            combine.
    """
    askers: dict[int, tuple[str, ZeroMode]] = {}
    for choice in choices:
        for need in choice.workspaces:
            parameter = parameters[need.parameter]
            if not isinstance(parameter, TensorParameter):
                raise ValueError(f"{parameter.name} is a scalar, and no workspace")
            asker, known = askers.setdefault(need.parameter, (choice.kernel, need.mode))
            mode = combined_mode(known, need.mode)
            if mode is None:
                raise ValueError(
                    f"the choices @{asker} and @{choice.kernel} cannot share the workspace "
                    f"{parameter.name}: it is {known.value} for the one and "
                    f"{need.mode.value} for the other"
                )
            if mode is not known:
                askers[need.parameter] = (choice.kernel, mode)


def identity(line: MultiKernelLine) -> Hashable:
    """Return what two multi-kernels have in common that are one but for their names.

    These are parameters, sizes, the set of choices and how they are picked.  The order of
    the choices counts only where the same one would not be picked.  Expressions count as
    they are written.  Linear in the distinct parts of the line.
    """
    order = sorted(
        range(len(line.choices)),
        key=lambda index: (line.choices[index].kernel, line.choices[index].arguments),
    )
    ranks = {index: rank for rank, index in enumerate(order)}
    choices = tuple(
        (
            choice.kernel,
            choice.arguments,
            tuple((n.parameter, _written(n.count), n.mode) for n in choice.workspaces),
        )
        for choice in (line.choices[index] for index in order)
    )
    picked = _picked(line.selection, ranks)
    return (line.parameters, line.sizes, choices, type(line.selection), picked)


def _picked(selection: Selection, ranks: Mapping[int, int]) -> Hashable:
    """Return what tells a policy from others of its kind, with choices by their ranks."""
    match selection:
        case FirstChoice():
            return ranks.get(0)
        case ForcedChoice(index):
            return ranks.get(index, index)
        case RecordedChoice(index, times, device):
            if len(times) == len(ranks):
                times = tuple(times[index] for index in ranks)
            # tells 1 from 1.0, which == does not
            return (ranks.get(index, index), tuple(map(repr, times)), device)
        case NearestChoice(hints):
            return tuple((ranks.get(h.choice, h.choice), h.sizes) for h in hints)
        case ComputedChoice(index, device):
            return (_written(_tree_in_order(index, ranks, {})), device)
        case BenchmarkChoice():
            return None


def _tree_in_order(
    tree: Expr, ranks: Mapping[int, int], known: dict[int, Operation]
) -> Expr:
    """Return a decision tree over ranks; ``known`` has what parts became, by identity."""
    if type(tree) is int:
        return ranks.get(tree, tree)
    if isinstance(tree, Operation) and tree.op is ExprOp.WHERE and len(tree.args) == 3:
        if id(tree) not in known:
            condition, *branches = tree.args
            moved = (_tree_in_order(branch, ranks, known) for branch in branches)
            known[id(tree)] = Operation(ExprOp.WHERE, (condition, *moved))
        return known[id(tree)]
    return tree


def _written(expr: Expr) -> Hashable:
    """Return a key that expressions share if they are written the same.

    It has each operation once, its parts before it and by their numbers (hash-consing), so
    that an expression whose parts are shared costs its parts, not its paths.
    """
    numbers: dict[Hashable, int] = {}
    known: dict[int, int] = {}

    def part(of: Expr) -> Hashable:
        if not isinstance(of, Operation):
            return (type(of), repr(of))  # tells 1 from 1.0, and 0.0 from -0.0
        if id(of) not in known:
            form = (of.op, tuple(part(arg) for arg in of.args))
            known[id(of)] = numbers.setdefault(form, len(numbers))
        return known[id(of)]

    return (part(expr), tuple(numbers))
