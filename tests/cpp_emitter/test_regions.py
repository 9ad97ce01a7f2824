"""Graph regions in emitted C++: the text, and replays on a made-up GPU."""

from typing import Any

import pytest
import torch

from tests.cpp_emitter.gpu_requests import CURRENT, FakeGpu
from tests.cpp_emitter.moved import on_gpu
from tests.cpp_emitter.test_streams import ADD, kernels, on_streams
from tests.python_emitter.test_regions import LAYER, RANKS, called
from wrapperir.ir import Program
from wrapperir.testing import example_inputs
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.layout import POOLS_SOURCE, PROGRAM

SUMS = """\
  %out = allocate f32[32]
  %r = graph_region @sums (%x, %y, %out) recordings(2) : f32[32] {
    body (%p: f32[32], %q: f32[32], %o: f32[32]) {
      %t = allocate f32[32]
      kernel_call @triton_add(%p, %q, %t, 32)
      kernel_call @triton_add(%t, %q, %o, 32)
      %u = allocate f32[32]
      kernel_call @triton_add(%t, %p, %u, 32)
      free %t
      return %u
    }
  }
"""


def text_of(program: Program) -> str:
    return str(CppEmitter().emit(program).files[PROGRAM])


def test_a_region_is_a_function_of_addresses_and_numbers() -> None:
    artifact = CppEmitter().emit(parse_program(LAYER))
    text = str(artifact.files[PROGRAM])
    assert 'constexpr RegionFact region_layer = {"layer", 4, 0, false};' in text
    assert "{bits_of(c.s0)}, {&c.t[r]}, [&](char* const* places) {" in text
    assert "c.places = places;" in text
    assert "{c.places[0], {c.s0, 64}, ints_64_1}, {c.places[1], ints_64_64" in text
    assert "1,  // graph regions" in text
    assert POOLS_SOURCE in artifact.files
    assert "runtime/recording.h" in artifact.files


def test_a_region_with_collectives_says_what_they_are_given() -> None:
    text = text_of(parse_program(called(RANKS)))
    assert "{{c.p[x], 32, 32, true}, {c.p[y], 32, 0}}, {}, {}, [&]" in text


def test_programs_without_regions_have_nothing_of_them() -> None:
    artifact = CppEmitter().emit(on_gpu(on_streams("  return %x\n")))
    assert "0,  // graph regions" in str(artifact.files[PROGRAM])
    assert not any("graph_" in path for path in artifact.files)


RELU = "  %z = extern_kernel aten.relu.default(%x) : f32[32]\n"
OF_RELU = SUMS.replace("(%x", "(%z") + "  free %z\n  return %out, %r\n"


def test_regions_that_are_not_recorded_are_opened() -> None:
    text = text_of(on_gpu(on_streams(RELU + OF_RELU)))
    assert "// graph region sums is not recorded: the layout of %z is not certain" in text
    assert "run_region(" not in text
    checked = RELU + "  assert_size_stride %z (32) (1)\n" + OF_RELU
    assert "run_region(" in text_of(on_gpu(on_streams(checked)))


def actions(log: list[str]) -> list[str]:
    """Return what a call does to graphs."""
    kinds = {word: word for word in ("replay", "launch", "failed")} | {"begin": "capture"}
    found = [kinds[line.split()[0]] for line in log if line.split()[0] in kinds]
    return [kind for i, kind in enumerate(found) if i == 0 or found[i - 1] != kind]


def test_the_second_call_records_and_later_ones_replay(fake_gpu: FakeGpu) -> None:
    program = on_streams(SUMS + "  return %out, %r\n")
    calls = [(seed, CURRENT) for seed in range(8)]
    first, second, *later = map(actions, fake_gpu.logs(program, calls=calls))
    assert first == ["launch"]
    assert second == ["capture", "launch"] * 4 + ["replay"]
    assert later == [["replay"]] * 6


