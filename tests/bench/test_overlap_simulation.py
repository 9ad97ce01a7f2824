"""The page of predictions is made of captured programs and the model of the passes."""

import pytest
import torch

from bench.overlap import simulate as simulation
from bench.overlap.capture import capture_step
from bench.overlap.models import Shape
from bench.overlap.simulate import Case, figures, page, simulate
from wrapperir.analysis.collective_cost import collective_seconds
from wrapperir.analysis.line_cost import LineCosts
from wrapperir.analysis.machines import H100
from wrapperir.ir import Collective, CollectiveLine, TensorType
from wrapperir.ir.line_effects import value_types
from wrapperir.text import parse_program
from wrapperir.verify import verify

SMALL = Shape(layers=1, width=32, hidden=64, head=8, batch=1, length=8)

LAYER = """wrapperir 1

program @main(%x: bf16[4096, 4096], %a: bf16[2048, 4096]) {
  group "0" size 2

  %p = allocate bf16[4096, 4096]
  %w = collective all_gather "0" reads(%a) writes(%p)
  wait_collective %w reads(%a) writes(%p)
  free %w
  %y = extern_kernel aten.mm.default(%x, %x) : bf16[4096, 4096]
  %z = extern_kernel aten.mm.default(%y, %x) : bf16[4096, 4096]
  return %y, %z, %p
}
"""
"""The products do not need what is gathered, beside the second of them."""


def test_times_are_those_of_the_model() -> None:
    program = parse_program(LAYER)
    costs = LineCosts.of_program(program, H100, {})
    work = sum(costs.work(line) for line in program.lines)
    gather = collective_seconds(Collective.ALL_GATHER, 2 * 4096 * 4096, 2, H100)
    assert gather < work / 2
    found = simulate([program, program], H100, 1.02)
    assert found.before == pytest.approx(2 * (work + gather))
    assert found.after == pytest.approx(2 * work)
    assert found.bound == pytest.approx(2 * work)
    assert found.hidden == pytest.approx(found.collectives)
    assert found.collectives == pytest.approx(2 * gather)
    assert (found.peak, found.peak_before, found.merged) == (3 << 25, 3 << 25, 0)
    times = [f"{x * 1e3:.2f}" for x in (found.before, found.after, found.bound)]
    ratio = f"{found.after / found.before:.2f}"
    assert found.cells() == " | ".join([*times, ratio, "1.00", "1.000"])


@pytest.mark.parametrize(
    ("split", "operations"),
    [
        pytest.param("tensor", {Collective.ALL_REDUCE}, id="tensor"),
        pytest.param(
            "sharded", {Collective.ALL_GATHER, Collective.REDUCE_SCATTER}, id="sharded"
        ),
    ],
)
def test_a_step_is_captured_for_ranks_that_are_not_there(
    split: str, operations: set[Collective]
) -> None:
    programs = capture_step(split, SMALL, 4, regather=True)
    assert not torch.distributed.is_initialized()
    assert len(programs) == 2  # forward and backward
    starts: list[CollectiveLine] = []
    for program in programs:
        assert verify(program) == ()
        assert {group.size for group in program.groups} == {4}
        found = [line for line in program.lines if isinstance(line, CollectiveLine)]
        types = value_types(program)
        for line in found:
            for name in (*line.reads, *line.writes):
                type = types[name]
                assert isinstance(type, TensorType)
                assert type.dtype.value == "bf16"
        starts += found
    assert {line.operation for line in starts} == operations
    if split == "sharded":  # 9 parameters, gathered in both passes and scattered once
        gathers = [x for x in starts if x.operation is Collective.ALL_GATHER]
        assert sum(len(x.reads) for x in gathers) == 18
        assert sum(len(x.reads) for x in starts) - 18 == 9


def test_rows_of_the_page_are_what_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(title="Small", split="tensor", shape=SMALL, ranks=(2,))
    monkeypatch.setattr(simulation, "CASES", (case,))
    monkeypatch.setattr(simulation, "MACHINES", (H100,))
    monkeypatch.setattr(simulation, "LIMITS", (1.5,))
    text = page()
    rows = [line for line in text.splitlines() if "| H100 | 1.5 |" in line]
    for ranks, row in zip(case.ranks, rows, strict=True):
        programs = capture_step("tensor", SMALL, ranks, regather=True)
        assert row == f"| {ranks} | H100 | 1.5 | {simulate(programs, H100, 1.5).cells()} |"
    assert "### Small" in text
    assert figures() in text
