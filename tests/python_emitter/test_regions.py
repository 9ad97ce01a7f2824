"""Graph regions in emitted Python: the text; and the decision of when to record."""

from typing import Any

import pytest

from wrapperir.emit.support import fit_program
from wrapperir.kernels.emitted.graphs import Recorder
from wrapperir.testing.process_groups import has_groups, make_groups
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

LAYER = """\
wrapperir 1

program @main(%x: f32[s0, 64]@cuda:0, %w: f32[64, 64]@cuda:0) {
  symbol s0: int 1..1024 = size(%x, 0)
  constant %c: f32[64]@cuda:0 = "c"

  %out = allocate f32[s0, 64]@cuda:0
  %r = graph_region @layer (%x, %w, %out) @cuda:0 recordings(4) : f32[s0, 64]@cuda:0 {
    body (%p: f32[s0, 64]@cuda:0, %q: f32[64, 64]@cuda:0, %o: f32[s0, 64]@cuda:0) {
      %t = allocate f32[s0, 64]@cuda:0
      extern_kernel aten.mm.out(%p, %q, out = %t) writes(%t) @cuda:0
      %u = extern_kernel aten.add.Tensor(%t, %c, alpha = 1) @cuda:0 : f32[s0, 64]@cuda:0
      free %t
      extern_kernel aten.relu.out(%u, out = %o) writes(%o) @cuda:0
      return %u
    }
  }
  return %out, %r
}
"""


def emitted(text: str, *, checks_memory: bool = False) -> str:
    program = parse_program(text)
    assert not verify(program)
    emitter = PythonEmitter()
    artifact = (emitter.checking_memory() if checks_memory else emitter).emit(program)
    entry = artifact.files[artifact.entry]
    assert isinstance(entry, str)
    return entry


def test_a_region_is_a_function_of_its_tensors_constants_and_numbers() -> None:
    text = emitted(LAYER)
    assert (
        """
def layer(x, w, out, c, s0):
    t = empty_strided_cuda((s0, 64), (64, 1), float32)
    aten_mm_out(x, w, out=t)
    u = aten_add_Tensor(t, c, alpha=1)
    del t
    aten_relu_out(u, out=out)
    r = u
    del u
    return (r,)


layer = graphs.region(
    layer, tensors=4, numbers=1, written=(2,), device=0, recordings=4,
)
"""
        in text
    )
    assert "\n        (r,) = layer(x, w, out, c, s0)\n        return (out, r)\n" in text


def test_constants_that_the_program_writes_count_as_written() -> None:
    text = LAYER.replace("constant %c: f32", "constant %c: mutated f32")
    assert "    layer, tensors=4, numbers=1, written=(2, 3), device=0" in emitted(text)


@pytest.mark.parametrize("checks_memory", [False, True])
def test_other_regions_are_written_in_place(checks_memory: bool) -> None:
    text = LAYER if checks_memory else LAYER.replace("@cuda:0", "")
    shown = emitted(text, checks_memory=checks_memory)
    reason = "its memory is checked" if checks_memory else "cpu has no graphs"
    assert f"# graph region layer is not recorded: {reason}" in shown
    assert "graphs" not in shown.replace("no graphs", "")


def test_a_region_of_a_program_with_side_streams_waits_for_no_stream_of_its_own() -> None:
    side = "  extern_kernel aten.neg.out(%x, out = %out) writes(%out) @cuda:0 stream(1)\n"
    text = LAYER.replace("  %r = graph", f"{side}  %r = graph")
    program = parse_program(text)  # a race, which does not matter here
    artifact = PythonEmitter().emit(program)
    shown = str(artifact.files[artifact.entry])
    function, _ = shown[shown.index("def layer(") :].split("layer = graphs.region(", 1)
    assert "stream" not in function
    assert "        x.record_stream(cuda_0_stream_1)\n" in shown


def test_a_region_on_another_gpu_than_the_first_makes_it_current() -> None:
    text = LAYER.replace("cuda:0", "cuda:1").replace("%x:", "%first: f32[8]@cuda:0, %x:", 1)
    free = "  %f = allocate f32[8]@cuda:0\n  free %f\n"
    text = text.replace("\n  %out = ", f"\n{free}  %out = ", 1)
    shown = emitted(text)
    assert "    t = empty_strided_cuda((s0, 64), (64, 1), float32)\n" in shown
    assert "device=1, recordings=4," in shown
    assert "with torch.cuda._DeviceGuard(1): (r,) = layer(x, w, out, c, s0)\n" in shown
    assert "        out = empty_strided((s0, 64), (64, 1), dtype=" in shown


