"""Streams and events of a GPU: what is written for them, and that it runs."""

import pytest
import torch

from wrapperir.emit import Value
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

SIZE = 512
PROGRAM = f"""\
wrapperir 1

program @main(%x: TYPE, %w: TYPE) {{
  %p = allocate_pool pool[{SIZE * SIZE * 8}]@cuda:0
  %a = place TYPE in %p at 0
  extern_kernel aten.mul.out(%x, %w, out = %a) writes(%a) @cuda:0 stream(1)
  %b = place TYPE in %p at {SIZE * SIZE * 4}
  extern_kernel aten.add.out(%w, %x, out = %b) writes(%b) @cuda:0 stream(2)
  %e = record_event @cuda:0 stream(1)
  wait_event %e @cuda:0 stream(2)
  %c = allocate TYPE
  extern_kernel aten.sub.out(%a, %b, out = %c) writes(%c) @cuda:0 stream(2)
  %f = record_event @cuda:0 stream(2)
  wait_event %f @cuda:0
  free %a
  %d = place TYPE in %p at 0 workspace(zero_on_call)
  extern_kernel aten.add_.Tensor(%d, %c) writes(%d) @cuda:0
  free %c
  free %b
  free %p
  %g = extern_kernel aten.neg.default(%d) @cuda:0 : TYPE
  free %d
  %h = record_event @cuda:0
  wait_event %h @cuda:0 stream(1)
  %o = extern_kernel aten.abs.default(%g) @cuda:0 stream(1) : TYPE
  free %g
  free %h
  %m = extern_kernel aten.max.default(%o) @cuda:0 stream(1) : f32[]@cuda:0
  symbol_definition k: float = item(%m)
  free %m
  return %o, k
}}
""".replace("TYPE", f"f32[{SIZE}, {SIZE}]@cuda:0")

CALL = """\
        cuda_0_stream_0 = torch.cuda.current_stream(0)
        cuda_0_stream_1.wait_stream(cuda_0_stream_0)
        cuda_0_stream_2.wait_stream(cuda_0_stream_0)
        with torch.cuda.stream(cuda_0_stream_1):
            p = empty_strided_cuda((524288,), (1,), float32)
        cuda_0_stream_2.wait_stream(cuda_0_stream_1)
        cuda_0_stream_0.wait_stream(cuda_0_stream_1)
        p_at_0_f32 = reinterpret_tensor(p, (512, 512), (512, 1), 0)
        # a is p_at_0_f32: f32[512, 512]@cuda:0
        with torch.cuda.stream(cuda_0_stream_1):
            aten_mul_out(x, w, out=p_at_0_f32)
        x.record_stream(cuda_0_stream_1)
        w.record_stream(cuda_0_stream_1)
        p_at_1048576_f32 = reinterpret_tensor(p, (512, 512), (512, 1), 262144)
        # b is p_at_1048576_f32: f32[512, 512]@cuda:0
        with torch.cuda.stream(cuda_0_stream_2):
            aten_add_out(w, x, out=p_at_1048576_f32)
        w.record_stream(cuda_0_stream_2)
        x.record_stream(cuda_0_stream_2)
        p_at_1048576_f32.record_stream(cuda_0_stream_2)
        e = cuda_0_stream_1.record_event()
        cuda_0_stream_2.wait_event(e)
        with torch.cuda.stream(cuda_0_stream_2):
            c = empty_strided_cuda((512, 512), (512, 1), float32)
        with torch.cuda.stream(cuda_0_stream_2):
            aten_sub_out(p_at_0_f32, p_at_1048576_f32, out=c)
        f = cuda_0_stream_2.record_event()
        cuda_0_stream_0.wait_event(f)
        # d is p_at_0_f32: f32[512, 512]@cuda:0
        cuda_0_stream_0.wait_stream(cuda_0_stream_1)
        cuda_0_stream_0.wait_stream(cuda_0_stream_2)
        p_at_0_f32.zero_()
        p_at_0_f32.record_stream(cuda_0_stream_0)
        cuda_0_stream_1.wait_stream(cuda_0_stream_0)
        cuda_0_stream_2.wait_stream(cuda_0_stream_0)
        aten_add__Tensor(p_at_0_f32, c)
        c.record_stream(cuda_0_stream_0)
        del c
        g = aten_neg_default(p_at_0_f32)
        del p, p_at_0_f32, p_at_1048576_f32
        h = cuda_0_stream_0.record_event()
        cuda_0_stream_1.wait_event(h)
        with torch.cuda.stream(cuda_0_stream_1):
            o = aten_abs_default(g)
        g.record_stream(cuda_0_stream_1)
        del g
        del h
        with torch.cuda.stream(cuda_0_stream_1):
            m = aten_max_default(o)
        cuda_0_stream_0.wait_stream(cuda_0_stream_1)
        cuda_0_stream_0.wait_stream(cuda_0_stream_2)
        k = m.item()
        del m
        o.record_stream(cuda_0_stream_0)
        cuda_0_stream_0.wait_stream(cuda_0_stream_1)
        cuda_0_stream_0.wait_stream(cuda_0_stream_2)
        return (o, k)
"""


