"""Streams and events as nodes: what is written for them, and that it runs."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.fx import Graph

from tests.fx_emitter.running import load, parsed, without_dead_code
from tests.python_emitter.test_cuda import SIZE, on_a_gpu, on_streams, orthogonal
from tests.python_emitter.test_streams import PROGRAM
from wrapperir import compile_program
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Value
from wrapperir.fx import functions, stream_functions
from wrapperir.ir import (
    Device,
    ExternKernelLine,
    KernelCallLine,
    Program,
    RecordEventLine,
    WaitEventLine,
    tensor,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import CASES, Outcome, check_case, programs
from wrapperir.testing.kernels import descriptor_kernel
from wrapperir.text import parse_program
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.load import restoring_streams

OWN = {
    stream_functions.enter_stream: "enter",
    stream_functions.exit_stream: "exit",
    stream_functions.record_event: "record_event",
    stream_functions.record_stream: "record_stream",
    stream_functions.wait_event: "wait_event",
    stream_functions.wait_stream: "wait_stream",
}


def calls(graph: Graph) -> list[str]:
    """Return a graph's calls, shortened; that values are used no more is left out."""
    found: list[str] = []
    for node in graph.nodes:
        if node.op != "call_function" or node.target is functions.free:
            continue
        if node.target is stream_functions.stream:
            found.append(f"{node.name} = {node.args[0]} {node.args[1]}")
        elif node.target is stream_functions.exit_stream:
            found.append("exit")
        elif node.target in OWN:
            args = [str(arg).replace("_stream_", ".") for arg in node.args]
            found.append(" ".join([OWN[node.target], *args]))
        else:
            found.append(node.name)
    return found


def calls_of(program: Program) -> list[str]:
    return calls(build_graph(program).graph)


CALLS = """\
cuda_0_stream_1 = cuda:0 1
cuda_0_stream_0 = cuda:0 0
wait_stream cuda_0.1 cuda_0.0
cuda_0_stream_2 = cuda:0 2
wait_stream cuda_0.2 cuda_0.0
enter cuda_0.1
p
exit
wait_stream cuda_0.2 cuda_0.1
wait_stream cuda_0.0 cuda_0.1
a
enter cuda_0.1
mul_out
exit
record_stream x cuda_0.1
record_stream w cuda_0.1
b
enter cuda_0.2
add_out
exit
record_stream w cuda_0.2
record_stream x cuda_0.2
record_stream b cuda_0.2
record_event cuda_0.1
wait_event cuda_0.2 e
enter cuda_0.2
c
exit
enter cuda_0.2
sub_out
exit
record_event cuda_0.2
wait_event cuda_0.0 f
d
wait_stream cuda_0.0 cuda_0.1
wait_stream cuda_0.0 cuda_0.2
zero__default
record_stream d cuda_0.0
wait_stream cuda_0.1 cuda_0.0
wait_stream cuda_0.2 cuda_0.0
add__tensor
record_stream c cuda_0.0
g
record_event cuda_0.0
wait_event cuda_0.1 h
enter cuda_0.1
o
exit
record_stream g cuda_0.1
enter cuda_0.1
m
exit
wait_stream cuda_0.0 cuda_0.1
wait_stream cuda_0.0 cuda_0.2
wait_stream cuda_0.1 cuda_0.0
wait_stream cuda_0.2 cuda_0.0
k
record_stream o cuda_0.0
wait_stream cuda_0.0 cuda_0.1
wait_stream cuda_0.0 cuda_0.2
"""


def test_streams_meet_where_the_program_says_so() -> None:
    graph = build_graph(parse_program(PROGRAM)).graph
    assert calls(graph) == CALLS.splitlines()
    graph.eliminate_dead_code()
    assert calls(graph) == CALLS.splitlines()


def test_a_program_of_one_stream_has_its_events_alone() -> None:
    program = parsed(
        """
        program @main(%x: f32[8]@cuda:0) {
          %e = record_event @cuda:0
          wait_event %e @cuda:0
          %r = extern_kernel aten.neg.default(%x) @cuda:0 : f32[8]@cuda:0
          return %r
        }
        """
    )
    assert calls_of(program) == [
        "cuda_0_stream_0 = cuda:0 0",
        "record_event cuda_0.0",
        "wait_event cuda_0.0 e",
        "r",
    ]


