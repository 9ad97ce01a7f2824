"""Workspaces of several choices become one that does for all, or are refused."""

from itertools import permutations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir.expr import Expr, Symbol, evaluate_int
from wrapperir.ir.types import CPU, Device, DType
from wrapperir.ir.workspace import (
    Workspace,
    ZeroMode,
    combined_mode,
    largest_count,
    merged_workspaces,
)

ANY, CALL, PROGRAM = (
    ZeroMode.UNINITIALIZED,
    ZeroMode.ZERO_ON_CALL,
    ZeroMode.ZERO_PER_PROGRAM,
)
WANTED = Workspace("ws", 64, ANY, DType.U8, CPU)


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        (ANY, ANY, ANY),
        (CALL, CALL, CALL),
        (PROGRAM, PROGRAM, PROGRAM),
        (ANY, CALL, CALL),
        # what takes any bytes may leave others than zero
        (ANY, PROGRAM, None),
        (CALL, PROGRAM, None),
    ],
)
def test_modes(left: ZeroMode, right: ZeroMode, both: ZeroMode | None) -> None:
    assert combined_mode(left, right) is both
    assert combined_mode(right, left) is both


@given(modes=st.lists(st.sampled_from(ZeroMode), min_size=1, max_size=4))
def test_the_order_of_modes_does_not_matter(modes: list[ZeroMode]) -> None:
    results: set[ZeroMode | None] = set()
    for order in permutations(modes):
        mode: ZeroMode | None = order[0]
        for other in order[1:]:
            mode = None if mode is None else combined_mode(mode, other)
        results.add(mode)
    assert len(results) == 1


s0 = Symbol("s0")
COUNTS: st.SearchStrategy[Expr] = st.sampled_from([1, 7, 64, s0, s0 * 2, s0 + 3])


@given(counts=st.lists(COUNTS, min_size=1, max_size=5), value=st.integers(0, 90))
def test_the_largest_count_is_that_of_all(counts: list[Expr], value: int) -> None:
    values = {"s0": value}
    found = largest_count([largest_count(counts[:1]), *counts])
    assert evaluate_int(found, values) == max(evaluate_int(c, values) for c in counts)


def test_counts_that_are_numbers_are_folded() -> None:
    assert largest_count([3, 64, 8]) == 64
    assert largest_count([s0, s0]) == s0
    assert largest_count([3, s0, 8]) == largest_count([s0, 8])


def test_one_workspace_does_for_all() -> None:
    other = Workspace("sums", s0, PROGRAM, DType.I32, CPU)
    wanted = [
        ("one", WANTED),
        ("two", evolve(WANTED, count=s0 * 4, mode=CALL)),
        ("two", other),
        ("three", evolve(WANTED, count=256)),
    ]
    merged = merged_workspaces(wanted)
    count = largest_count([s0 * 4, 256])
    assert merged == (evolve(WANTED, count=count, mode=CALL), other)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (evolve(WANTED, mode=PROGRAM), "in mode zero_on_call .* zero_per_program"),
        (evolve(WANTED, dtype=DType.F32), "of u8 .* f32"),
        (evolve(WANTED, device=Device("cuda", 0)), "on cpu .* cuda:0"),
    ],
)
def test_both_choices_are_named_where_none_does(other: Workspace, what: str) -> None:
    # @two is what made the mode what it is
    wanted = [("one", WANTED), ("two", evolve(WANTED, mode=CALL)), ("three", other)]
    if other.mode is not PROGRAM:
        del wanted[1]
    with pytest.raises(ValueError, match=what) as error:
        merged_workspaces(wanted)
    assert f"@{wanted[-2][0]} and @three" in str(error.value)
    assert "workspace ws" in str(error.value)
