"""The sizes and integer scalars of a call that a multi-kernel's policy may use."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from wrapperir.ir import (
    ComputedChoice,
    Expr,
    KernelSize,
    MultiKernelLine,
    Number,
    ScalarParameter,
    TensorType,
    evaluate_int,
    symbols_in,
)
from wrapperir.tuning.calls import Call


def with_sizes(line: MultiKernelLine, calls: Sequence[Call]) -> MultiKernelLine:
    """Return the multi-kernel with names for all sizes that distinguish its calls.

    These are sizes of tensor arguments that differ between the calls or are known only
    when the program runs.  A size that always equals a named one gets no name.
    """
    named = set(_named(line, calls))
    taken = {item.name for item in (*line.parameters, *line.sizes)}
    sizes = list(line.sizes)
    for at, parameter in enumerate(line.parameters):
        for dim in range(_rank(calls, at)):
            column = tuple(_size(call, at, dim) for call in calls)
            varies = len(set(column)) > 1 or not isinstance(column[0], int)
            if varies and column not in named:
                named.add(column)
                name = f"{parameter.name}_size{dim}"
                while name in taken:
                    name += "_"
                taken.add(name)
                sizes.append(KernelSize(name, at, dim))
    return evolve(line, sizes=tuple(sizes))


def with_used_sizes(line: MultiKernelLine, tuned: MultiKernelLine) -> MultiKernelLine:
    """Return a multi-kernel with the policy of ``tuned``, and the sizes that it uses.

    ``tuned`` is the same multi-kernel after :func:`with_sizes`.
    """
    used: frozenset[str] = frozenset()
    if isinstance(tuned.selection, ComputedChoice):
        used = frozenset(symbols_in(tuned.selection.index))
    added = (size for size in tuned.sizes[len(line.sizes) :] if size.name in used)
    return evolve(line, sizes=(*line.sizes, *added), selection=tuned.selection)


def values_at(
    line: MultiKernelLine, call: Call, symbols: Mapping[str, Number]
) -> dict[str, int]:
    """Return the sizes and integer scalars of a call, by the multi-kernel's names for them.

    Raises:
        EvaluationError: one has no value, or not an integer one.
    """
    values: dict[str, int] = {}
    for size in line.sizes:
        values[size.name] = evaluate_int(_size(call, size.parameter, size.dim), symbols)
    for parameter, argument in zip(line.parameters, call.arguments, strict=True):
        if isinstance(parameter, ScalarParameter) and not parameter.dtype.is_float:
            assert not isinstance(argument, TensorType)
            values[parameter.name] = evaluate_int(argument, symbols)
    return values


def _named(line: MultiKernelLine, calls: Sequence[Call]) -> Iterator[tuple[Expr, ...]]:
    """Yield, for each name, its value at each call."""
    for at, parameter in enumerate(line.parameters):
        if isinstance(parameter, ScalarParameter) and not parameter.dtype.is_float:
            yield tuple(_scalar(call, at) for call in calls)
    for size in line.sizes:
        yield tuple(_size(call, size.parameter, size.dim) for call in calls)


def _rank(calls: Sequence[Call], at: int) -> int:
    """Return the least rank of an argument over the calls; 0 for a scalar."""
    ranks = [
        len(argument.size) if isinstance(argument, TensorType) else 0
        for argument in (call.arguments[at] for call in calls)
    ]
    return min(ranks, default=0)


def _size(call: Call, at: int, dim: int) -> Expr:
    argument = call.arguments[at]
    assert isinstance(argument, TensorType)
    return argument.size[dim]


def _scalar(call: Call, at: int) -> Expr:
    argument = call.arguments[at]
    assert not isinstance(argument, TensorType)
    return argument