def test_a_recording_belongs_to_a_stream(fake_gpu: FakeGpu) -> None:
    program = on_streams(SUMS + "  return %out, %r\n")
    streams = [CURRENT, CURRENT, 0x1230, CURRENT, 0x1230, 0x1230]
    logs = fake_gpu.logs(program, calls=list(enumerate(streams)))
    kinds = [found[-1] for found in map(actions, logs)]
    assert kinds == ["launch", "replay", "launch", "replay", "replay", "replay"]


def test_the_caller_s_capture_gets_the_block(fake_gpu: FakeGpu) -> None:
    program = on_streams(SUMS + "  return %out, %r\n")
    calls = [(seed, CURRENT) for seed in range(4)]
    logs = fake_gpu.logs(program, calls=calls, captured=[2])
    assert [found[-1] for found in map(actions, logs)] == [
        *("launch", "replay", "launch", "replay")
    ]


def test_recordings_are_dropped_and_made_again(fake_gpu: FakeGpu) -> None:
    program = on_streams(SUMS + "  return %out, %r\n")
    calls = [(seed, CURRENT) for seed in range(8)]
    logs = fake_gpu.logs(program, calls=calls, dropped=[4])
    assert [found[-1] for found in map(actions, logs)] == [
        *("launch", "replay", "replay", "replay", "launch", "launch", "replay", "replay")
    ]


SIZES = """
program @main(%x: f32[s0], %y: f32[s0]) {
  symbol s0: int 1..32 = size(%x, 0)
  %out = allocate f32[s0]
  graph_region @sums (%x, %y, %out) recordings(2) {
    body (%p: f32[s0], %q: f32[s0], %o: f32[s0]) {
      %t = allocate f32[s0]
      kernel_call @triton_add(%p, %q, %t, s0)
      kernel_call @triton_add(%t, %q, %o, s0)
      free %t
      return
    }
  }
  return %out
}
"""


def test_each_size_is_recorded_and_the_last_used_are_kept(fake_gpu: FakeGpu) -> None:
    program = parse_program(kernels(ADD) + SIZES)
    assert verify(program) == ()
    sizes = [example_symbols_of(program, seed) for seed in range(40)]
    calls = [(seed, CURRENT) for seed in range(40)]
    logs = [actions(log) for log in fake_gpu.logs(program, calls=calls)]
    kept: list[int] = []
    seen: dict[int, int] = {}
    for size, found in zip(sizes, logs, strict=True):
        if size in kept:
            assert found == ["replay"], size
        elif found[-1] == "replay":
            assert seen[size] >= 1
        seen[size] = seen.get(size, 0) + 1
        if found[-1] == "replay":
            kept = [size, *(other for other in kept if other != size)][:2]


BRANCHED = """
program @main(%x: f32[s0], %y: f32[s0]) {
  symbol s0: int 1..32 = size(%x, 0)
  %out = allocate f32[s0]
  graph_region @sums (%x, %y, %out) {
    body (%p: f32[s0], %q: f32[s0], %o: f32[s0]) {
      %t = conditional s0 <= 3 (%p, %q) : f32[s0] {
        true (%a: f32[s0], %b: f32[s0]) {
          %c = allocate f32[s0]
          kernel_call @triton_add(%a, %b, %c, s0)
          return %c
        }
        false (%d: f32[s0], %e: f32[s0]) {
          %f = allocate f32[s0]
          kernel_call @triton_add(%d, %d, %f, s0)
          %g = allocate f32[s0]
          kernel_call @triton_add(%e, %f, %g, s0)
          free %f
          return %g
        }
      }
      kernel_call @triton_add(%t, %q, %o, s0)
      free %t
      return
    }
  }
  return %out
}
"""


def test_recordings_have_the_branch_of_their_size(fake_gpu: FakeGpu) -> None:
    program = parse_program(kernels(ADD) + BRANCHED)
    assert verify(program) == ()
    seeds = [seed for seed in range(8) for _ in range(3)]
    logs = fake_gpu.logs(program, calls=[(seed, CURRENT) for seed in seeds])
    launched: dict[bool, set[int]] = {False: set(), True: set()}
    replayed = 0
    for seed, log in zip(seeds, logs, strict=True):
        found = actions(log)
        replayed += found == ["replay"]
        if found == ["launch"]:
            launches = sum(line.startswith("launch") for line in log)
            launched[example_symbols_of(program, seed) <= 3].add(launches)
    assert launched == {True: {2}, False: {3}}
    assert replayed >= 8  # the third call of each seed


