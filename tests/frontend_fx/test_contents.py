"""Facts that a graph does not state: access modes, pools, and what lives in them."""

from wrapperir.diagnostics import Severity
from wrapperir.frontend.fx.contents import recover_workspaces, settle_accesses
from wrapperir.frontend.fx.pools import recover_pools
from wrapperir.ir import (
    Access,
    BufferParameter,
    KernelDefinitionLine,
    MultiKernelLine,
    PlaceLine,
    ReinterpretLine,
    ZeroMode,
)
from wrapperir.text import parse_program
from wrapperir.verify import verify

PROGRAM = """\
wrapperir 1

kernel_definition @fill opaque(out: write f32*) {
  entry = fill
  source {
    |
  }
}

program @main(%p: bool[]) {
  %out = allocate f32[8]
  %view = reinterpret %out as f32[4]
  conditional %p (%view) {
    true (%y: f32[4]) {
      extern_kernel aten.zero_.default(%y) writes(%y)
      return
    }
    false (%z: f32[4]) {
      return
    }
  }
  free %view
  kernel_call @fill(%out)
  return %out
}
"""


def test_memory_that_a_block_writes_has_contents() -> None:
    assert access_of_fill(PROGRAM) is Access.READ_WRITE


def test_memory_that_a_block_only_sees_has_none() -> None:
    lines = PROGRAM.splitlines(keepends=True)
    kept = [line for line in lines if "extern_kernel" not in line]
    assert access_of_fill("".join(kept)) is Access.WRITE


def access_of_fill(text: str) -> Access:
    """Return the access mode of a kernel whose code only says that it writes."""
    settled = settle_accesses(parse_program(text), {"fill"})
    assert [found for found in verify(settled) if found.severity is Severity.ERROR] == []
    (definition,) = settled.definitions
    assert isinstance(definition, KernelDefinitionLine)
    (parameter,) = definition.parameters
    assert isinstance(parameter, BufferParameter)
    return parameter.access


INNER_POOL = """\
wrapperir 1

program @main() {
  %memory = allocate u8[128]
  %inner = reinterpret %memory as u8[64; offset 64]
  %first = reinterpret %inner as f32[4; offset 20]
  extern_kernel aten.zero_.default(%first) writes(%first)
  %again = reinterpret %inner as f32[4; offset 20]
  %result = extern_kernel aten.neg.default(%again) : f32[4]
  return %result
}
"""


def test_a_part_of_an_inner_pool_that_is_viewed_again_is_one_part() -> None:
    program = recover_pools(parse_program(INNER_POOL))
    assert [found for found in verify(program) if found.severity is Severity.ERROR] == []
    placed = [line for line in program.lines if isinstance(line, PlaceLine)]
    assert [(line.result, line.offset) for line in placed] == [("inner", 64), ("first", 16)]
    (view,) = [line for line in program.lines if isinstance(line, ReinterpretLine)]
    assert (view.result, view.source) == ("again", "first")


WORKSPACE = """\
wrapperir 1

kernel_definition @add opaque(scratch: read_write f32*, out: write f32*) {
  entry = add
  source {
    |
  }
}

multi_kernel @any(scratch: read_write f32*, out: write f32*) {
  choice @add(0, 1) workspace(scratch, 4, zero_on_call)
  select benchmark
}

program @main(%x: f32[4]) {
  %memory = allocate u8[128]
  %first = reinterpret %memory as f32[4]
  extern_kernel aten.neg.out(%x, out = %first) writes(%first) stream(1)
  %part = reinterpret %memory as u8[16; offset 64]
  %scratch = reinterpret %part as f32[4; offset 16]
  extern_kernel aten.zero_.default(%scratch) writes(%scratch)
  %out = allocate f32[4]
  kernel_call @any(%scratch, %out)
  %done = record_event stream(1)
  wait_event %done
  return %out
}
"""


def test_a_pool_may_hold_a_workspace_of_choices() -> None:
    """The memory is a workspace only once it is placed in a pool, so it is placed first."""
    program = recover_workspaces(recover_pools(parse_program(WORKSPACE)))
    assert [found for found in verify(program) if found.severity is Severity.ERROR] == []
    placed = {line.result: line for line in program.lines if isinstance(line, PlaceLine)}
    assert placed.keys() == {"first", "part", "scratch"}
    assert placed["scratch"].workspace is ZeroMode.ZERO_ON_CALL
    (line,) = [line for line in program.definitions if isinstance(line, MultiKernelLine)]
    assert line.choices[0].workspaces
