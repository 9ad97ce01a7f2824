from itertools import combinations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from bench.memory import check_plan as checker
from bench.memory.check_plan import check_plan
from tests.planning.drawn_buffers import buffers, plan_of
from wrapperir.planning import Buffer, Plan


def cells(buffer: Buffer, offset: int) -> set[tuple[int, int]]:
    return {
        (time, byte)
        for time in range(buffer.begin, buffer.end)
        for byte in range(offset, offset + buffer.size)
    }


@st.composite
def placed(draw: st.DrawFn) -> tuple[tuple[Buffer, ...], list[int]]:
    drawn = [evolve(buffer, size=buffer.size % 10) for buffer in draw(buffers(12))]
    offsets = [draw(st.integers(0, 40)) * buffer.alignment for buffer in drawn]
    return tuple(drawn), offsets


@given(placed())
def test_overlaps_are_the_pairs_that_share_a_byte_at_some_time(
    case: tuple[tuple[Buffer, ...], list[int]],
) -> None:
    drawn, offsets = case
    expected = [
        f"buffers {i} and {j} overlap"
        for i, j in combinations(range(len(drawn)), 2)
        if cells(drawn[i], offsets[i]) & cells(drawn[j], offsets[j])
    ]
    assert list(check_plan(drawn, plan_of(drawn, offsets))) == expected


@given(placed())
def test_many_buffers_are_checked_as_few_are(
    case: tuple[tuple[Buffer, ...], list[int]],
) -> None:
    drawn, offsets = case
    pairs = {frozenset(pair) for pair in checker.overlapping_pairs(drawn, offsets)}
    swept = {frozenset(pair) for pair in checker.overlaps_in_time_order(drawn, offsets)}
    assert swept <= pairs
    assert bool(swept) == bool(pairs)


def test_each_fault_is_named() -> None:
    two = (Buffer(8, 0, 2, 8), Buffer(4, 1, 3))
    assert check_plan(two, Plan((0, 8), 12, 12, 12, "test")) == ()
    assert check_plan(two, Plan((4, 0), 12, 12, 12, "test")) == (
        "buffer 0 is at 4, no multiple of its alignment 8",
    )
    assert check_plan(two, Plan((0, -4), 8, 12, 12, "test")) == (
        "buffer 1 is at the negative offset -4",
    )
    assert check_plan(two, Plan((0, 7), 11, 12, 12, "test")) == ("buffers 0 and 1 overlap",)
    assert check_plan(two, Plan((0, 8), 16, 12, 12, "test")) == (
        "the height is 12, the plan says 16",
    )
    assert check_plan(two, Plan((0, 8), 12, 13, 13, "test")) == (
        "12 bytes are alive at most, the plan says 13",
    )
    assert check_plan(two, Plan((0,), 8, 12, 12, "test")) == ("2 buffers have 1 offsets",)