def test_streams_of_the_cpu_are_named() -> None:
    program = parsed(
        """
        program @main(%x: f32[8]) {
          %a = extern_kernel aten.neg.default(%x) stream(3) : f32[8]
          %e = record_event stream(3)
          wait_event %e
          free %e
          %b = extern_kernel aten.neg.default(%a) : f32[8]
          free %a
          return %b
        }
        """
    )
    assert calls_of(program) == [
        "cpu_stream_3 = cpu 3",
        "enter cpu.3",
        "a",
        "exit",
        "record_event cpu.3",
        "cpu_stream_0 = cpu 0",
        "wait_event cpu.0 e",
        "b",
    ]
    (r,) = load(program, {})([torch.arange(8.0)])
    assert isinstance(r, torch.Tensor)
    assert r.tolist() == torch.arange(8.0).tolist()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(programs(languages=(), max_steps=20), st.booleans())
def test_no_event_and_no_stream_is_dropped(program: Program, removes: bool) -> None:
    found: list[str] = []
    parts = [build_graph(program)]
    for part in parts:
        parts.extend(part.attributes.graphs.values())
        if removes:
            part.graph.eliminate_dead_code()
        found += [line.split()[0] for line in calls(part.graph)]
    lines = list(walk_lines(program.lines))
    launches = [one for one in lines if isinstance(one, ExternKernelLine | KernelCallLine)]
    assert found.count("enter") == sum(line.stream != 0 for line in launches)
    assert found.count("exit") == found.count("enter")
    recorded = sum(isinstance(line, RecordEventLine) for line in lines)
    waited = sum(isinstance(line, WaitEventLine) for line in lines)
    assert found.count("record_event") == recorded
    assert found.count("wait_event") == waited
    assert "wait_stream" not in found
    assert "record_stream" not in found


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(programs(languages=(), max_steps=20, streams=False))
def test_without_streams_there_are_no_nodes_for_them(program: Program) -> None:
    parts = [build_graph(program)]
    for part in parts:
        parts.extend(part.attributes.graphs.values())
        targets = {node.target for node in part.graph.nodes}
        assert targets.isdisjoint({stream_functions.stream, *OWN})


def test_conformance_without_dead_code() -> None:
    (case,) = [case for case in CASES if case.name == "streams"]
    emitter = FxEmitter(compile_graph=without_dead_code)
    assert check_case(emitter, case) is Outcome.PASSED


IN_BLOCKS = """
program @main(%x: f32[8]@cuda:0) {
  %a = extern_kernel aten.neg.default(%x) @cuda:0 stream(1) : f32[8]@cuda:0
  %t = extern_kernel aten.any.default(%x) @cuda:0 stream(1) : bool[]@cuda:0
  %r = conditional %t (%a) : f32[8]@cuda:0 {
    true (%b: f32[8]@cuda:0) {
      %e = record_event @cuda:0
      wait_event %e @cuda:0
      %w = allocate f32[8]@cuda:0 workspace(zero_on_call)
      extern_kernel aten.add_.Tensor(%w, %b) writes(%w) @cuda:0
      return %w
    }
    false (%c: f32[8]@cuda:0) {
      %d = extern_kernel aten.abs.default(%c) @cuda:0 : f32[8]@cuda:0
      return %d
    }
  }
  free %t
  free %a
  return %r
}
"""


def test_blocks_are_on_stream_0_after_all_before_them() -> None:
    parts = build_graph(parsed(IN_BLOCKS))
    text = "\n".join(calls(parts.graph))
    join, fork = "wait_stream cuda_0.0 cuda_0.1", "wait_stream cuda_0.1 cuda_0.0"
    told = "record_stream t cuda_0.0\nrecord_stream a cuda_0.0"
    assert text.endswith(f"exit\n{join}\n{fork}\n{told}\ncond\nr\n{join}")
    nested = [calls(graph.graph) for graph in parts.attributes.graphs.values()]
    assert nested == [
        [
            "cuda_0_stream_0 = cuda:0 0",
            "record_event cuda_0.0",
            "wait_event cuda_0.0 e",
            "w",
            "zero__default",
            "add__tensor",
        ],
        ["d"],
    ]


