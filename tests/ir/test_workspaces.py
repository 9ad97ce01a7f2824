"""Zero modes of a workspace that several choices need combine, or are refused."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir import ZeroMode, combined_mode

ANY, CALL, PROGRAM = (
    ZeroMode.UNINITIALIZED,
    ZeroMode.ZERO_ON_CALL,
    ZeroMode.ZERO_PER_PROGRAM,
)


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
