"""Selection policies of multi-kernels: each as data, and the rule that it follows."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union, get_args

from attrs import frozen

from wrapperir.ir.expr import (
    EvaluationError,
    Expr,
    Operation,
    evaluate,
    evaluate_int,
)
from wrapperir.ir.expr_op import ExprOp, Number


@frozen
class FirstChoice:
    """Always run the first kernel."""


@frozen
class ForcedChoice:
    """Always run the kernel at ``index``, because the program says so."""

    index: int


@frozen
class RecordedChoice:
    """Always run the kernel at ``index``, because an earlier measurement found it best.

    ``microseconds`` are the times of the choices, ``None`` for one that failed;
    ``device`` says where they were taken.  Both are for readers and change nothing.
    """

    index: int
    microseconds: tuple[float | None, ...] = ()
    device: str = ""


@frozen
class BenchmarkChoice:
    """Time each kernel at the first call, on copies of its arguments; run the fastest."""


@frozen
class Hint:
    """The sizes that a choice was made for, one for each of the multi-kernel's."""

    choice: int
    sizes: tuple[int, ...]


@frozen
class NearestChoice:
    """Run the choice of the hint that is nearest to the sizes of a call.

    See :func:`nearest`.
    """

    hints: tuple[Hint, ...]


@frozen
class ComputedChoice:
    """Run the kernel at ``index``, over the multi-kernel's scalar parameters and sizes.

    It is a decision tree: an ``int``, or ``where`` of a condition and two such trees.
    ``device`` says where the times were taken that it was made from.
    """

    index: Expr
    device: str = ""


Selection: TypeAlias = Union[
    FirstChoice,
    ForcedChoice,
    RecordedChoice,
    BenchmarkChoice,
    NearestChoice,
    ComputedChoice,
]
"""How a multi-kernel picks."""

SELECTIONS: tuple[type[Selection], ...] = get_args(Selection)
"""Every selection policy."""


def settled_choice(selection: Selection) -> int | None:
    """Return the choice of a policy that always takes the same; ``None`` of others."""
    match selection:
        case FirstChoice():
            return 0
        case ForcedChoice(index) | RecordedChoice(index) | ComputedChoice(int(index)):
            return index
        case BenchmarkChoice() | NearestChoice() | ComputedChoice():
            return None


def settled_where(expr: Expr) -> Expr:
    """Return a ``where``, or one inside of it, as the operand that a known condition takes.

    An expression whose value is known is that value.
    """
    try:
        return evaluate(expr, {})
    except EvaluationError:
        pass
    if not isinstance(expr, Operation) or expr.op is not ExprOp.WHERE:
        return expr
    condition, yes, no = expr.args
    try:
        return settled_where(yes if evaluate(condition, {}) else no)
    except EvaluationError:
        args = (condition, settled_where(yes), settled_where(no))
        return Operation(ExprOp.WHERE, args)


def choose(selection: Selection, sizes: Sequence[int], values: Mapping[str, Number]) -> int:
    """Return the choice for a call without timing anything.

    ``sizes`` has the call's value for each size of the multi-kernel, in order; ``values``
    has these and the scalar arguments, by name.  A choice by benchmark is the first one.

    Raises:
        EvaluationError: an expression of the policy has no value.
    """
    match selection:
        case NearestChoice(hints):
            return nearest(hints, sizes)
        case ComputedChoice(index):
            return evaluate_int(index, values)
        case FirstChoice() | ForcedChoice() | RecordedChoice() | BenchmarkChoice():
            return settled_choice(selection) or 0


def nearest(hints: Sequence[Hint], sizes: Sequence[int]) -> int:
    """Return the choice of the hint at the least distance; of several, of the first.

    The distance is the sum of ``|log2(size) - log2(hint)|`` over the sizes, where a size
    of 0 counts as a half.  It is compared by its power of two, the product from the left
    of each greater number over the smaller in binary64, which is the same number on every
    machine.
    """
    best, least = (hints[0].choice if hints else 0), float("inf")
    for hint in hints:
        ratio = 1.0
        for size, hinted in zip(sizes, hint.sizes, strict=True):
            low, high = sorted((float(size) or 0.5, float(hinted) or 0.5))
            ratio *= high / low
        if ratio < least:
            best, least = hint.choice, ratio
    return best