IN_REGION = """

program @main(%x: f32[8]@cuda:0) {
  %a = allocate f32[8]@cuda:0
  graph_region @region (%x, %a) @cuda:0 {
    body (%p: f32[8]@cuda:0, %q: f32[8]@cuda:0) {
      %e = record_event @cuda:0
      wait_event %e @cuda:0 stream(1)
      extern_kernel aten.neg.out(%p, out = %q) writes(%q) @cuda:0 stream(1)
      %f = record_event @cuda:0 stream(1)
      wait_event %f @cuda:0
      return
    }
  }
  return %a
}
"""


def test_a_graph_region_has_its_streams_in_its_graph() -> None:
    parts = build_graph(parsed(IN_REGION))
    (nested,) = parts.attributes.graphs.values()
    assert calls(nested.graph) == [
        "cuda_0_stream_0 = cuda:0 0",
        "record_event cuda_0.0",
        "cuda_0_stream_1 = cuda:0 1",
        "wait_event cuda_0.1 e",
        "enter cuda_0.1",
        "neg_out",
        "exit",
        "record_stream p cuda_0.1",
        "record_stream q cuda_0.1",
        "record_event cuda_0.1",
        "wait_event cuda_0.0 f",
    ]


def adding(*devices: Device) -> Program:
    """Launch a Triton kernel on each device in turn."""
    b = ProgramBuilder()
    kernel = b.kernel(descriptor_kernel())
    results = []
    for device in devices:
        type = tensor("f32", (8, 8), device=device)
        x, y, out = b.input(type), b.input(type), b.allocate(type)
        b.call(kernel, x, y, out, 8, 8, device=device)
        results.append(out)
    return b.build(*results)


def test_kernels_are_launched_with_their_device_current() -> None:
    first, second = Device("cuda", 0), Device("cuda", 1)
    launch = "triton_kernel_wrapper_mutation"
    found = calls_of(adding(first, second, first))
    assert [line for line in found if line.startswith(("enter", "exit", launch))] == [
        "enter cuda_0.0",
        launch,
        "enter cuda_1.0",
        f"{launch}_1",
        "exit",
        f"{launch}_2",
        "exit",
    ]
    assert found[-1] == "exit"
    # What names no device runs on the current one, whichever that is.
    assert not any(line.startswith("enter") for line in calls_of(adding(Device("cuda"))))


def test_operators_find_their_device_themselves() -> None:
    program = parsed(
        """
        program @main(%x: f32[8]@cuda:1) {
          %r = extern_kernel aten.neg.default(%x) @cuda:1 : f32[8]@cuda:1
          return %r
        }
        """
    )
    assert calls_of(program) == ["r"]


def test_what_is_kept_was_made_before_any_stream() -> None:
    program = parsed(
        """
        program @main(%x: f32[8]@cuda:0) {
          %w = allocate f32[8]@cuda:0 workspace(zero_per_program)
          %a = extern_kernel aten.add.Tensor(%x, %w) @cuda:0 stream(1) : f32[8]@cuda:0
          return %a
        }
        """
    )
    assert calls_of(program)[2:-2] == [
        "wait_stream cuda_0.1 cuda_0.0",
        "enter cuda_0.1",
        "a",
        "exit",
        "record_stream x cuda_0.1",
        "record_stream w cuda_0.1",
    ]


def test_other_devices_have_one_stream() -> None:
    program = parse_program(
        """\
wrapperir 1

program @main(%x: f32[8]@mps) {
  %r = extern_kernel aten.neg.default(%x) @mps stream(1) : f32[8]@mps
  return %r
}
"""
    )
    with pytest.raises(DiagnosticError, match="mps has no stream 1"):
        FxEmitter().emit(program)


