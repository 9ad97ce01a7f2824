"""The device itself, and emitted programs on it."""

import gc
import re
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest
import torch

from wrapperir_sim.emitter import SimEmitter

OPTIONS: Any = {"frontend": "lowering", "emitter": "sim"}
READ = """
import ctypes, torch, wrapperir_sim
wrapperir_sim.add_sim()
x = torch.ones(4).to("sim")
assert x.sum().item() == 4
ctypes.string_at(x.data_ptr(), 4)
"""


def compiled(function: Any, **options: object) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="wrapperir", options={**OPTIONS, **options})


def test_the_host_cannot_read_its_memory() -> None:
    done = subprocess.run([sys.executable, "-c", READ], check=False)
    assert done.returncode == -signal.SIGSEGV


def test_streams_and_events_order_work() -> None:
    side, done = torch.Stream("sim"), torch.Event("sim", enable_timing=True)
    x = torch.zeros(1 << 16, device="sim")
    for number in range(20):
        with side:
            y = x + 1
            done.record()
        torch.accelerator.current_stream().wait_event(done)
        x = y * 1
        torch.accelerator.current_stream().synchronize()
        assert x.cpu().eq(number + 1).all()
    assert done.query()


def test_tensors_are_viewed_resized_and_copied() -> None:
    x = torch.arange(24.0).view(4, 6)
    y = x.to("sim")
    y.t()[1:3, ::2].copy_(torch.full((2, 2), -1.0))
    x.t()[1:3, ::2] = -1
    assert torch.equal(y.cpu(), x)
    assert torch.equal(y.t().contiguous().to(torch.int64).cpu(), x.t().to(torch.int64))
    z = torch.ones(3, device="sim")
    assert z.resize_(6)[:3].tolist() == [1, 1, 1]
    assert torch.equal(
        torch.nn.functional.conv2d(y.view(1, 1, 4, 6), z[:3].view(1, 1, 1, 3)).cpu(),
        torch.nn.functional.conv2d(x.view(1, 1, 4, 6), torch.ones(1, 1, 1, 3)),
    )


def test_calls_leave_no_memory() -> None:
    @compiled
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).relu() + x

    x = torch.randn(16, 16, device="sim")
    before = None
    for _ in range(4):
        call(x, x).cpu()
        gc.collect()
        live = SimEmitter().live_bytes("sim")
        assert before in (None, live)
        before = live


def test_a_check_that_fails_in_a_kernel_is_raised_where_the_host_waits() -> None:
    @compiled
    def call(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index] * 2

    x = torch.randn(5, device="sim")
    index = torch.tensor([4, 0]).to("sim")
    assert torch.equal(call(x, index).cpu(), x.cpu()[[4, 0]] * 2)
    found = call(x, index + 3)
    with pytest.raises(RuntimeError, match=r"check \d of .* failed"):
        found.cpu()
    assert torch.equal(call(x, index).cpu(), x.cpu()[[4, 0]] * 2)


def test_the_inductor_frontend_says_what_to_use() -> None:
    call = compiled(lambda x: x + 1, frontend="inductor")
    with pytest.raises(Exception, match=r"WIR661.*nothing for device sim.*'lowering'"):
        call(torch.ones(2, device="sim"))


def test_an_operator_makes_its_tensor_on_the_device() -> None:
    @compiled
    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(torch.eye(3, device=x.device) * 2 + x)

    x = torch.zeros(3, 3, device="sim")
    assert torch.equal(call(x).cpu(), torch.eye(3) / 2)


CASES = ("kernel_streams_cpp", "kernel_workspaces_cpp", "donated")


@pytest.mark.parametrize(
    "chosen",
    [
        ["--device", "sim", *(part for case in CASES for part in ("--case", case))],
        pytest.param([], marks=pytest.mark.sweep),
    ],
)
def test_plugins_check(chosen: list[str]) -> None:
    """A process of its own, whose children can use the device, needs the entry points."""
    if not entry_points(group="torch.backends", name="sim"):
        pytest.skip("the plugin is not installed: pip install plugins/wrapperir-device-sim")
    command = [sys.executable, "-m", "wrapperir.cli", "plugins", "check", "sim", *chosen]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for feature in ("streams", "leaks", "wrong inputs", "workspaces"):
        assert re.search(rf"^{feature} on sim +[1-9]\d* +0 ", done.stdout, re.MULTILINE)
