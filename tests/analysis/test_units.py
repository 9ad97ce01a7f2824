"""Amounts in units are compared soundly for all values of symbols."""

from hypothesis import given
from hypothesis import strategies as st

from wrapperir.analysis import STATIC, UNIT, Sizes, Unit, fits, units_over
from wrapperir.analysis.sizes import Basis
from wrapperir.ir import Symbol, evaluate_int, tensor
from wrapperir.text import parse_expr

BASES = (Basis(0), Basis(3))
UNITS = (
    STATIC,
    *(
        Unit(Symbol(f"s{number}"), basis, bytes, slack, 1)
        for number, basis in enumerate(BASES)
        for bytes, slack in ((UNIT, 0), (4, UNIT - 1), (12, UNIT - 1))
    ),
)
amounts = st.dictionaries(st.sampled_from(UNITS), st.integers(0, 6), max_size=4)


def bytes_of(amount: dict[Unit, int], values: list[int]) -> int:
    """Return the bytes where the bases have these values above their least ones."""
    total = 0
    for unit, count in amount.items():
        if unit.basis is None:
            total += count * unit.bytes
        else:
            value = unit.basis.least + values[BASES.index(unit.basis)]
            exact = unit.bytes * value
            total += count * (-(-exact // UNIT) * UNIT if unit.slack else exact)
    return total


@given(amounts, amounts, st.lists(st.integers(0, 40), min_size=2, max_size=2))
def test_what_fits_is_no_more(
    taken: dict[Unit, int], most: dict[Unit, int], values: list[int]
) -> None:
    if fits(taken, most):
        assert bytes_of(taken, values) <= bytes_of(most, values)


@given(amounts, amounts)
def test_an_amount_fits_itself_and_more(
    amount: dict[Unit, int], more: dict[Unit, int]
) -> None:
    both = {unit: amount.get(unit, 0) + more.get(unit, 0) for unit in (*amount, *more)}
    assert fits(amount, amount)
    assert fits(amount, both)


SIZES = Sizes({"s": (1, 8), "t": (3, float("inf")), "u": (0, float("inf"))})
TERMS = ("s", "s * s", "s * t", "t", "u", "u * u", "u * s", "s * s + t")
COMPARED = (
    STATIC,
    *(
        SIZES.of(tensor("u8", (parse_expr(f"({term}) * {bytes}"),))).unit
        for term in TERMS
        for bytes in (64, 12)
    ),
)
compared = st.dictionaries(st.sampled_from(COMPARED), st.integers(0, 6), max_size=4)


@given(compared, compared, st.integers(1, 8), st.integers(3, 40), st.integers(0, 40))
def test_what_fits_by_ranges_of_symbols_is_no_more(
    taken: dict[Unit, int], most: dict[Unit, int], s: int, t: int, u: int
) -> None:
    values = {"s": s, "t": t, "u": u}
    if fits(taken, most):
        bytes, others = (
            sum(count * evaluate_int(unit.expr, values) for unit, count in amount.items())
            for amount in (taken, most)
        )
        assert bytes <= others


def test_excess_of_one_polynomial_is_covered_by_another() -> None:
    units = {term: COMPARED[1 + 2 * index] for index, term in enumerate(TERMS)}
    least = {units["s * t"]: 2}
    assert fits({units["s"]: 6}, least), "t is 3 at least"
    assert not fits({units["s"]: 7}, least)
    assert units_over({units["s"]: 9, STATIC: 1}, {**least, STATIC: 1}, units["s"]) == 3
    assert fits({units["s * s"]: 1}, {units["s"]: 8}), "s is 8 at most"
    assert fits({units["s"]: 2}, {STATIC: 16})
    assert not fits({units["u"]: 1}, {units["s * t"]: 99}), "u is not bounded"


@given(amounts, amounts, st.sampled_from(UNITS))
def test_none_over_is_what_fits(
    taken: dict[Unit, int], most: dict[Unit, int], unit: Unit
) -> None:
    assert (units_over(taken, most, unit) == 0) == fits(taken, most)
