"""Multi-kernels and configs of Triton kernels on a GPU: timed, picked by size, captured."""

from typing import Any

import pytest
import torch

from tests.python_emitter.stub_kernels import global_of, program_of, refuse_to_time
from wrapperir.emit import Loaded
from wrapperir.ir import Program
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir_python.emitter import PythonEmitter
from wrapperir_python.program_text import _with_configs_as_choices

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PARAMETERS = "x: read f32*, out: write f32*, rows: i64, columns: i64"
PERSISTENT = """
@triton.jit
def softmax(x, out, rows, columns, RBLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    r = tl.arange(0, RBLOCK)
    value = tl.load(x + start + r, mask=r < columns, other=float("-inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + start + r, value / tl.sum(value, 0), mask=r < columns)
"""
LOOPED = """
@triton.jit
def softmax(x, out, rows, columns, RBLOCK: tl.constexpr, TIMES: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    r = tl.arange(0, RBLOCK)
    for _ in range(TIMES):
        most = tl.full([RBLOCK], float("-inf"), tl.float32)
        total = tl.zeros([RBLOCK], tl.float32)
        for first in range(0, columns, RBLOCK):
            mask = first + r < columns
            value = tl.load(x + start + first + r, mask=mask, other=float("-inf"))
            more = tl.maximum(most, value)
            scale = tl.where(more == float("-inf"), 1.0, tl.exp(most - more))
            total = total * scale + tl.where(mask, tl.exp(value - more), 0.0)
            most = more
        highest = tl.max(most, 0)
        total = tl.where(most == float("-inf"), 0.0, total * tl.exp(most - highest))
        sum = tl.sum(total, 0)
        for first in range(0, columns, RBLOCK):
            mask = first + r < columns
            value = tl.load(x + start + first + r, mask=mask)
            tl.store(out + start + first + r, tl.exp(value - highest) / sum, mask=mask)
"""
KERNELS = {
    "persistent": (PERSISTENT, "RBLOCK: constexpr", ["RBLOCK = 4096, num_warps = 8"]),
    "looped": (LOOPED, "RBLOCK: constexpr, TIMES: constexpr", ["RBLOCK = 512, TIMES = 1"]),
    "slow": (LOOPED, "RBLOCK: constexpr, TIMES: constexpr", ["RBLOCK = 64, TIMES = 60"]),
    "configs": (
        LOOPED,
        "RBLOCK: constexpr, TIMES: constexpr",
        ["RBLOCK = 64, TIMES = 60", "RBLOCK = 1024, TIMES = 1, num_warps = 8"],
    ),
}


def definition(name: str) -> str:
    source, constants, configs = KERNELS[name]
    shown = "".join(f"    | {line}\n" for line in source.strip().splitlines())
    rows = "".join(f"  config {config}\n" for config in configs)
    return (
        f"kernel_definition @{name} triton({PARAMETERS}, {constants}) {{\n"
        f"  grid = (rows)\n{rows}  entry = softmax\n  source {{\n{shown}  }}\n}}\n\n"
    )


def program(select: str, *names: str, stream: str = "", device: str = "cuda:0") -> Program:
    """Return a program that takes the softmax of an input's rows with one of several."""
    on = f"@{device}"
    called = names[0]
    multi = ""
    if len(names) > 1:
        called = "m"
        choices = "".join(f"  choice @{name}(0, 1, 2, 3)\n" for name in names)
        multi = (
            f"multi_kernel @m({PARAMETERS}) {{\n  size R = size(x, 0)\n"
            f"  size C = size(x, 1)\n{choices}  select {select}\n}}\n"
        )
    events = ("", "")
    if stream:
        events = f"  wait_event %e {on}{stream}\n", f"  wait_event %f {on}\n"
    lines = (
        "  symbol s0: int 1.. = size(%x, 0)\n  symbol s1: int 1..4096 = size(%x, 1)\n"
        f"  %out = allocate f32[s0, s1]{on}\n"
        + (f"  %e = record_event {on}\n" if stream else "")
        + events[0]
        + f"  kernel_call @{called}(%x, %out, s0, s1) {on}{stream}\n"
        + (f"  %f = record_event {on}{stream}\n" if stream else "")
        + events[1]
        + "  return %out"
    )
    return program_of(
        "".join(map(definition, names)) + multi, lines, f"%x: f32[s0, s1]{on}"
    )


def load(program: Program) -> Any:
    emitter = PythonEmitter()
    return emitter.load(emitter.emit(program), {})


def text_of(program: Program) -> str:
    return str(PythonEmitter().emit(program).files["program.py"])


@pytest.fixture(autouse=True)
def cache() -> Any:
    with fresh_choice_cache() as made:
        yield made


def check(call: Loaded, rows: int, columns: int) -> None:
    x = torch.randn(rows, columns, device="cuda")
    before = x.clone()
    (out,) = call([x])
    torch.testing.assert_close(out, torch.softmax(x, 1))
    assert torch.equal(x, before)