def example_symbols_of(program: Program, seed: int) -> int:
    x = example_inputs(program, seed)[0]
    assert isinstance(x, torch.Tensor)
    return x.shape[0]


FORKED = """\
  %out = allocate f32[32]
  %r = graph_region @sums (%x, %y, %out) stream(OWN) : f32[32] {
    body (%p: f32[32], %q: f32[32], %o: f32[32]) {
      %a = allocate f32[32]
      kernel_call @triton_add(%p, %q, %a, 32) stream(OWN)
      %e = record_event stream(OWN)
      wait_event %e stream(SIDE)
      %b = allocate f32[32]
      kernel_call @triton_add(%a, %q, %b, 32) stream(SIDE)
      %c = allocate f32[32]
      kernel_call @triton_add(%a, %p, %c, 32) stream(OWN)
      free %a
      %f = record_event stream(SIDE)
      wait_event %f stream(OWN)
      kernel_call @triton_add(%b, %c, %o, 32) stream(OWN)
      free %c
      return %b
    }
  }
  %g = record_event stream(OWN)
  wait_event %g
  return %out, %r
"""


def forked(own: int = 0, side: int = 3) -> str:
    return FORKED.replace("OWN", str(own)).replace("SIDE", str(side))


@pytest.mark.parametrize(
    ("own", "side", "streams"),
    [
        (0, 3, ("current", "side0")),
        (5, 3, ("side0", "side1")),
        (5, 0, ("side0", "current")),
    ],
)
def test_streams_that_fork_and_join_are_recorded(
    fake_gpu: FakeGpu, own: int, side: int, streams: tuple[str, str]
) -> None:
    program = on_streams(forked(own, side))
    assert f'region_sums = {{"sums", 8, {int(own > 0)}, true}};' in text_of(on_gpu(program))
    calls = [(seed, CURRENT) for seed in range(8)]
    first, second, *later = fake_gpu.logs(program, calls=calls)
    mine, beside = streams
    launches = [line.split()[-1] for line in first if line.startswith("launch")]
    assert launches == [mine, beside, mine, mine]
    assert actions(second) == [*["capture", "launch"] * 4, "replay"]
    assert [actions(log) for log in later] == [["replay"]] * 6
    replays = [line.split()[2:] for line in later[-1] if line.startswith("replay")]
    assert replays == [["on", mine]]


def test_memory_of_a_region_is_freed_where_its_streams_have_met(fake_gpu: FakeGpu) -> None:
    program = on_streams(forked())
    text = text_of(on_gpu(program))
    assert "cuda_0_plan = {0, 1, 3, 0, 0};" in text  # the call has no block for it
    body = text[text.index("c.places = places;") :].split("\n  });")[0]
    assert body.index("c.t[a].reset();") > body.index("c.t[r].reset(")
    (first,) = fake_gpu.logs(program, calls=[(0, CURRENT)])
    launched = max(n for n, line in enumerate(first) if line.startswith("launch"))
    forks = ["event4 on current", "side0 waits for event4"]
    assert first[launched + 1 : launched + 3] == forks


def test_a_region_of_one_stream_frees_as_it_goes() -> None:
    side = "  %w = allocate f32[32]\n  kernel_call @triton_add(%x, %y, %w, 32) stream(2)\n"
    text = text_of(on_gpu(on_streams(side + SUMS + "  free %w\n  return %out, %r\n")))
    assert 'region_sums = {"sums", 2, 0, false};' in text
    body = text[text.index("c.places = places;") :].split("\n  });")[0]
    assert body.index("c.t[t_].reset();") < body.index("c.t[r].reset(")


