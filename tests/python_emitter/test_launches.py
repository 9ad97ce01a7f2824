"""Launches of Triton kernels from emitted Python, as a driver that is made up sees them."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.python_emitter.fake_launches import CHECKS
from tests.python_emitter.fake_process import FakeProcess, fake_process
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter


@pytest.fixture(scope="module")
def process(run_cache: Path) -> Generator[FakeProcess]:
    """Return a process with a driver that is made up."""
    with fake_process("fake_launches", run_cache) as started:
        yield started


@pytest.mark.parametrize("name", CHECKS)
def test_on_a_driver_that_is_made_up(process: FakeProcess, name: str) -> None:
    process.check(name)


SOURCE = """\
wrapperir 1

kernel_definition @k triton({parameters}) {{
  grid = ({grid})
{facts}  entry = k
  source {{
    | @triton.jit
    | def k({names}):
    |     pass
  }}
}}

program @main(%x: f32[s0, 8]@cuda:0, %y: mutated f32[s0, 8]@cuda:0) {{
  symbol s0: int 1..64 = size(%x, 0)
{calls}
  return
}}
"""


def emitted(
    calls: str,
    parameters: str = "x: read f32*, y: write f32*, n: i64",
    names: str = "x, y, n",
    grid: str = "ceildiv(n, 16)",
    facts: str = "",
) -> tuple[str, dict[str, Any]]:
    """Return the text of a program with kernel calls, and the facts of its kernel."""
    lines = "\n".join(f"  kernel_call @k({call}) @cuda:0" for call in calls.split(";"))
    text = SOURCE.format(
        calls=lines, parameters=parameters, names=names, grid=grid, facts=facts
    )
    files = PythonEmitter().emit(parse_program(text)).files
    facts = str(files.get("kernels/k.triton.json", "null"))
    return str(files["program.py"]), json.loads(facts)


def test_a_call_has_the_grid_and_the_arguments_in_the_order_of_the_source() -> None:
    text, facts = emitted("%x, %y, 40; %x, %y, s0 * 8", names="n, y, x")
    assert "        k(3, 1, 1, 40, y, x)\n" in text
    assert "        k(ceildiv(s0 * 8, 16), 1, 1, s0 * 8, y, x)\n" in text
    assert "\nk = launches.kernel('kernels/k.triton.json')\nlaunches.build()\n" in text
    assert facts["signature"] == [["n", "i64"], ["y", "*fp32"], ["x", "*fp32"]]
    assert (facts["aligned"], facts["checked"]) == ([], [1, 2])


def test_facts_of_all_calls_are_compiled_by() -> None:
    _, facts = emitted("%x, %y, 32; %x, %y, s0 * 16")
    assert facts["aligned"] == [2]
    assert not facts["is_choice"]


def test_a_tensor_behind_a_descriptor_is_passed_itself() -> None:
    parameters = "x: read descriptor f32[1, 8], y: write f32*, n: i64"
    text, facts = emitted("%x, %y, 32; %x, %y, s0", parameters)
    assert "        k(2, 1, 1, x, y, 32)\n" in text
    assert facts["signature"][0] == ["x", "tensordesc<fp32[1, 8]>"]
    assert facts["blocks"] == {"x": [1, 8]}


def test_what_triton_has_to_launch_is_remarked() -> None:
    text, facts = emitted("%x, %y, 32; %x, %y, s0", names="x, y, n: tl.constexpr")
    assert "# Triton launches k: n is a constant that each call gives.\n" in text
    assert "\ndef k(x, y, n):\n    k_jit[(ceildiv(n, 16),)](" in text
    assert facts is None


def test_without_a_gpu_triton_launches() -> None:
    if torch.cuda.is_available():
        pytest.skip("a real driver is there")
    program = parse_program(
        SOURCE.format(
            parameters="x: read f32*", names="x", grid="1", facts="", calls=""
        ).replace("  return", "  kernel_call @k(%x) @cuda:0\n  return")
    )
    emitter = PythonEmitter()
    call: Any = emitter.load(emitter.emit(program), {})
    assert type(call.__globals__["k"]).__name__ == "DispatchedKernel"