def test_a_call_that_fails_leaves_the_streams_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    current: dict[object, object] = {"device": 3, 0: "first", 1: "second", 3: "third"}

    def fail(inputs: list[Value]) -> tuple[Value, ...]:
        current.update({"device": 1, 0: "side", 1: "side"})
        raise ValueError("out of memory")

    def set_stream(stream: str) -> None:
        current[{"first": 0, "second": 1}[stream]] = stream

    monkeypatch.setattr(torch.cuda, "current_device", lambda: current["device"])
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: current[index])
    monkeypatch.setattr(torch.cuda, "set_stream", set_stream)
    monkeypatch.setattr(torch.cuda, "set_device", lambda n: current.update(device=n))
    before = dict(current)
    graph = build_graph(adding(Device("cuda", 0), Device("cuda", 1))).graph
    with pytest.raises(ValueError, match="out of memory"):
        restoring_streams(fail, graph)([])
    assert current == before


def test_a_call_without_streams_is_left_as_it_is() -> None:
    program = parsed("program @main(%x: f32[8]) {\n  return %x\n}\n")

    def call(inputs: list[Value]) -> tuple[Value, ...]:
        return tuple(inputs)

    assert restoring_streams(call, build_graph(program).graph) is call


@pytest.mark.gpu
@on_a_gpu
def test_a_call_that_fails_on_a_stream() -> None:
    call = load(parse_program(PROGRAM), {})
    before = torch.cuda.current_stream()
    x, w = (torch.rand(512, 512, device="cuda") for _ in range(2))
    with pytest.raises(RuntimeError):
        call([x, w[:3, :7]])
    assert torch.cuda.current_stream() == before
    out, _ = call([x, w])
    assert isinstance(out, torch.Tensor)
    assert torch.equal(out, (x * w - (w + x)).neg().abs())


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("seed", range(4))
def test_streams_wait_for_events(seed: int) -> None:
    program, operands = on_streams(seed)
    emitter = FxEmitter(compile_graph=without_dead_code)
    inputs = [orthogonal() for _ in range(2)]
    values = list(inputs)
    for x, y in operands:
        values.append(values[x] @ values[y])
    used = {value for pair in operands for value in pair}
    wanted = tuple(v for n, v in enumerate(values) if n > 1 and n not in used)
    for one in (FxEmitter(), emitter):
        call = compile_program(program, emitter=one)
        for _ in range(10):
            outputs = call(list(inputs))
            torch.full((4 * SIZE, SIZE), torch.nan, device="cuda")  # takes what was freed
            torch.testing.assert_close(outputs, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@on_a_gpu
def test_memory_is_not_given_away_too_early() -> None:
    call = load(parse_program(PROGRAM), {})
    x, w = (torch.rand(512, 512, device="cuda") for _ in range(2))
    wanted = (x * w - (w + x)).neg().abs()
    for _ in range(100):
        given: list[Value] = [x, w]
        out, largest = call(given)
        torch.full((512, 512), torch.nan, device="cuda")
        assert isinstance(out, torch.Tensor)
        assert torch.equal(out, wanted)
        assert largest == wanted.max().item()


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_blocks_run_after_other_streams(value: float) -> None:
    call = load(parsed(IN_BLOCKS), {})
    x = torch.full((8,), value, device="cuda")
    (r,) = call([x])
    assert isinstance(r, torch.Tensor)
    assert r.tolist() == [-value] * 8


@pytest.mark.gpu
@on_a_gpu
def test_the_callers_stream_and_device_stay_current() -> None:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    call = load(parse_program(PROGRAM), {})
    x, w = (torch.rand(512, 512, device="cuda") for _ in range(2))
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        out, _ = call([x, w])
        assert torch.cuda.current_stream() == side
        assert isinstance(out, torch.Tensor)
        assert torch.equal(out, (x * w - (w + x)).neg().abs())


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("current", [0, 1])
def test_kernels_of_two_devices(current: int) -> None:
    first, second = Device("cuda", 0), Device("cuda", 1)
    program = adding(first, second, second, first)
    call = compile_program(program, emitter=FxEmitter())
    inputs = [
        torch.rand(8, 8, device=f"cuda:{index}") for index in (0, 1, 1, 0) for _ in "xy"
    ]
    with torch.cuda.device(current):
        for _ in range(3):
            outputs = call(list(inputs))
            assert torch.cuda.current_device() == current
    for index, total in enumerate(outputs):
        assert isinstance(total, torch.Tensor)
        assert torch.equal(total, inputs[2 * index] + inputs[2 * index + 1])
