"""Programs on the OpenCL device: memory, checks of inputs, threads, refusals."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import compile_program, emit_program, write_artifact
from wrapperir.plugin import plugin_manager
from wrapperir.text import parse_program
from wrapperir_opencl.emitter import OpenclEmitter
from wrapperir_opencl.renderer import OpenclRenderer

KERNELS = """\
wrapperir 1

kernel_definition @scale opaque(x: read f32*, out: write f32*, by: f32, n: i64) {
  grid = (n)
  entry = scale
  metadata "opencl.language" = "C 1.2"
  source {
    | kernel void scale(global const float *x, long x0, global float *out, long o0,
    |                   float by, long n) {
    |   const long i = get_global_id(0); // "quoted" ??/ \\ end
    |   out[o0 + i] = x[x0 + i] * by;
    | }
  }
}
"""
SCALE = (
    KERNELS
    + """
program @main(%x: f32[s0]@opencl:0, %by: f64) {
  symbol s0: int 1..100 = size(%x, 0)
  symbol f0: float = value(%by)
  %out = allocate f32[s0]@opencl:0
  kernel_call @scale(%x, %out, f0, s0) @opencl:0
  return %out, s0 * 2
}
"""
)
EMITTER = OpenclEmitter()


def run(text: str, *inputs: object) -> tuple[object, ...]:
    """Return the outputs of a program."""
    return compile_program(parse_program(text), emitter=EMITTER)(list(inputs))  # type: ignore[arg-type]


def refusals(text: str) -> list[tuple[Code, str]]:
    """Return the codes and messages with which a program is refused."""
    with pytest.raises(DiagnosticError) as caught:
        emit_program(parse_program(text), EMITTER)
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_the_plugin_is_installed() -> None:
    (plugin,) = [p for p in plugin_manager().plugins if p.name == "opencl"]
    assert plugin.distribution == "wrapperir-emitter-opencl"
    assert isinstance(plugin_manager().emitter("opencl"), OpenclEmitter)
    (renderer,) = plugin_manager().renderers("opencl")
    assert isinstance(renderer, OpenclRenderer)


@pytest.mark.device
def test_symbols_and_numbers_are_those_of_the_inputs() -> None:
    call = compile_program(parse_program(SCALE), emitter=EMITTER)
    for size in (1, 7, 100):
        x = torch.randn(size)
        found, number = call([x, 0.5])
        assert torch.equal(found, x * 0.5)  # type: ignore[arg-type]
        assert number == 2 * size


WRONG = [
    ([torch.ones(3)], "WIR800: 2 inputs needed, 1 given"),
    ([3, 0.5], "WIR801: %x needs a tensor, not an int"),
    ([torch.ones(3), "a"], "WIR801: %by needs a number, not a str"),
    ([torch.ones(3), torch.tensor(2.0)], "WIR801: %by needs a number, not a Tensor"),
    ([torch.ones(3).double(), 0.5], "WIR801: %x needs elements of f32, not f64"),
    ([torch.ones(3, 1), 0.5], "WIR801: %x needs 1 dimensions, not 2"),
    ([torch.ones(6)[::2], 0.5], "WIR801: %x needs stride [1], not [2]"),
    ([torch.ones(101), 0.5], "Expected s0 >= 1 and s0 <= 100 but received 101"),
    ([torch.ones(0), 0.5], "Expected s0 >= 1 and s0 <= 100 but received 0"),
    ([torch.ones(3, device="meta"), 0.5], "%x needs memory of the host, not of meta"),
    ([torch.ones(3).to_sparse(), 0.5], "%x needs a tensor with strides, not torch.sparse"),
]


@pytest.mark.device
def test_wrong_inputs_are_refused_and_nothing_is_kept() -> None:
    call = compile_program(parse_program(SCALE), emitter=EMITTER)
    for inputs, message in WRONG:
        with pytest.raises(RuntimeError) as caught:
            call(list(inputs))  # type: ignore[arg-type]
        assert message in str(caught.value)
    with pytest.raises(RuntimeError, match="one list"):
        call((torch.ones(3), 0.5))  # type: ignore[arg-type]
    assert EMITTER.live_bytes("opencl") == 0
    assert torch.equal(call([torch.ones(3), 2])[0], torch.full((3,), 2.0))  # type: ignore[arg-type]


@pytest.mark.device
def test_tensors_that_are_written_share_no_memory_with_others() -> None:
    text = (
        KERNELS
        + """
program @main(%x: mutated f32[4]@opencl:0, %y: f32[4]@opencl:0) {
  kernel_call @scale(%y, %x, 2.0, 4) @opencl:0
  return
}
"""
    )
    both = torch.arange(8.0)
    assert run(text, both[:4], both[4:]) == ()
    assert torch.equal(both[:4], both[4:] * 2)
    with pytest.raises(RuntimeError, match="%x is written and shares memory with %y"):
        run(text, both[2:6], both[4:])


@pytest.mark.device
def test_calls_from_several_threads() -> None:
    call = compile_program(parse_program(SCALE), emitter=EMITTER)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            x = torch.full((50,), float(number))
            if not torch.equal(call([x, 3.0])[0], x * 3):  # type: ignore[arg-type]
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


ON_BOTH = (
    KERNELS
    + """