def test_a_number_that_is_an_operand_is_given_by_its_name() -> None:
    text = """\
wrapperir 1

program @main(%x: f32[8]@cuda:0, %n: f64, %k: i64) {
  symbol k: int 0..8 = value(%k)
  %r = graph_region @scaled (%x, %n, k + 1) @cuda:0 : f32[8]@cuda:0 {
    body (%p: f32[8]@cuda:0, %q: f64, %m: i64) {
      %a = extern_kernel aten.mul.Scalar(%p, %q) @cuda:0 : f32[8]@cuda:0
      %b = extern_kernel aten.add.Scalar(%a, %m, 1) @cuda:0 : f32[8]@cuda:0
      free %a
      return %b
    }
  }
  return %r
}
"""
    shown = emitted(text)
    assert "def scaled(x, k_, n):\n    m = k_ + 1\n" in shown
    assert "(r,) = scaled(x, k_, n)" in shown


RANKS = """\
wrapperir 1

program @main(%x: mutated f32[8]@cuda:0, %y: f32[8]@cuda:0) {
  group "tensors" size 2

  graph_region @sums (%x, %y) @cuda:0 {
    body (%p: f32[8]@cuda:0, %q: f32[8]@cuda:0) {
      %a = extern_kernel aten.add.Tensor(%p, %q) @cuda:0 : f32[8]@cuda:0
      %w = collective all_reduce(sum) "tensors" reads(%a) writes(%a) @cuda:0
      wait_collective %w reads(%a) writes(%a) @cuda:0
      %v = reinterpret %p as f32[4]@cuda:0
      %k = collective all_reduce(sum) "tensors" reads(%v) writes(%v) @cuda:0
      wait_collective %k reads(%v) writes(%v) @cuda:0
      free %v
      extern_kernel aten.add.out(%p, %a, out = %p) writes(%p) @cuda:0
      free %a
      return
    }
  }
  return %x
}
"""
"""A region whose collectives have memory of its own, and half of an operand."""


def called(text: str) -> str:
    """Return a program whose collectives are operator calls, as emitters get them."""
    return format_program(fit_program(parse_program(text), PythonEmitter.support))


def test_a_region_with_collectives_names_groups_and_what_they_are_given() -> None:
    shown = emitted(called(RANKS))
    assert "written=(0,), device=0, recordings=8,\n" in shown
    assert "\n    groups=('tensors',), fixed=(0,),\n)\n" in shown


def test_collectives_of_other_backends_are_not_recorded() -> None:
    """A gloo group does its work on the host."""
    alone = parse_program(RANKS.replace("size 2", "size 1"))
    if not has_groups(alone):
        pytest.skip("needs torch.distributed with gloo")
    make_groups(alone)
    recorder = Recorder(lambda *_: "plain", 0, frozenset(), 0, ("tensors",))
    assert recorder.run((), b"a", (), 0) == "plain"
    reason = "the collectives of group 'tensors' are not NCCL's"
    with pytest.warns(RuntimeWarning, match=reason):
        assert recorder.run((), b"a", (), 0) == "plain"


class Recording(Recorder):
    """A recorder whose recordings are marks in a list."""

    def __init__(self, failing: bool = False) -> None:
        def block(*given: Any) -> str:
            return "plain"

        super().__init__(block, 1, frozenset(), 0)
        self.recorded: list[tuple[bytes, frozenset[int]]] = []
        self.failing = failing
        self.native = lambda *_: "replayed"

    def _record(
        self, arguments: tuple[Any, ...], key: bytes, copied: frozenset[int], stream: int
    ) -> None:
        if self.failing:
            raise RuntimeError("no such capture\nmore")
        self.recorded.append((key, copied))


def test_the_second_call_with_a_key_is_recorded() -> None:
    recorder = Recording()
    shown = [recorder.run((), key, (), 0) for key in (b"a", b"b", b"a", b"b")]
    assert shown == ["plain", "plain", "replayed", "replayed"]


def test_a_key_that_was_dropped_is_recorded_later_and_later() -> None:
    recorder = Recording()
    shown = [recorder.run((), b"a", (), 0) for _ in range(12)]
    plain = [index for index, result in enumerate(shown) if result == "plain"]
    assert [index for index in range(12) if index not in plain] == [1, 4, 9]


def test_what_is_to_be_copied_stays_copied() -> None:
    recorder = Recording()
    for to_copy in ((), (), (2,), (0,)):
        recorder.run((), b"a", to_copy, 0)
    assert recorder.recorded == [
        (b"a", frozenset()),
        (b"a", frozenset({2})),
        (b"a", frozenset({0, 2})),
    ]


def test_a_failure_is_said_once_and_the_block_runs() -> None:
    recorder = Recording(failing=True)
    recorder.run((), b"a", (), 0)
    with pytest.warns(RuntimeWarning, match=r"^block is not replayed as a graph: no such"):
        assert recorder.run((), b"a", (), 0) == "plain"
    for key in (b"b", b"b", b"a", b"a"):
        assert recorder.run((), key, (), 0) == "plain"


def test_few_keys_are_remembered() -> None:
    recorder = Recording()
    for number in range(2000):
        recorder.run((), str(number).encode(), (), 0)
    assert len(recorder.seen) < 300