def test_a_region_on_a_side_stream_is_replayed_there(fake_gpu: FakeGpu) -> None:
    text = SUMS.replace(", 32)\n", ", 32) stream(4)\n")
    text = text.replace("recordings(2)", "stream(4) recordings(2)")
    ends = "  %e = record_event stream(4)\n  wait_event %e\n  return %out, %r\n"
    program = on_streams(text + ends)
    calls = [(seed, CURRENT) for seed in range(4)]
    *_, last = fake_gpu.logs(program, calls=calls)
    assert [line.split()[2:] for line in last if line.startswith("replay")] == [
        ["on", "side0"]
    ]


def test_a_region_that_is_opened_frees_where_its_streams_have_met() -> None:
    zeroed = (
        "      %w = allocate f32[32] workspace(zero_on_call)\n      free %w\n      return"
    )
    text = text_of(on_gpu(on_streams(forked().replace("      return", zeroed))))
    reason = "it fills memory, or has a block, beside its stream"
    assert f"// graph region sums is not recorded: {reason}" in text
    body = text[text.index("is not recorded") :]
    assert body.index("c.t[a].reset();") > body.index("c.t[r].reset(")
    assert body.index("c.cuda_0->fork(1, 0);") > body.index("c.t[a].reset();")


AROUND = """  %m = allocate f32[32]
  kernel_call @triton_add(%x, %x, %m, 32)
  %n = allocate f32[32]
  graph_region @inside (%m, %y, %n) {
    body (%p: f32[32], %q: f32[32], %o: f32[32]) {
      %t = allocate f32[32]
      kernel_call @triton_add(%p, %q, %t, 32)
      kernel_call @triton_add(%t, %q, %o, 32)
      free %t
      return
    }
  }
  free %m
  %out = allocate f32[32]
  kernel_call @triton_add(%n, %y, %out, 32)
  free %n
  return %out
"""


def test_the_call_s_memory_moves_with_its_call(fake_gpu: FakeGpu) -> None:
    program = on_streams(AROUND)
    assert "_plan = {0, 0, 0, 256, 0}" in text_of(on_gpu(program))
    calls = [(seed, CURRENT) for seed in range(8)]
    logs = list(map(actions, fake_gpu.logs(program, calls=calls)))
    assert logs[-1] == ["launch", "replay", "launch"]


def test_threads_replay(fake_gpu: FakeGpu) -> None:
    program = on_streams(SUMS + "  return %out, %r\n")
    answer: dict[str, Any] = fake_gpu.ask(program, calls=(), threads=4)
    assert "error" not in answer, answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "count"), [(SUMS + "  return %out, %r\n", 60), (AROUND, 200)]
)
def test_operands_of_many_nodes_are_copied_in_the_graph(
    fake_gpu: FakeGpu, text: str, count: int
) -> None:
    line = "      kernel_call @triton_add(%t, %q, %o, 32)\n"
    program = on_streams(text.replace(line, line * 9))
    calls = [(seed, CURRENT) for seed in range(count)]
    logs = fake_gpu.logs(program, calls=calls)
    assert not any(line.startswith("copy") for log in logs for line in log)
    changed = [sum(line.startswith("set exec") for line in log) for log in logs]
    assert max(changed) >= 9
    _first, *later = (n for n, log in enumerate(logs) if "begin pool of 0" in log)
    assert (
        min(changed[later[-1] + 1 :]) < 9
    )  # the copies are changed in place of the launches


DOUBLE = """\
program @main(%x: mutated f32[32]) {
  %v = reinterpret %x as f32[32]
  graph_region @double (%x, %v) {
    body (%p: f32[32], %q: f32[32]) {
LINES
      return
    }
  }
  free %v
  return %x
}
"""


def test_copies_never_separate_operands_that_share_memory(fake_gpu: FakeGpu) -> None:
    lines = ["      kernel_call @triton_add(%p, %q, %q, 32)"] * 9
    program = parse_program(kernels(ADD) + DOUBLE.replace("LINES", "\n".join(lines)))
    assert verify(program) == ()
    calls = [(seed, CURRENT) for seed in range(40)]
    logs = list(map(actions, fake_gpu.logs(program, calls=calls, are_inputs_kept=True)))
    assert logs[2] == ["replay"]
    assert logs[-1] == ["launch"], "operands of many nodes that move often are copied"


