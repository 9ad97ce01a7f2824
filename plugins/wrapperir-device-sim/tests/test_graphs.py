"""Regions of programs that the device records once and replays."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from wrapperir.emit import Loaded
from wrapperir.text import parse_program
from wrapperir_sim.emitter import SimEmitter

REGION = """\
wrapperir 1

kernel_definition @add cpp(a: read f32*, b: read f32*, out: write f32*, n: i64) {{
  entry = add
  source {{
    | extern "C" void add(const float* a, const float* b, float* out, long n) {{
    |   for (long i = 0; i < n; ++i) out[i] = a[i] + b[i];
    | }}
  }}
}}

program @main(%x: f32[32]@sim, %y: f32[32]@sim) {{
  %out = allocate f32[32]@sim
  %r = graph_region @sums (%x, %y, %out) @sim recordings(2) : f32[32]@sim {{
    body (%p: f32[32]@sim, %q: f32[32]@sim, %o: f32[32]@sim) {{
      %t = allocate f32[32]@sim
      kernel_call @add(%p, %q, %t, 32) @sim
{middle}
      kernel_call @add(%t, %q, %o, 32) @sim
      %u = allocate f32[32]@sim
      kernel_call @add(%t, %p, %u, 32) @sim
      free %t
      return %u
    }}
  }}
  free %x
  free %y
  return %out, %r
}}
"""
OPERATOR = "      extern_kernel aten.neg_.default(%t) writes(%t) @sim"
STREAMS = """\
      %first = record_event @sim
      wait_event %first @sim stream(1)
      kernel_call @add(%t, %t, %t, 32) @sim stream(1)
      %second = record_event @sim stream(1)
      wait_event %second @sim"""


def load(middle: str = "") -> Loaded:
    emitter = SimEmitter()
    return emitter.load(emitter.emit(parse_program(REGION.format(middle=middle))), {})


def replays(call: Callable[[], object]) -> int:
    """Return how many replays a call makes."""
    before: int = torch.ops.sim.replays()
    call()
    after: int = torch.ops.sim.replays()
    return after - before


def check(program: Loaded, x: torch.Tensor, y: torch.Tensor, factor: float) -> None:
    out, result = program([x, y])
    assert isinstance(out, torch.Tensor)
    assert isinstance(result, torch.Tensor)
    total = (x.cpu() + y.cpu()) * factor
    assert torch.equal(out.cpu(), total + y.cpu())
    assert torch.equal(result.cpu(), total + x.cpu())


@pytest.mark.parametrize(("middle", "factor"), [("", 1), (STREAMS, 2)])
def test_the_second_call_records_and_later_ones_replay(middle: str, factor: float) -> None:
    program = load(middle)
    x, y = torch.randn(32).to("sim"), torch.randn(32).to("sim")
    counts = []
    for value in range(4):
        x.fill_(value)
        counts.append(replays(lambda: check(program, x, y, factor)))
    assert counts == [0, 1, 1, 1]


def test_a_tensor_of_the_host_is_refused_by_the_name_of_the_device() -> None:
    with pytest.raises(RuntimeError, match="%x needs to be on sim:0, not on cpu"):
        load()([torch.ones(32), torch.ones(32).to("sim")])


def test_results_of_earlier_replays_stay() -> None:
    program = load()
    x, y = torch.zeros(32).to("sim"), torch.ones(32).to("sim")
    kept = []
    for value in range(4):
        x.fill_(value)
        kept.append(
            [t.cpu() if isinstance(t, torch.Tensor) else t for t in program([x, y])]
        )
        kept[-1] += program([x, y])
    for value, (out, result, later_out, later_result) in enumerate(kept):
        assert torch.equal(out, later_out.cpu())
        assert torch.equal(result, later_result.cpu())
        assert (out[0], result[0]) == (value + 2, 2 * value + 1)


def test_other_addresses_are_recorded_anew_and_memory_is_given_back() -> None:
    def run() -> None:
        program = load()
        y = torch.randn(32).to("sim")
        for x in [torch.randn(32).to("sim") for _ in range(4)]:
            calls = [replays(lambda x=x: check(program, x, y, 1)) for _ in range(3)]
            assert calls == [0, 1, 1]

    before = torch.ops.sim.live_bytes()
    run()
    assert torch.ops.sim.live_bytes() == before


def test_what_waits_for_the_host_is_run_and_not_recorded(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = load(OPERATOR)
    x, y = torch.randn(32).to("sim"), torch.randn(32).to("sim")
    for _ in range(4):
        assert replays(lambda: check(program, x, y, -1)) == 0
    said = capfd.readouterr().err
    assert said.count("sums is not replayed as a graph:") == 1
    assert "the host cannot wait for what is captured" in said


def test_compiled_functions_are_replayed() -> None:
    passes = ("insert_frees", 'capture_graphs(devices = "sim", least_gain = -100.0)')
    options: Any = {"frontend": "lowering", "emitter": "sim", "passes": passes}

    @torch.compile(backend="wrapperir", options=options)
    def call(x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = (x * 3).softmax(0).softmax(1)
        return x

    x = torch.randn(16, 16).to("sim")
    counts = []
    for _ in range(5):
        x.copy_(torch.randn(16, 16))
        wanted = x.cpu()
        for _ in range(5):
            wanted = (wanted * 3).softmax(0).softmax(1)
        found: list[torch.Tensor] = []
        counts.append(replays(lambda found=found: found.append(call(x))))
        torch.testing.assert_close(found.pop().cpu(), wanted)
    assert counts[0] == 0
    assert counts[-1] == 1