def test_streams_meet_where_the_program_says_so() -> None:
    program = parse_program(PROGRAM)
    assert verify(program) == ()
    text = str(PythonEmitter(trusts_inputs=True).emit(program).files["program.py"])
    assert text.endswith(CALL)
    for number in (1, 2):
        assert f"\ncuda_0_stream_{number} = torch.cuda.Stream(0)\n" in text


def test_a_program_of_one_stream_says_nothing_of_streams() -> None:
    text = """\
wrapperir 1

program @main(%x: f32[8]@cuda:0) {
  %e = record_event @cuda:0
  wait_event %e @cuda:0
  %r = extern_kernel aten.neg.default(%x) @cuda:0 : f32[8]@cuda:0
  return %r
}
"""
    emitted = str(
        PythonEmitter(trusts_inputs=True).emit(parse_program(text)).files["program.py"]
    )
    assert "stream" not in emitted
    assert "event" not in emitted


CONDITIONAL = """\
  conditional %p () {
    true () {
      return
    }
    false () {
      return
    }
  }
"""
WHILE_LOOP = """\
  %r = while_loop (%y) () : bool[]@cuda:0 {
    condition (%c: bool[]@cuda:0) {
      %go = extern_kernel aten.any.default(%c) @cuda:0 : bool[]@cuda:0
      return %go
    }
    body (%b: bool[]@cuda:0) {
      %next = extern_kernel aten.logical_not.default(%b) @cuda:0 : bool[]@cuda:0
      return %next
    }
  }
  free %r
"""


@pytest.mark.parametrize(
    ("block", "begin"), [(CONDITIONAL, "if p:"), (WHILE_LOOP, "r = y\n")]
)
def test_a_block_that_the_host_decides_on_waits_for_all(block: str, begin: str) -> None:
    program = parse_program(f"""\
wrapperir 1

program @main(%x: f32[8]@cuda:0, %y: bool[]@cuda:0) {{
  %p = extern_kernel aten.any.default(%x) @cuda:0 stream(1) : bool[]@cuda:0
{block}  free %p
  return
}}
""")
    assert verify(program) == ()
    text = str(PythonEmitter(trusts_inputs=True).emit(program).files["program.py"])
    before, _ = text.split(f"        {begin}")
    launched = before.rindex("p = ")
    assert "cuda_0_stream_0.wait_stream(cuda_0_stream_1)" in before[launched:]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_memory_is_not_given_away_too_early() -> None:
    emitter = PythonEmitter()
    call = emitter.load(emitter.emit(parse_program(PROGRAM)), {})
    x, w = (torch.rand(SIZE, SIZE, device="cuda") for _ in range(2))
    wanted = (x * w - (w + x)).neg().abs()
    for _ in range(100):
        given: list[Value] = [x, w]
        out, largest = call(given)
        torch.full((SIZE, SIZE), torch.nan, device="cuda")
        assert isinstance(out, torch.Tensor)
        assert torch.equal(out, wanted)
        assert largest == wanted.max().item()