program @main(%x: f32[3, 4; stride 1, 5], %y: mutated f32[3, 4]) {
  %there = allocate f32[3, 4]@opencl:0
  extern_kernel aten.copy_.default(%there, %x) writes(%there) @opencl:0
  free %x
  %out = allocate f32[3, 4]@opencl:0
  kernel_call @scale(%there, %out, 2.0, 12) @opencl:0
  free %there
  extern_kernel aten.copy_.default(%y, %out) writes(%y) @opencl:0
  %host = allocate f32[3, 4; stride 1, 3]
  extern_kernel aten.copy_.default(%host, %out) writes(%host) @opencl:0
  free %out
  %row = reinterpret %host as f32[4; stride 3; offset 1]
  return %row, %host
}
"""
)


@pytest.mark.device
def test_copies_between_host_and_device_follow_strides() -> None:
    x, y = torch.randn(4, 5).t()[:3], torch.zeros(3, 4)
    row, host = run(ON_BOTH, x, y)
    assert torch.equal(y, x * 2)
    assert isinstance(host, torch.Tensor)
    assert isinstance(row, torch.Tensor)
    assert torch.equal(host, x * 2)
    assert host.stride() == (1, 3)
    assert torch.equal(row, host[1])
    assert row.untyped_storage().data_ptr() == host.untyped_storage().data_ptr()


STREAMS = (
    KERNELS
    + """
program @main(%x: f32[64]@opencl:0, %again: bool) {
  symbol b0: bool = value(%again)
  %pool = allocate_pool pool[512]@opencl:0
  %a = place f32[64]@opencl:0 in %pool at 0
  kernel_call @scale(%x, %a, 2.0, 64) @opencl:0 stream(1)
  %e = record_event @opencl:0 stream(1)
  %b = place f32[64]@opencl:0 in %pool at 256
  wait_event %e @opencl:0 stream(2)
  kernel_call @scale(%a, %b, 3.0, 64) @opencl:0 stream(2)
  %f = record_event @opencl:0 stream(2)
  wait_event %f @opencl:0
  free %a
  free %pool
  %c = conditional b0 (%b) : f32[64]@opencl:0 {
    true(%p: f32[64]@opencl:0) {
      %q = allocate f32[64]@opencl:0
      kernel_call @scale(%p, %q, 10.0, 64) @opencl:0
      return %q
    }
    false(%t: f32[64]@opencl:0) {
      %u = allocate f32[64]@opencl:0
      kernel_call @scale(%t, %u, 1.0, 64) @opencl:0
      return %u
    }
  }
  free %b
  return %c
}
"""
)


@pytest.mark.device
def test_streams_pools_and_conditions() -> None:
    x = torch.arange(64.0)
    for again, factor in ((True, 60), (False, 6)):
        (found,) = run(STREAMS, x, again)
        assert torch.equal(found, x * factor)  # type: ignore[arg-type]


@pytest.mark.device
def test_an_artifact_needs_no_torch(tmp_path: Path) -> None:
    artifact = EMITTER.build(emit_program(parse_program(SCALE), EMITTER), {})
    write_artifact(artifact, tmp_path / "program")
    code = """
import sys
sys.modules["torch"] = sys.modules["wrapperir"] = None
from pathlib import Path
import numpy
from load_program import CompiledProgram, WrongInputError
program = CompiledProgram(Path("."))
x = numpy.arange(5, dtype=numpy.float32)
y, n = program([x, 3])
assert n == 10 and (y == 3 * x).all() and y.dtype == x.dtype, (y, n)
for wrong in (x.astype(">f4"), x[::-1], x.astype("f8"), x.reshape(5, 1), None):
    try:
        program([wrong, 3])
    except WrongInputError:
        continue
    raise SystemExit(f"{wrong!r} is accepted")
assert program.live_bytes == 0
print("all is well")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "program",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "all is well\n", done.stderr


@pytest.mark.device
def test_a_kernel_that_does_not_compile_is_reported() -> None:
    text = SCALE.replace("x[x0 + i] * by", "x[x0 + i] * undeclared")
    with pytest.raises(DiagnosticError) as caught:
        compile_program(parse_program(text), emitter=EMITTER)
    (found,) = caught.value.diagnostics
    assert found.code is Code.KERNEL_BUILD_FAILED
    assert "kernel scale does not compile" in found.message


@pytest.mark.device
@pytest.mark.parametrize("name", ["r", "inputs", "int", "wir_add", "M_PI", "_x", "cl_mem"])
def test_names_and_comments_of_a_program_are_no_code(name: str) -> None:
    comment = r'comment "*/ } \\\n#error ??/"'
    text = SCALE.replace("  return", f"  {comment}\n  return").replace("%out", f"%{name}")
    x = torch.randn(5)
    found, _ = run(text, x, 4.0)
    assert torch.equal(found, x * 4)  # type: ignore[arg-type]
    found, _ = run(SCALE.replace("s0", name), x, 4.0)
    assert torch.equal(found, x * 4)  # type: ignore[arg-type]


REFUSED = {
    "language": (SCALE.replace('metadata "opencl.language" = "C 1.2"', ""), "WIR705"),
    "device": (SCALE.replace("@opencl:0", "@cuda:0"), "WIR704"),
    "second device": (SCALE.replace("@opencl:0", "@opencl:1"), "WIR705"),
    "kernel of the CPU": (SCALE.replace("@opencl:0", ""), "WIR705"),
    "space": (
        SCALE.replace(
            "allocate f32[s0]@opencl:0", "allocate f32[s0]@opencl:0 {space = comm}"
        ),
        "WIR705",
    ),
    "alignment": (
        SCALE.replace(
            "allocate f32[s0]@opencl:0", "allocate f32[s0]@opencl:0 {align = 256}"
        ),
        "WIR705",
    ),
    "assert_alignment": (
        SCALE.replace("  return", "  assert_alignment %out 16\n  return"),
        "WIR702",
    ),
    "half": (SCALE.replace("by: f32, ", "by: f16, "), "WIR705"),
    "power": (SCALE.replace("s0 * 2", "s0 ** 2"), "WIR705"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_programs_are_refused_before_code_is_written(name: str) -> None:
    text, code = REFUSED[name]
    assert {found.value for found, _ in refusals(text)} == {code}
