"""Decision trees learned from times."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wrapperir.ir import (
    MAX_DEPTH,
    Expr,
    Operation,
    depth,
    evaluate,
    evaluate_int,
    symbols_in,
)
from wrapperir.text import format_expr, parse_expr, parse_program
from wrapperir.tuning.decision import Sample, learn_decision, loss
from wrapperir.tuning.decision_tree import threshold_between
from wrapperir.verify import verify

NAMES = ("M", "N", "K")

times = st.none() | st.floats(0.01, 1e6)


@st.composite
def tables(draw: st.DrawFn) -> list[Sample]:
    dimensions = draw(st.integers(1, 3))
    choices = draw(st.integers(1, 4))
    sizes = st.tuples(*[st.integers(0, 1 << 16)] * dimensions)
    row = st.builds(Sample, sizes, st.tuples(*[times] * choices))
    return draw(st.lists(row, min_size=1, max_size=40))


def chosen(tree: Expr, sizes: tuple[int, ...]) -> int:
    return evaluate_int(tree, dict(zip(NAMES, sizes, strict=False)))


def learned(samples: list[Sample]) -> Expr:
    return learn_decision(NAMES[: len(samples[0].sizes)], samples)


@settings(max_examples=40)
@given(tables())
def test_a_tree_never_loses_more_than_the_best_single_choice(samples: list[Sample]) -> None:
    tree = learned(samples)
    losses = [loss(sample.microseconds) for sample in samples]
    ours = math.fsum(
        lost[chosen(tree, sample.sizes)]
        for sample, lost in zip(samples, losses, strict=True)
    )
    single = min(math.fsum(column) for column in zip(*losses, strict=True))
    assert ours <= single + 1e-6
    assert learned(samples) == tree


PROGRAM = """wrapperir 1

{kernels}
multi_kernel @any(a: read f32*, b: read f32*, c: write f32*) {{
  size M = size(a, 0)
  size N = size(b, 1)
  size K = size(a, 1)
{choices}
  select computed({tree})
}}

