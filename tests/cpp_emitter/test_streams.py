"""Streams, events and memory of a GPU, as a driver that is made up sees them."""

from typing import Any

import pytest

from tests.cpp_emitter.gpu_requests import CURRENT, FakeGpu
from tests.cpp_emitter.moved import on_gpu
from wrapperir.ir import Language, Program, ZeroMode, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter

ADD = library_kernel(KernelKind.ADD, Language.TRITON)
SCRATCH = library_kernel(KernelKind.SCRATCH_ADD, Language.TRITON)
TYPE = tensor("f32", (32,))


def kernels(*definitions: Any) -> str:
    builder = ProgramBuilder()
    for definition in definitions:
        builder.kernel(definition)
    return format_program(builder.build()).partition("program @main")[0]


def on_streams(lines: str) -> Program:
    text = kernels(ADD, SCRATCH) + (
        "program @main(%x: f32[32], %y: f32[32]) {\n" + lines + "}\n"
    )
    program = parse_program(text)
    assert verify(on_gpu(program)) == ()
    return program


TWO_STREAMS = on_streams("""\
  %a = allocate f32[32]
  kernel_call @triton_add(%x, %y, %a, 32) stream(3)
  %e = record_event stream(3)
  %b = allocate f32[32]
  kernel_call @triton_add(%x, %x, %b, 32) stream(7)
  wait_event %e stream(7)
  %c = allocate f32[32]
  kernel_call @triton_add(%a, %b, %c, 32) stream(7)
  %f = record_event stream(7)
  free %a
  wait_event %f
  free %b
  %d = allocate f32[32]
  kernel_call @triton_add(%c, %c, %d, 32)
  free %c
  return %d
""")

LAUNCH = "grid 2 1 1 block 32 1 1 shared 0 on"
FORK = ["event4 on current", "side0 waits for event4", "side1 waits for event4"]
JOIN = [
    *("event0 on side0", "current waits for event0"),
    *("event1 on side1", "current waits for event1"),
]


def test_streams_begin_and_end_with_the_current_one(fake_gpu: FakeGpu) -> None:
    first, second = fake_gpu.logs(TWO_STREAMS)
    assert [line for line in first if "flags" in line] == [
        *("stream side0 flags 1", "event0 flags 2"),
        *("stream side1 flags 1", "event1 flags 2"),
        *(f"event{number} flags 2" for number in (2, 3, 4, 5)),
    ]
    assert second == [
        *("guard 0", "allocate 384"),
        *FORK,
        f"launch add {LAUNCH} side0",
        "event2 on side0",
        f"launch add {LAUNCH} side1",
        "side1 waits for event2",
        f"launch add {LAUNCH} side1",
        "event3 on side1",
        "current waits for event3",
        f"launch add {LAUNCH} current",
        *JOIN,
        "event5 on current",
        *("deallocate 384", "unguard"),
    ]


def test_a_call_on_another_stream_waits_for_the_last(fake_gpu: FakeGpu) -> None:
    _, second, third = fake_gpu.logs(
        TWO_STREAMS, calls=((0, CURRENT), (1, 0x1230), (2, 0x1230))
    )
    waits = "current waits for event5"
    assert second.index(waits) < second.index("event4 on current")
    assert waits not in third


def test_zeroing_comes_after_all_and_before_all(fake_gpu: FakeGpu) -> None:
    program = on_streams("""\
  %a = allocate f32[32]
  kernel_call @triton_add(%x, %y, %a, 32) stream(1)
  %w = allocate f32[32] workspace(zero_on_call)
  %e = record_event
  wait_event %e stream(1)
  %b = allocate f32[32]
  kernel_call @triton_scratch_add(%a, %w, %b, 32) stream(1)
  free %w
  free %a
  return %b
""")
    _, log = fake_gpu.logs(program)
    zeroed = log.index("memset 0 128 on current")
    begin = next(n for n, line in enumerate(log) if line.startswith("launch add"))
    assert log[begin + 1 : zeroed] == ["event0 on side0", "current waits for event0"]
    # The output's own memory is allocated on the stream that first uses it.
    assert log[zeroed + 1 : zeroed + 7] == [
        *("event2 on current", "side0 waits for event2"),
        *("event1 on current", "side0 waits for event1"),
        *("enter side0", "leave side0"),
    ]