def test_a_timed_kernel_is_called_on_its_stream_and_device() -> None:
    text = text_of(program("benchmark", "persistent", "looped", stream=" stream(1)"))
    assert (
        "        with torch.cuda.stream(cuda_0_stream_1):\n"
        "            m(x, out, s0, s1)\n" in text
    )
    other = program("benchmark", "persistent", "looped", device="cuda:0")
    assert "        m(x, out, s0, s1)\n" in text_of(other)


def test_configs_are_choices_on_cuda_and_the_first_is_taken_on_the_cpu() -> None:
    text = text_of(program("", "configs"))
    assert "        configs(x, out, s0, s1)\n" in text
    assert "kernel_choices.Choice('configs_config0', launch_configs_config0, " in text
    assert "kernel_choices.Choice('configs_config1', launch_configs_config1, " in text
    assert "bound='configs',\n" in text
    artifact = PythonEmitter().emit(program("", "configs", device="cpu"))
    assert "    configs(x, out, s0, s1)\n" in str(artifact.files["program.py"])
    assert "RBLOCK=64, TIMES=60)" in str(artifact.files["program.py"])
    assert "kernel_choices.py" not in artifact.files


def test_only_configs_of_kernels_that_cuda_runs_are_choices() -> None:
    other = definition("configs").replace("@configs", "@other")
    lines = (
        "  kernel_call @configs(%x, %x, 4, 4) @cuda:0\n"
        "  kernel_call @other(%y, %y, 4, 4)\n  return"
    )
    inputs = "%x: mutated f32[4, 4]@cuda:0, %y: mutated f32[4, 4]"
    split = _with_configs_as_choices(
        program_of(definition("configs") + other, lines, inputs)
    )
    names = ["configs_config0", "configs_config1", "configs", "other"]
    assert [line.name for line in split.definitions] == names


def test_a_kernel_with_one_config_is_called_directly_on_cuda() -> None:
    text = text_of(program("", "looped"))
    assert "kernel_choices" not in text


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize(
    "names", [("persistent", "slow"), ("slow", "persistent"), ("looped", "slow")]
)
def test_the_slow_softmax_is_not_taken(names: tuple[str, ...]) -> None:
    call = load(program("benchmark", *names))
    for _ in range(2):
        check(call, 2048, 4000)
    (decision,) = call.choices()
    times = dict(decision.microseconds)
    assert decision.kernel != "slow"
    assert times["slow"] > 10 * times[decision.kernel]


@pytest.mark.gpu
@on_a_gpu
def test_persistent_and_looped_softmax_are_timed_once_and_kept() -> None:
    chosen = program("benchmark", "persistent", "looped")
    first = load(chosen)
    check(first, 512, 1000)
    check(first, 7, 33)
    (decision,) = first.choices()
    times = dict(decision.microseconds)
    assert times[decision.kernel] == min(times.values())
    again = load(chosen)
    refuse_to_time(again)
    check(again, 512, 1000)
    assert again.choices()[0].microseconds == decision.microseconds


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize(
    "select",
    [
        "nearest_shape(0: (64, 64), 1: (64, 4096))",
        "computed(where(C <= 512, 0, 1))",
    ],
)
def test_softmax_goes_by_its_size(select: str) -> None:
    call = load(program(select, "persistent", "looped"))
    for columns in (8, 4096, 8):
        check(call, 64, columns)
    assert [decision.kernel for decision in call.choices()] == ["persistent", "looped"]


@pytest.mark.gpu
@on_a_gpu
def test_the_config_that_is_slow_is_not_taken() -> None:
    call = load(program("", "configs"))
    check(call, 1024, 2048)
    (decision,) = call.choices()
    assert (decision.multi_kernel, decision.kernel) == ("configs", "configs_config1")
    check(call, 3, 5)


@pytest.mark.gpu
@on_a_gpu
def test_a_side_stream_waits_and_is_waited_for() -> None:
    call = load(program("benchmark", "slow", "persistent", stream=" stream(1)"))
    busy = torch.zeros(8192, 8192, device="cuda")
    for _ in range(3):
        torch.mm(busy, busy)
        check(call, 1024, 1024)
    assert call.choices()[0].kernel == "persistent"


@pytest.mark.gpu
@on_a_gpu
def test_a_graph_captures_the_first_choice_and_decides_nothing() -> None:
    call = load(program("benchmark", "slow", "persistent"))
    x = torch.randn(64, 300, device="cuda")
    out = torch.empty_like(x)
    for name in ("slow", "persistent"):
        global_of(call, name)(64, 1, 1, x, out, 64, 300)  # loads, which no graph may
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (out,) = call([x])
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(out, torch.softmax(x, 1))
    assert call.choices() == ()
    check(call, 64, 300)
    assert call.choices()[0].kernel == "persistent"
