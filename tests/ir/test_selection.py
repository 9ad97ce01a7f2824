"""The rules of selection policies, held against what they say they are."""

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from wrapperir.ir import (
    BenchmarkChoice,
    ComputedChoice,
    EvaluationError,
    ExprOp,
    FirstChoice,
    ForcedChoice,
    Hint,
    NearestChoice,
    Operation,
    RecordedChoice,
    Selection,
    Symbol,
    ZeroMode,
    choose,
    combined_mode,
    evaluate,
    nearest,
    settled_choice,
)
from wrapperir.ir.selection import SELECTIONS

NEAR = 1e-9
"""Relative difference of distances below which which is nearer may be rounded away."""

SIZE = st.integers(0, 9) | st.integers(0, 2**20) | st.integers(0, 2**63 - 1)
POWER = st.just(0) | st.integers(0, 40).map(lambda power: 2**power)


@st.composite
def cases(
    draw: st.DrawFn, size: st.SearchStrategy[int] = SIZE
) -> tuple[list[Hint], list[int]]:
    """Draw hints, of one choice each, and sizes to choose for."""
    rank = draw(st.integers(0, 4))
    sizes = st.lists(size, min_size=rank, max_size=rank)
    found = draw(st.lists(sizes, min_size=1, max_size=5))
    hints = [Hint(choice, tuple(hinted)) for choice, hinted in enumerate(found)]
    return hints, draw(sizes)


def ratio(hint: Hint, sizes: Sequence[int]) -> Fraction:
    """Return two to the power of the distance, exactly."""
    product = Fraction(1)
    for size, hinted in zip(sizes, hint.sizes, strict=True):
        one, other = (Fraction(n) or Fraction(1, 2) for n in (size, hinted))
        product *= max(one, other) / min(one, other)
    return product


def is_clear(hints: Sequence[Hint], sizes: Sequence[int]) -> bool:
    """Say whether one hint is nearer than all others by more than rounding."""
    ratios = sorted(ratio(hint, sizes) for hint in hints)
    return len(ratios) == 1 or ratios[1] > ratios[0] * (1 + Fraction(NEAR))


@given(cases())
@example(([Hint(0, (64, 64)), Hint(1, (4096, 4096))], [512, 511]))
def test_nearest_is_a_least_product_of_ratios(case: tuple[list[Hint], list[int]]) -> None:
    hints, sizes = case
    ratios = [ratio(hint, sizes) for hint in hints]
    assert ratios[nearest(hints, sizes)] <= min(ratios) * (1 + Fraction(NEAR))


@given(cases())
def test_nearest_is_the_least_sum_of_differences_of_log2(
    case: tuple[list[Hint], list[int]],
) -> None:
    hints, sizes = case
    assume(is_clear(hints, sizes))

    def distance(hint: Hint) -> float:
        pairs = zip(sizes, hint.sizes, strict=True)
        return math.fsum(abs(math.log2(a or 0.5) - math.log2(b or 0.5)) for a, b in pairs)

    assert nearest(hints, sizes) == min(hints, key=distance).choice


@given(cases(POWER))
def test_of_hints_at_one_distance_the_first_is_nearest(
    case: tuple[list[Hint], list[int]],
) -> None:
    """Ratios of powers of two are exact, so that ties are."""
    hints, sizes = case
    ratios = [ratio(hint, sizes) for hint in hints]
    assert nearest(hints, sizes) == ratios.index(min(ratios))


@given(cases())
def test_the_order_of_sizes_matters_by_rounding_only(
    case: tuple[list[Hint], list[int]],
) -> None:
    hints, sizes = case
    assume(is_clear(hints, sizes))
    for turn in range(len(sizes)):
        turned = [Hint(h.choice, h.sizes[turn:] + h.sizes[:turn]) for h in hints]
        assert nearest(turned, sizes[turn:] + sizes[:turn]) == nearest(hints, sizes)


@given(cases())
def test_the_order_of_hints_matters_for_ties_only(
    case: tuple[list[Hint], list[int]],
) -> None:
    hints, sizes = case
    assume(is_clear(hints, sizes))
    assert nearest(hints[::-1], sizes) == nearest(hints, sizes)


@given(cases())
def test_sizes_that_are_hinted_are_nearest_to_their_hint(
    case: tuple[list[Hint], list[int]],
) -> None:
    hints, _ = case
    for hint in hints:
        found = hints[nearest(hints, hint.sizes)]
        assert ratio(found, hint.sizes) == 1


