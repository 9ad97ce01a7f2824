"""The values that symbols take: in their ranges, spread over them, and repeatable."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tuning.costs import calling
from wrapperir.ir import (
    CPU,
    Expr,
    ItemOf,
    SizeOf,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    ValueOf,
    evaluate_int,
    tensor,
)
from wrapperir.report import SymbolValueError
from wrapperir.tuning.calls import Call, calls_of
from wrapperir.tuning.shapes import (
    DEFAULT_UPPER,
    NotTunableError,
    Sampling,
    check_given,
    samples_of,
    tensor_bytes,
)

S0, S1 = Symbol("s0"), Symbol("s1")


def size(name: str, lower: int | None, upper: int | None) -> SymbolDefinitionLine:
    return SymbolDefinitionLine(
        symbol=name, lower=lower, upper=upper, source=SizeOf("x", 0)
    )


def call(extents: tuple[Expr, ...], *symbols: SymbolDefinitionLine) -> Call:
    return Call("k", (tensor("f32", extents),), CPU, symbols)


def sampling(
    count: int = 32, given: dict[str, tuple[int, ...]] | None = None, bytes: int = 1 << 30
) -> Sampling:
    return Sampling(given or {}, count, 0, bytes)


bounds = st.integers(0, 10_000)


@given(bounds, bounds, bounds, bounds, st.integers(1, 60), st.integers(0, 9), bounds)
def test_samples_are_different_in_range_and_within_the_limit(
    a: int, b: int, c: int, d: int, count: int, seed: int, kilobytes: int
) -> None:
    lines = size("s0", min(a, b), max(a, b)), size("s1", min(c, d), max(c, d))
    half = SymbolDefinitionLine(symbol="half", source=S1 // 2)
    asked = call((S0, Symbol("half") + 1), *lines, half)
    rule = Sampling({}, count, seed, (kilobytes + 1) << 10)
    try:
        found = samples_of(asked, rule)
    except NotTunableError:
        least = {"s0": max(min(a, b), 1), "s1": max(min(c, d), 1)}
        least = {
            name: min(least[name], top)
            for name, top in (("s0", max(a, b)), ("s1", max(c, d)))
        }
        smallest = tensor_bytes(asked, {**least, "half": least["s1"] // 2})
        assert smallest is not None
        assert smallest > rule.largest_bytes
        return
    assert samples_of(asked, rule) == found
    assert 1 <= len(found) <= count
    assert len({tuple(values.items()) for values in found}) == len(found)
    for values in found:
        assert list(values) == ["s0", "s1", "half"]
        assert min(a, b) <= values["s0"] <= max(a, b)
        assert min(c, d) <= values["s1"] <= max(c, d)
        assert values["half"] == values["s1"] // 2
        taken = tensor_bytes(asked, values)
        assert taken is not None
        assert taken <= rule.largest_bytes


def test_a_static_call_is_one_case() -> None:
    assert samples_of(call((8, 8)), sampling()) == ({},)


def test_ends_powers_of_two_and_what_is_beside_them_are_taken() -> None:
    found = [v["s0"] for v in samples_of(call((S0,), size("s0", 3, 100_000)), sampling())]
    assert len(found) == 32
    assert {3, 4, 99_999, 100_000} <= set(found)
    beside = {(1 << k) + d for k in range(20) for d in (-1, 0, 1)}
    assert {(1 << k) for k in range(20)} & set(found)
    assert len(beside & set(found)) >= 12
    assert len(set(found) - beside) >= 8


@pytest.mark.parametrize("seed", range(5))
def test_samples_are_spread_over_the_logarithm(seed: int) -> None:
    asked = call((S0,), size("s0", 1, 1 << 16))
    found = samples_of(asked, Sampling({}, 64, seed, 1 << 30))
    quarters = [0, 0, 0, 0]
    for values in found:
        quarters[min(int(math.log2(values["s0"]) / 4), 3)] += 1
    assert min(quarters) >= 8


def test_two_symbols_vary_apart() -> None:
    lines = size("s0", 1, 4096), size("s1", 1, 4096)
    found = samples_of(call((S0, S1), *lines), sampling(64))
    signs = {(values["s0"] > 64, values["s1"] > 64) for values in found}
    assert signs == {(a, b) for a in (False, True) for b in (False, True)}


def test_a_small_range_is_taken_whole() -> None:
    found = samples_of(call((S0,), size("s0", 2, 5)), sampling())
    assert sorted(values["s0"] for values in found) == [2, 3, 4, 5]


@pytest.mark.parametrize("upper", [None, 1 << 40, (1 << 63) - 1])
def test_a_size_without_upper_bound_is_bounded_by_memory(upper: int | None) -> None:
    lines = size("s0", None, upper), size("s1", None, upper)
    found = samples_of(call((S0, S1), *lines), sampling(bytes=1 << 24))
    assert max(values["s0"] for values in found) <= DEFAULT_UPPER
    assert max(values["s0"] * values["s1"] * 4 for values in found) <= 1 << 24
    assert max(values["s0"] for values in found) > 1 << 12


def test_given_values_are_taken_in_every_combination() -> None:
    lines = size("s0", 1, 4096), size("s1", 1, 4096)
    asked = call((S0, S1), *lines)
    found = samples_of(asked, sampling(given={"s0": (64, 7), "s1": (3, 5, 9)}))
    assert {(v["s0"], v["s1"]) for v in found} == {
        (a, b) for a in (64, 7) for b in (3, 5, 9)
    }
    drawn = samples_of(asked, sampling(12, given={"s0": (64, 7)}))
    assert len(drawn) == 12
    assert [v["s0"] for v in drawn].count(64) == 6


def test_what_is_read_late_needs_a_bound_or_given_values() -> None:
    late = SymbolDefinitionLine(symbol="s0", lower=1, source=ItemOf("cell"))
    with pytest.raises(NotTunableError, match="s0 is read from a tensor"):
        samples_of(call((S0,), late), sampling())
    assert samples_of(call((S0,), late), sampling(given={"s0": (8,)})) == ({"s0": 8},)


def test_what_is_too_large_everywhere_is_refused() -> None:
    with pytest.raises(NotTunableError, match="more than the limit of 1,024 bytes"):
        samples_of(call((S0, 1000), size("s0", 1, 9)), sampling(bytes=1024))


def test_floats_and_flags_are_not_drawn() -> None:
    lines = (
        SymbolDefinitionLine(symbol="f", kind=SymbolKind.FLOAT, source=ValueOf("a")),
        SymbolDefinitionLine(symbol="b", kind=SymbolKind.BOOL, source=ValueOf("c")),
    )
    assert samples_of(call((4,), *lines), sampling()) == ({"f": 1.0, "b": True},)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"s9": (1,)}, "no symbol s9"),
        ({"s0": (0,)}, "s0 = 0 is not in its range 1..100000"),
        ({"s0": (100_001,)}, "not in its range"),
        ({"s0": tuple(range(1, 10_002))}, "more than 10000 combinations"),
    ],
)
def test_given_values_are_checked(given: dict[str, tuple[int, ...]], message: str) -> None:
    program = calling([S0])
    with pytest.raises(SymbolValueError, match=message):
        check_given(program.symbols, given)


def test_computed_symbols_are_not_given() -> None:
    half = SymbolDefinitionLine(symbol="half", source=S0 // 2)
    with pytest.raises(SymbolValueError, match="half is computed"):
        check_given([size("s0", 1, 9), half], {"half": (2,)})


def test_bytes_count_what_storage_is_spanned() -> None:
    strided = tensor("f32", (4, S0), (100, 1), offset=6)
    asked = Call("k", (strided, 3), CPU)
    assert tensor_bytes(asked, {"s0": 5}) == 4 * (6 + 300 + 4 + 1)
    assert tensor_bytes(asked, {}) is None
    assert tensor_bytes(asked, {"s0": -2}) is None
    (only,) = calls_of(calling([16]))["twice"]
    assert tensor_bytes(only, {}) == sum(4 * evaluate_int(16, {}) for _ in ("x", "out"))
