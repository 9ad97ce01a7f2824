"""The benchmark of steps reports each contender, which all train alike."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed

from bench.overlap.program_peaks import (
    ProgramPeak,
    given_bytes,
    measure_programs,
    planned_memory,
)

ROOT = Path(__file__).parents[2]


class Scripted:
    """An allocator that says what it is told to, and whether it is asked in turn."""

    def __init__(self, *bytes: int) -> None:
        self.bytes = [*bytes]
        self.asked: list[str] = []

    def begin(self) -> int:
        self.asked.append("begin")
        return self.bytes.pop(0)

    def peak(self) -> int:
        self.asked.append("peak")
        return self.bytes.pop(0)


def test_a_program_takes_what_it_is_given_for_good_and_what_it_allocates(
    tmp_path: Path,
) -> None:
    torch._dynamo.reset()
    weight = torch.randn(16, 16, requires_grad=True)

    @torch.compile(
        backend="wrapperir", options={"frontend": "lowering", "dump_dir": str(tmp_path)}
    )
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.mm(x, weight)).cumsum(0)

    x = torch.randn(16, 16)
    model(x).sum().backward()  # type: ignore[no-untyped-call]
    allocator = Scripted(5000, 9000, 100_000, 103_000)
    found = measure_programs(model, x, tmp_path, allocator)
    assert allocator.asked == ["begin", "peak"] * 2
    plans = planned_memory(tmp_path)
    assert set(found) == set(plans) == {"forward", "backward"}
    assert found["forward"] == ProgramPeak(4000, plans["forward"].peak)
    saved = given_bytes(plans["backward"])
    assert saved >= 16 * 16 * 4
    assert found["backward"] == ProgramPeak(saved + 3000, plans["backward"].peak)


@pytest.mark.sweep
@pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()),
    reason="needs torch.distributed with gloo",
)
def test_steps_on_two_ranks_of_the_cpu_have_equal_losses() -> None:
    sizes = ["--layers=1", "--width=32", "--hidden=64", "--head=8", "--length=8"]
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"),
        *("-m", "bench.overlap.step", "--device=cpu", "--steps=2", "--split=sharded"),
        *("--frontend=lowering", *sizes, "--contender=eager", "--contender=merge"),
        *("--contender=replay", "--contender=inductor-replay"),
    ]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    figures = {each["contender"]: each for each in found if "contender" in each}
    assert set(figures) == {"eager", "merge", "replay", "inductor-replay"}
    for each in figures.values():
        assert each["median"] >= each["least"] > 0
        assert each["loss_difference"] < 1e-5
    assert figures["eager"]["peak_bytes"] is None
