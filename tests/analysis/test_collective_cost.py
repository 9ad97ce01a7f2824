"""Predicted seconds of collectives and lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.analysis.collective_cost import collective_seconds
from wrapperir.analysis.line_cost import LineCosts
from wrapperir.analysis.machines import H100, MACHINES, Machine
from wrapperir.ir import Collective, CollectiveLine
from wrapperir.text import parse_program


@given(
    st.sampled_from(list(Collective)),
    st.integers(0, 1 << 34),
    st.integers(1, 1024),
    st.sampled_from(list(MACHINES.values())),
)
def test_more_bytes_and_more_ranks_take_longer(
    operation: Collective, bytes: int, ranks: int, machine: Machine
) -> None:
    seconds = collective_seconds(operation, bytes, ranks, machine)
    assert seconds > 0
    assert collective_seconds(operation, bytes + 1024, ranks, machine) >= seconds
    # From a host to several, rings pass through adapters.
    assert collective_seconds(operation, bytes, 2 * ranks, machine) >= seconds * 0.999


@pytest.mark.parametrize(
    ("operation", "ranks", "host_ranks", "bandwidth"),
    [
        # NVLink: 50 % of 450 GB/s.
        (Collective.ALL_GATHER, 8, None, 450e9 * 0.5 * 8 / 7),
        (Collective.ALL_REDUCE, 8, None, 450e9 * 0.5 * 4 / 7),
        # Eight adapters of 50 GB/s.
        (Collective.ALL_GATHER, 16, None, 400e9 * 0.5 * 16 / 15),
        # One rank a host has one adapter.
        (Collective.ALL_GATHER, 16, 1, 50e9 * 0.5 * 16 / 15),
    ],
)
def test_long_ones_take_the_bandwidth_of_their_links(
    operation: Collective, ranks: int, host_ranks: int | None, bandwidth: float
) -> None:
    bytes = 1 << 36
    seconds = collective_seconds(operation, bytes, ranks, H100, host_ranks)
    assert seconds == pytest.approx(bytes / bandwidth, rel=0.01)


def test_lines_take_the_longer_of_their_bytes_and_operations() -> None:
    program = parse_program("""wrapperir 1

program @main(%x: bf16[8192, 8192], %y: bf16[8192], %z: mutated bf16[8192, 8192]) {
  group "0" size 8

  %a = extern_kernel aten.mm.default(%x, %x) : bf16[8192, 8192]
  %b = extern_kernel aten.neg.default(%x) : bf16[8192, 8192]
  %c = extern_kernel aten.neg.default(%y) : bf16[8192]
  %w = collective all_reduce(sum) "0" reads(%z) writes(%z)
  wait_collective %w reads(%z) writes(%z)
  return %a, %b, %c
}
""")
    costs = LineCosts.of_program(program, H100, {})
    product, large, small, start, wait = program.lines
    assert costs.work(product) == pytest.approx(2 * 8192**3 / (989e12 * 0.7))
    assert costs.work(large) == pytest.approx(2 * 2 * 8192**2 / (3.35e12 * 0.7))
    assert costs.work(small) == H100.launch
    assert costs.work(start) == costs.work(wait) == 0
    assert isinstance(start, CollectiveLine)
    assert costs.collective_bytes(start) == 2 * 8192**2
