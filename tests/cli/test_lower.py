"""``wrapperir lower``."""

from pathlib import Path

import pytest
import torch

from tests.cli.files import invoke
from wrapperir.diagnostics import Code
from wrapperir.text import parse_program
from wrapperir.verify import verify


def test_an_exported_program_is_printed_in_stages(folder: Path) -> None:
    class Scale(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 3).sum(1)

    torch.export.save(torch.export.export(Scale(), (torch.ones(2, 64),)), "scale.pt2")
    loops = invoke("lower", "scale.pt2")
    assert loops.stdout.startswith("input x : f32[2, 64]\n")
    assert "nest mul_loop, i0 < 2, i1 < 64:  # aten.mul.Tensor\n" in loops.stdout
    assert "executes the code in scale.pt2" in loops.stderr
    schedule = invoke("lower", "scale.pt2", "--print", "schedule", "--explain").stdout
    assert "\nkernel reduce_mul_sum_0(in0: read f32[128], out0: write f32[2])" in schedule
    assert "# kernels: 1, launches: 1, calls: 0; reads 512 B, writes 8 B\n" in schedule
    assert schedule.endswith("# fused: mul_loop + sum_1_loop, 1.0 KiB\n")


def test_a_program_is_the_one_that_compile_writes(folder: Path) -> None:
    target = "model.py:Model"
    printed = invoke("lower", target, "--print", "program", "--explain", "-o", "m.wir")
    assert printed.exit_code == 0, printed.output
    program = parse_program((folder / "m.wir").read_text())
    assert verify(program) == ()
    assert invoke("compile", target, "--frontend", "lowering", "-o", "out").exit_code == 0
    compiled = parse_program((folder / "out/program.wir").read_text())
    assert compiled.definitions == program.definitions


@pytest.mark.parametrize(
    ("target", "code"),
    [("model.py", Code.TARGET_SPELLING), ("model.py:broken", Code.TARGET_FAILED)],
)
def test_errors_have_codes(folder: Path, target: str, code: Code) -> None:
    result = invoke("lower", target)
    assert result.exit_code == 1
    assert code in result.stderr
    assert invoke("lower", "absent.pt2").exit_code == 3