REGION = """\
wrapperir 1

program @main(%x: f32[8]@cuda:0) {
  %a = allocate f32[8]@cuda:0
  %y = graph_region @region (%x, %a) @cuda:0 stream(1) : f32[8]@cuda:0 {
    body (%p: f32[8]@cuda:0, %q: f32[8]@cuda:0) {
      %e = record_event @cuda:0 stream(1)
      wait_event %e @cuda:0 stream(2)
      extern_kernel aten.neg.out(%p, out = %q) writes(%q) @cuda:0 stream(2)
      %f = record_event @cuda:0 stream(2)
      wait_event %f @cuda:0 stream(1)
      %b = extern_kernel aten.abs.default(%q) @cuda:0 stream(1) : f32[8]@cuda:0
      return %b
    }
  }
  %g = record_event @cuda:0 stream(1)
  wait_event %g @cuda:0
  %z = extern_kernel aten.add.Tensor(%y, %a) @cuda:0 : f32[8]@cuda:0
  free %a
  free %y
  return %z
}
"""

REGION_FUNCTION = """\
def region(x, a):
    region_stream_1 = torch.cuda.current_stream(0)
    region_stream_2 = graphs.side_stream(0, 2)
    e = region_stream_1.record_event()
    region_stream_2.wait_event(e)
    with torch.cuda.stream(region_stream_2):
        aten_neg_out(x, out=a)
    x.record_stream(region_stream_2)
    a.record_stream(region_stream_2)
    f = region_stream_2.record_event()
    region_stream_1.wait_event(f)
    b = aten_abs_default(a)
    y = b
    del b
    return (y,)
"""

REGION_CALL = """\
        with torch.cuda.stream(cuda_0_stream_1):
            a = empty_strided_cuda((8,), (1,), float32)
        x.record_stream(cuda_0_stream_1)
        with torch.cuda.stream(cuda_0_stream_1):
            (y,) = region(x, a)
        g = cuda_0_stream_1.record_event()
        cuda_0_stream_0.wait_event(g)
        z = aten_add_Tensor(y, a)
        y.record_stream(cuda_0_stream_0)
        a.record_stream(cuda_0_stream_0)
"""


def test_a_graph_region_is_on_its_streams() -> None:
    program = parse_program(REGION)
    assert verify(program) == ()
    text = str(PythonEmitter().emit(program).files["program.py"])
    assert REGION_FUNCTION in text
    assert REGION_CALL in text


def test_work_on_a_stream_that_a_replay_did_is_told_of_again() -> None:
    text = REGION.replace(
        "  %z = ",
        "  wait_event %g @cuda:0 stream(2)\n"
        "  %n = extern_kernel aten.neg.default(%a) @cuda:0 stream(2) : f32[8]@cuda:0\n"
        "  free %n\n  %z = ",
    )
    program = parse_program(text)
    assert verify(program) == ()
    shown = str(PythonEmitter().emit(program).files["program.py"])
    assert shown.count("a.record_stream(region_stream_2)") == 1
    assert shown.count("a.record_stream(cuda_0_stream_2)") == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("stream(2)", "stream(0)", "stream 0 works beside its stream"),
        (
            "%b = ",
            "%w = allocate f32[8]@cuda:0 workspace(zero_on_call)\n"
            "      free %w\n      %b = ",
            "it fills memory, or has a block, beside its stream",
        ),
    ],
)
def test_a_region_that_stream_0_works_in_is_written_in_place(
    old: str, new: str, reason: str
) -> None:
    program = parse_program(REGION.replace(old, new))
    text = str(PythonEmitter().emit(program).files["program.py"])
    assert f"# graph region region is not recorded: {reason}" in text