program @main(%a: f32[m, k], %b: f32[k, n], %c: mutated f32[m, n]) {{
  symbol m: int 1..65536 = size(%a, 0)
  symbol k: int 1..65536 = size(%a, 1)
  symbol n: int 1..65536 = size(%b, 1)

  kernel_call @any(%a, %b, %c)
  return
}}
"""

KERNEL = """kernel_definition @choice{} cpp(a: read f32*, b: read f32*, c: write f32*) {{
  entry = choice
  source {{
    | ...
  }}
}}
"""


@settings(max_examples=25)
@given(tables())
def test_a_tree_is_a_sound_selection_that_text_keeps(samples: list[Sample]) -> None:
    tree = learned(samples)
    assert parse_expr(format_expr(tree)) == tree
    assert set(symbols_in(tree)) <= set(NAMES[: len(samples[0].sizes)])
    assert depth(tree) < MAX_DEPTH // 2
    choices = range(len(samples[0].microseconds))
    text = PROGRAM.format(
        kernels="\n".join(KERNEL.format(at) for at in choices),
        choices="\n".join(f"  choice @choice{at}(0, 1, 2)" for at in choices),
        tree=format_expr(tree),
    )
    assert verify(parse_program(text)) == ()


def spread(dimensions: int, count: int) -> list[tuple[int, ...]]:
    """Return sizes spread over the logarithm of 1..65536."""
    steps = (0.7548776662, 0.5698402910, 0.4301597090)
    return [
        tuple(round(2 ** (16 * (0.5 + at * step % 1) % 16)) for step in steps[:dimensions])
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("rule", "count", "most_leaves"),
    [
        ("M <= 300", 24, 2),
        ("M <= 300", 150, 2),
        ("M * N <= 65536", 24, 2),
        ("M * N <= 65536", 150, 2),
        ("8 * M <= N", 24, 2),
        ("8 * M <= N", 150, 2),
        ("N % 16 == 0", 24, 2),
        ("N % 16 == 0", 150, 2),
        ("M <= 100 and N > 1000", 150, 6),
    ],
)
def test_what_a_rule_separates_is_learned_exactly(
    rule: str, count: int, most_leaves: int
) -> None:
    condition = parse_expr(rule)
    shapes = spread(2, count)
    if "%" in rule:
        shapes = [(m, n // 16 * 16 + (at % 2) * 5 + 16) for at, (m, n) in enumerate(shapes)]
    samples = []
    for m, n in shapes:
        holds = bool(evaluate(condition, {"M": m, "N": n}))
        samples.append(Sample((m, n), (1.0, 3.0, 9.0) if holds else (9.0, 3.0, 1.0)))
    tree = learned(samples)
    for sample in samples:
        assert loss(sample.microseconds)[chosen(tree, sample.sizes)] == 0.0
    assert leaves(tree) <= most_leaves


def leaves(tree: Expr) -> int:
    if not isinstance(tree, Operation):
        return 1
    return leaves(tree.args[1]) + leaves(tree.args[2])


def test_costs_of_blocks_are_told_from_those_of_rows() -> None:
    """One choice takes blocks of 32 rows, the other goes row by row."""

    def costs(m: int, n: int) -> tuple[float, ...]:
        return 40 + 0.03 * n * -(-m // 32), 2 + 0.0016 * n * m

    shapes = spread(2, 400)
    samples = [Sample(sizes, costs(*sizes)) for sizes in shapes[::2]]
    tree = learned(samples)
    others = [loss(costs(*sizes))[chosen(tree, sizes)] for sizes in shapes[1::2]]
    assert math.fsum(others) / len(others) < 0.01
    assert leaves(tree) < 12


def test_noise_is_not_learned() -> None:
    """Times that differ by less than they vary say nothing about sizes."""
    samples = [
        Sample(sizes, (100 + at * 7919 % 5, 100 + at * 104729 % 5))
        for at, sizes in enumerate(spread(2, 200))
    ]
    assert leaves(learned(samples)) <= 2


def test_a_choice_that_fails_somewhere_is_not_taken_there() -> None:
    samples = [
        Sample((m,), (1.0, 1.2) if m <= 4096 else (None, 1.2)) for (m,) in spread(1, 60)
    ]
    tree = learned(samples)
    taken = {sample.sizes[0] > 4096: set[int]() for sample in samples}
    for sample in samples:
        taken[sample.sizes[0] > 4096].add(chosen(tree, sample.sizes))
    assert taken == {False: {0}, True: {1}}


def test_one_sample_and_one_choice_need_no_tree() -> None:
    assert learn_decision(("M",), [Sample((7,), (3.0, 2.0, None))]) == 1
    assert learn_decision((), [Sample((), (3.0, 2.0)), Sample((), (3.0, 2.5))]) == 1
    assert learn_decision(("M",), [Sample((m,), (1.0,)) for m in range(30)]) == 0
    assert learn_decision(("M",), [Sample((m,), (None, None)) for m in range(30)]) == 0


def test_samples_of_different_tables_are_refused() -> None:
    good = Sample((1,), (1.0, 2.0))
    for samples in (
        [],
        [good, Sample((1, 2), (1.0, 2.0))],
        [good, Sample((1,), (1.0,))],
        [Sample((1,), ())],
    ):
        with pytest.raises(ValueError, match="samples"):
            learn_decision(("M",), samples)


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 40))
def test_a_whole_threshold_parts_its_neighbours(low: int, gap: int) -> None:
    found = threshold_between(float(low), float(low + gap), whole=True)
    assert found.denominator == 1
    assert low <= found < low + gap


def test_thresholds_are_round_numbers_of_the_middle() -> None:
    def whole(low: int, high: int) -> Fraction:
        return threshold_between(low, high, whole=True)

    assert whole(0, 3) == 0 or whole(0, 3) == 2
    assert whole(63, 65) == 64
    assert whole(60, 300) in (128, 96)
    assert whole(1000, 1001) == 1000
    assert threshold_between(0.3, 0.7, whole=False) == Fraction(1, 2)
    assert threshold_between(3.9, 8.3, whole=False).denominator == 1


@given(st.just(0.0) | st.floats(1e-18, 1e9), st.floats(1e-9, 1e9))
def test_a_threshold_for_ratios_parts_its_neighbours(low: float, more: float) -> None:
    high = low + more
    assume(low < high)
    found = threshold_between(low, high, whole=False)
    assert low <= found < high


def test_products_at_the_samples_stay_far_below_64_bits() -> None:
    """The sums that are compared fit, whatever the scalars among the sizes are."""
    samples = [Sample((m, n, 1 << 40), (1.0 + m * n, 500.0 + m)) for m, n in spread(2, 100)]
    tree = learned(samples)
    for sample in samples:
        values = dict(zip(NAMES, sample.sizes, strict=True))
        assert max(abs(value) for value in parts(tree, values)) < 1 << 62


def parts(tree: Expr, values: dict[str, int]) -> list[int]:
    if not isinstance(tree, Operation):
        return [evaluate_int(tree, values)]
    inner = itertools.chain.from_iterable(parts(arg, values) for arg in tree.args)
    return [int(evaluate(tree, values)), *inner]