@given(cases(st.integers(0, 2**50)))
def test_a_size_of_zero_counts_as_a_half(case: tuple[list[Hint], list[int]]) -> None:
    """So doubling all numbers, zeros to ones, changes no choice."""
    hints, sizes = case
    doubled = [Hint(h.choice, tuple(2 * n or 1 for n in h.sizes)) for h in hints]
    assert nearest(doubled, [2 * n or 1 for n in sizes]) == nearest(hints, sizes)


@given(cases(), SIZE)
def test_a_size_that_all_hints_share_does_not_matter(
    case: tuple[list[Hint], list[int]], shared: int
) -> None:
    hints, sizes = case
    longer = [Hint(h.choice, (shared, *h.sizes)) for h in hints]
    assert nearest(longer, [shared, *sizes]) == nearest(hints, sizes)


def test_distances_beyond_binary64_are_a_tie() -> None:
    far = [Hint(2, (1,) * 20), Hint(1, (2,) * 20)]
    assert nearest(far, [2**62] * 20) == 2


def test_without_sizes_the_first_hint_is_nearest() -> None:
    assert nearest([Hint(3, ()), Hint(1, ())], []) == 3


def test_several_hints_may_name_one_choice() -> None:
    hints = [Hint(1, (1, 64)), Hint(0, (8, 8)), Hint(1, (64, 1))]
    sizes = [(1, 50), (50, 1), (7, 9), (64, 64), (2, 32)]
    assert [nearest(hints, s) for s in sizes] == [1, 1, 0, 1, 1]


SETTLED: tuple[tuple[Selection, int | None], ...] = (
    (FirstChoice(), 0),
    (ForcedChoice(2), 2),
    (RecordedChoice(1, (2.0, 1.0), "here"), 1),
    (ComputedChoice(3), 3),
    (ComputedChoice(Symbol("M")), None),
    (BenchmarkChoice(), None),
    (NearestChoice((Hint(1, (4,)),)), None),
)


@pytest.mark.parametrize(("selection", "choice"), SETTLED)
def test_settled_policies_always_take_the_same(
    selection: Selection, choice: int | None
) -> None:
    assert settled_choice(selection) == choice
    if choice is not None:
        assert choose(selection, [7], {"M": 7}) == choice


def test_every_policy_has_a_rule() -> None:
    assert {type(selection) for selection, _ in SETTLED} == set(SELECTIONS)


def test_what_would_be_timed_is_the_first_choice() -> None:
    assert choose(BenchmarkChoice(), [4], {"M": 4}) == 0


@given(cases())
def test_a_nearest_choice_goes_by_the_sizes_alone(
    case: tuple[list[Hint], list[int]],
) -> None:
    hints, sizes = case
    assert choose(NearestChoice(tuple(hints)), sizes, {}) == nearest(hints, sizes)


M, N, COUNT = Symbol("M"), Symbol("N"), Symbol("n")
CONDITIONS = st.builds(
    lambda op, left, right: Operation(op, (left, right)),
    st.sampled_from((ExprOp.LE, ExprOp.GT, ExprOp.EQ)),
    st.sampled_from((M, N, COUNT, M * N, M % 4, M * 3 - N * COUNT)),
    st.integers(-2, 40),
)
TREES = st.recursive(
    st.integers(0, 5),
    lambda trees: st.builds(
        lambda *args: Operation(ExprOp.WHERE, args), CONDITIONS, trees, trees
    ),
    max_leaves=6,
)


@given(TREES, st.tuples(*[st.integers(0, 9)] * 3))
def test_a_computed_choice_is_the_leaf_that_its_conditions_lead_to(
    tree: int | Operation, numbers: tuple[int, int, int]
) -> None:
    values = dict(zip(("M", "N", "n"), numbers, strict=True))
    leaf = tree
    while isinstance(leaf, Operation):
        condition, yes, no = leaf.args
        taken = yes if evaluate(condition, values) else no
        assert isinstance(taken, int | Operation)
        leaf = taken
    assert choose(ComputedChoice(tree), numbers[:2], values) == leaf


@pytest.mark.parametrize("index", [M, Operation(ExprOp.FLOORDIV, (1, M)), 0.5])
def test_a_computed_choice_without_a_value_is_an_error(index: Symbol | Operation) -> None:
    with pytest.raises(EvaluationError):
        choose(ComputedChoice(index), [], {"M": 0} if index is not M else {})


MODES = st.sampled_from(ZeroMode)


@given(MODES, MODES)
def test_zero_modes_combine_in_any_order(left: ZeroMode, right: ZeroMode) -> None:
    assert combined_mode(left, right) is combined_mode(right, left)
    assert combined_mode(left, left) is left