def test_how_much_is_written_tells_of_gaps() -> None:
    wide = "%out = reinterpret %wide as f32[s0, 64; stride 80, 1]@cuda:0\n  %r = "
    text = LAYER.replace("%out = allocate f32[s0, 64]", "%wide = allocate f32[s0, 80]")
    text = text.replace("  return %out", "  free %wide\n  return %out")
    text = text.replace("%r = ", wide).replace(
        "%o: f32[s0, 64]", "%o: f32[s0, 64; stride 80, 1]"
    )
    program = parse_program(text)
    assert verify(program) == ()
    extent = "num::mul(num::add(num::add(1, num::mul(num::sub(c.s0, 1), 80)), 63), 4)"
    elements = "num::mul(num::mul(4, c.s0), 64)"
    assert f"{{c.p[wide], {extent}, {elements}}}}}" in text_of(program)


NESTED = """
program @main(%x: f32[s0], %y: f32[s0]) {
  symbol s0: int 1..32 = size(%x, 0)
  %r = conditional s0 > 3 (%x, %y) : f32[s0] {
    true (%a: f32[s0], %b: f32[s0]) {
      %o = allocate f32[s0]
      graph_region @many (%a, %b, %o) {
        body (%p: f32[s0], %q: f32[s0], %t: f32[s0]) {
          kernel_call @triton_add(%p, %q, %t, s0)
          return
        }
      }
      return %o
    }
    false (%c: f32[s0], %d: f32[s0]) {
      %g = graph_region @few (%c, %d) : f32[s0] {
        body (%e: f32[s0], %f: f32[s0]) {
          %u = allocate f32[s0]
          kernel_call @triton_add(%e, %f, %u, s0)
          return %u
        }
      }
      return %g
    }
  }
  return %r
}
"""


def test_regions_of_nested_blocks_replay(fake_gpu: FakeGpu) -> None:
    program = parse_program(kernels(ADD) + NESTED)
    assert verify(program) == ()
    sizes = [example_symbols_of(program, seed) for seed in range(12)]
    assert {size > 3 for size in sizes} == {True, False}
    calls = [(seed, CURRENT) for seed in range(12) for _ in range(3)]
    logs = [actions(log) for log in fake_gpu.logs(program, calls=calls)]
    assert all(found == ["replay"] for found in logs[2::3])


@pytest.mark.parametrize(
    "name",
    [
        *("cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphGetNodes"),
        *("cuGraphNodeGetType", "cuGraphInstantiateWithFlags"),
    ],
)
def test_a_recording_that_fails_leaves_nothing(fake_gpu: FakeGpu, name: str) -> None:
    program = on_streams(SUMS + "  return %out, %r\n")
    calls = [(seed, CURRENT) for seed in range(4)]
    answer = fake_gpu.ask(program, calls=calls, failing={"1": name})
    assert "error" not in answer, answer
    logs = [actions(log.splitlines())[-1] for log in answer["logs"]]
    assert logs == ["launch"] * 4
    assert answer["graphs"] == 0


@pytest.mark.parametrize("name", ["cuGraphLaunch", "cuGraphExecKernelNodeSetParams_v2"])
def test_a_call_whose_replay_fails_says_so(fake_gpu: FakeGpu, name: str) -> None:
    program = on_streams(SUMS + "  return %out, %r\n")
    calls = [(seed, CURRENT) for seed in range(12)]
    answer = fake_gpu.ask(program, calls=calls, are_inputs_kept=True, failing={"7": name})
    assert "error" not in answer, answer
    logs = [actions(log.splitlines())[-1] for log in answer["logs"]]
    assert logs == ["launch", *["replay"] * 6, "failed", *["replay"] * 4]
    assert "graph_region @sums" in answer["logs"][7]
    assert "failed: CUDA_ERROR_INVALID_VALUE" in answer["logs"][7]
    assert answer["graphs"] == 0
