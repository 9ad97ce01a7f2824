"""The benchmark of steps reports each contender, which all train alike."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch import distributed

from bench.overlap.step import planned_peak

ROOT = Path(__file__).parents[2]


def test_the_peak_is_that_of_the_largest_program(tmp_path: Path) -> None:
    assert planned_peak(tmp_path) is None
    for name, size in (("forward", 64), ("backward", 256)):
        (tmp_path / name).mkdir()
        text = f"""wrapperir 1

program @main() {{
  %x = allocate f32[{size}]
  free %x
  return
}}
"""
        (tmp_path / name / "program.wir").write_text(text)
    assert planned_peak(tmp_path) == 1024


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
    ]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    figures = {each["contender"]: each for each in found if "contender" in each}
    assert set(figures) == {"eager", "merge"}
    for each in figures.values():
        assert each["median"] >= each["least"] > 0
        assert each["loss_difference"] < 1e-5
    assert figures["eager"]["plan_bytes"] is None
    assert figures["merge"]["plan_bytes"] > 0
