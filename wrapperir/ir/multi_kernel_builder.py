"""Multi-kernels made from their kernels.

The arguments of the kernels become one list; multi-kernels that differ only in their names
are recognized.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from attrs import evolve, frozen

from wrapperir.ir.definition import KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.expr import Expr, Operation
from wrapperir.ir.expr_op import ExprOp
from wrapperir.ir.kernel import (
    Access,
    BufferParameter,
    DescriptorParameter,
    KernelChoice,
    KernelSize,
    RuntimeParameter,
    ScalarParameter,
    TensorParameter,
    WorkspaceNeed,
    ZeroMode,
    combined_mode,
    runtime_parameters,
)
from wrapperir.ir.names import FreshNames
from wrapperir.ir.selection import (
    BenchmarkChoice,
    ComputedChoice,
    FirstChoice,
    ForcedChoice,
    NearestChoice,
    RecordedChoice,
    Selection,
)

T = TypeVar("T", bound=Hashable)


@frozen
class ArgumentUnion(Generic[T]):
    """The arguments of several calls as one list.

    ``positions`` has a tuple for each call: where its arguments are in ``arguments``.
    """

    arguments: tuple[T, ...]
    positions: tuple[tuple[int, ...], ...]


def argument_union(calls: Sequence[Sequence[T]]) -> ArgumentUnion[T]:
    """Return the shortest list that has each call's arguments, each where it belongs.

    Repeated arguments are matched by occurrence, so an argument occurs as often as in the
    call that repeats it most.  The order is that of the first call; an argument that only
    a later call has comes after its predecessor there.  Numbers are the same only where
    their types are.  Linear in the arguments.
    """
    union: dict[_Key, T] = {}
    following: dict[_Key | None, _Key] = {}
    keyed: list[list[_Key]] = []
    for call in calls:
        seen: dict[object, int] = {}
        keys: list[_Key] = []
        before: _Key | None = None
        for argument in call:
            exact = _exact(argument)
            occurrence = seen[exact] = seen.get(exact, -1) + 1
            key = (exact, occurrence)
            if key not in union:
                union[key] = argument
                after = following.get(before)
                following[before] = key
                if after is not None:
                    following[key] = after
            keys.append(key)
            before = key
        keyed.append(keys)
    order: dict[_Key, int] = {}
    last = following.get(None)
    while last is not None:
        order[last] = len(order)
        last = following.get(last)
    return ArgumentUnion(
        tuple(union[key] for key in order),
        tuple(tuple(order[key] for key in keys) for keys in keyed),
    )


_Key = tuple[object, int]
"""An argument, and the number of its earlier occurrences in the call."""


def _exact(argument: object) -> object:
    """Return a key that two arguments share only if no kernel can tell them apart."""
    if isinstance(argument, float):
        return (float, repr(argument))  # tells 0.0 from -0.0, and finds nan again
    if isinstance(argument, Operation):
        return (argument.op, *map(_exact, argument.args))
    return (argument.__class__, argument)


def union_parameters(
    kernels: Sequence[KernelDefinitionLine], positions: Sequence[Sequence[int]]
) -> tuple[RuntimeParameter, ...]:
    """Return the parameters of a multi-kernel of these kernels.

    ``positions`` has, for each kernel, the position of each of its runtime parameters in
    the result; every position is taken.  A parameter has the name that the first kernel
    gives it, with a number appended where an earlier parameter has that name.  It is read
    and written where one kernel reads and another writes it.

    Raises:
        ValueError: two kernels have parameters of other kinds, element types or blocks in
            one place.
    """
    merged: dict[int, RuntimeParameter] = {}
    givers: dict[int, str] = {}
    for kernel, places in zip(kernels, positions, strict=True):
        own = runtime_parameters(kernel.parameters)
        for parameter, place in zip(own, places, strict=True):
            first = givers.setdefault(place, kernel.name)
            known = merged.get(place, parameter)
            merged[place] = _merged(known, parameter, (first, kernel.name))
    names = FreshNames(parameter.name for parameter in merged.values())
    taken: set[str] = set()
    found: list[RuntimeParameter] = []
    for _, parameter in sorted(merged.items()):
        name = parameter.name
        if name in taken:
            name = names.new(None, f"{name}_")
        taken.add(name)
        found.append(evolve(parameter, name=name))
    return tuple(found)


def _merged(
    left: RuntimeParameter, right: RuntimeParameter, kernels: tuple[str, str]
) -> RuntimeParameter:
    if isinstance(left, TensorParameter) and isinstance(right, TensorParameter):
        access = left.access if left.access is right.access else Access.READ_WRITE
        left, right = evolve(left, access=access), evolve(right, access=access)
    if evolve(right, name=left.name) != left:
        raise ValueError(
            f"the parameter {left.name} of @{kernels[0]} is {_described(left)}, but "
            f"{right.name} of @{kernels[1]}, in its place, is {_described(right)}"
        )
    return left


def _described(parameter: RuntimeParameter) -> str:
    dtype = parameter.dtype.value
    match parameter:
        case ScalarParameter():
            return f"the scalar {dtype}"
        case BufferParameter():
            return f"a buffer of {dtype}"
        case DescriptorParameter(block=block):
            return f"a descriptor of blocks {block} of {dtype}"


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
    """Check that one workspace for each parameter suits all choices.

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
    """Return a key that multi-kernels share if they differ only in their names.

    It has the parameters, the sizes, the set of choices and the selection policy.  The
    order of the choices counts only where the policy would pick another kernel.
    Expressions are compared as written.  Linear in the distinct parts of the line.
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
    """Return the fields of a policy, with choices by their ranks."""
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
    """Return a decision tree over ranks; ``known`` has the new parts, by old identity."""
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