def test_a_workspace_is_zeroed_once_for_all_calls(fake_gpu: FakeGpu) -> None:
    b = ProgramBuilder()
    x = b.input(TYPE)
    b.kernel(SCRATCH)
    workspace = b.allocate(TYPE, workspace=ZeroMode.ZERO_PER_PROGRAM)
    out = b.allocate(TYPE)
    b.call(SCRATCH, x, workspace, out, 32)
    calls = ((0, CURRENT), (1, CURRENT), (2, 0x1230))
    first, second, third = fake_gpu.logs(b.build(out), calls=calls)
    assert first.count("memset 0 128 on current") == 1
    assert not [line for line in (*second, *third) if "memset" in line]
    assert "current waits for event0" not in second
    assert "current waits for event0" in third


def test_memory_of_a_call_is_freed_when_it_fails(fake_gpu: FakeGpu) -> None:
    program = on_streams("""\
  %a = allocate f32[32]
  kernel_call @triton_add(%x, %y, %a, 32) stream(1)
  %n = reinterpret %a as f32[]
  symbol_definition k: float = item(%n)
  free %n
  assert_scalar k < -10000.0 "it is not"
  %b = allocate f32[32]
  kernel_call @triton_add(%a, %y, %b, 32) stream(1)
  free %a
  return %b
""")
    answer = fake_gpu.ask(program, calls=((0, CURRENT),))
    assert "it is not" in answer["error"]
    log = answer["logs"][0].splitlines()
    assert log[-5:] == [
        *("event0 on side0", "current waits for event0", "event2 on current"),
        *("deallocate 128", "unguard"),
    ]
    assert answer["left"] == 0


def test_several_threads_have_a_frame_each(fake_gpu: FakeGpu) -> None:
    answer = fake_gpu.ask(TWO_STREAMS, calls=(), threads=4)
    assert "error" not in answer, answer
    assert answer["left"] == 0


def test_a_program_of_one_stream_has_no_events() -> None:
    program = on_streams("""\
  %e = record_event
  wait_event %e
  %a = allocate f32[32]
  kernel_call @triton_add(%x, %y, %a, 32)
  return %a
""")
    text = str(CppEmitter().emit(on_gpu(program)).files["program.cpp"])
    for absent in ("record(", "wait(", "join(", "fork(", "OnStream"):
        assert absent not in text
    assert "cuda_0_plan = {0, 0, 0, 0, 0};" in text


@pytest.mark.parametrize("stream", [0, 1])
def test_memory_is_shared_in_one_stream_alone(stream: int) -> None:
    at = f" stream({stream})" if stream else ""
    program = on_streams(f"""\
  %a = allocate f32[32]
  kernel_call @triton_add(%x, %y, %a, 32){at}
  %b = allocate f32[32]
  kernel_call @triton_add(%a, %y, %b, 32){at}
  free %a
  %c = allocate f32[32]
  kernel_call @triton_add(%b, %y, %c, 32){at}
  free %b
  free %c
  %d = allocate f32[32]
  kernel_call @triton_add(%x, %y, %d, 32){at}
  return %d
""")
    text = str(CppEmitter().emit(on_gpu(program)).files["program.cpp"])
    bytes = 384 if stream else 256
    assert f"{bytes}, 0}};" in text
    assert ("take_block(0)" in text) == ("drop_block()" in text) == (not stream)


def test_a_block_does_not_raise_the_peak() -> None:
    program = on_streams("""\
  %a = allocate f32[32]
  kernel_call @triton_add(%x, %y, %a, 32)
  %b = allocate f32[32]
  kernel_call @triton_add(%a, %y, %b, 32)
  free %a
  %c = allocate f32[32]
  kernel_call @triton_add(%b, %y, %c, 32)
  free %b
  %d = allocate f32[32]
  kernel_call @triton_add(%c, %y, %d, 32)
  free %c
  return %d
""")
    text = str(CppEmitter().emit(on_gpu(program)).files["program.cpp"])
    assert "block(" not in text  # beside %d, a block for two buffers would be one too many
