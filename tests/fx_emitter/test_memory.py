"""Memory in graphs: allocations, pools and workspaces, beside the interpreter's."""

import pytest
import torch

from tests.fx_emitter.running import built, load, parsed, run_both
from tests.python_emitter.running import assert_same
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value
from wrapperir.interp import interpret
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_builder import build_graph


def test_reuse_with_a_wider_and_a_narrower_type() -> None:
    text = """
    program @main(%x: i64[4]) {
      %a = extern_kernel aten.neg.default(%x) : i64[4]
      %v = reinterpret %a as i64[4]
      %b = reuse %a as i16[8; offset 4]
      extern_kernel aten.fill_.Scalar(%b, 3) writes(%b)
      %c = reuse %b as f64[2; stride 2]
      extern_kernel aten.fill_.Scalar(%c, 1.5) writes(%c)
      %r = extern_kernel aten.clone.default(%v) : i64[4]
      free %v
      return %r, %c
    }
    """
    run_both(text, torch.arange(4))


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_memory_of_a_symbolic_size_may_have_no_elements(rows: int) -> None:
    text = """
    program @main(%n: i64) {
      symbol s: int 0..9 = value(%n)
      %a = allocate i32[s, 3; stride 8, 1; offset 4]
      extern_kernel aten.fill_.Scalar(%a, 2) writes(%a)
      %b = allocate i32[s, 3; stride 8, 1] {align = 256}
      extern_kernel aten.fill_.Scalar(%b, 3) writes(%b)
      %v = reinterpret %b as i16[s, 6; stride 16, 1]
      %p = allocate_pool pool[s * 24]
      %c = place f64[s, 3] in %p at 0
      free %p
      extern_kernel aten.fill_.Scalar(%c, 4) writes(%c)
      %w = allocate f32[s, 2; stride 8, 1; offset 2] workspace(zero_per_program)
      %d = extern_kernel aten.clone.default(%w, \
memory_format = memory_format(contiguous_format)) : f32[s, 2]
      return %a, %b, %v, %c, %d
    }
    """
    run_both(text, rows)


def test_what_has_no_elements() -> None:
    text = """
    program @main(%x: f32[0, 4]) {
      %v = reinterpret %x as f64[0]
      %a = allocate i64[4, 0] {align = 128}
      %b = allocate i64[0; offset 5]
      %w = reinterpret %b as i8[0, 3]
      %p = allocate_pool pool[0]
      %c = place f64[0] in %p at 0
      free %p
      return %x, %v, %a, %b, %w, %c
    }
    """
    run_both(text, torch.empty(0, 4))


def test_pools_of_odd_sizes_and_many_dtypes() -> None:
    text = """
    program @main(%n: i64) {
      symbol s: int 1..9 = value(%n)
      %p = allocate_pool pool[s * 64 + 77] {align = 128}
      %q = place pool[45] in %p at s * 64
      %a = place bool[3] in %q at 0
      %b = place i16[3] in %q at 4
      %c = place f64[2] in %q at 24 workspace(zero_on_call)
      %d = place c64[] in %p at 0
      %e = place i64[s, 2] in %p at 16
      free %q
      free %p
      extern_kernel aten.fill_.Scalar(%a, true) writes(%a)
      extern_kernel aten.fill_.Scalar(%b, 2) writes(%b)
      extern_kernel aten.fill_.Scalar(%d, complex(1.0, 2.0)) writes(%d)
      extern_kernel aten.fill_.Scalar(%e, s) writes(%e)
      return %a, %b, %c, %d, %e
    }
    """
    run_both(text, 3)


@pytest.mark.parametrize("align", [128, 4096])
@pytest.mark.parametrize("dtype", ["u8", "f32", "f64"])
def test_alignment_beyond_the_allocators(align: int, dtype: str) -> None:
    lines = "".join(
        f"%a{i} = allocate {dtype}[5] {{align = {align}}}\nassert_alignment %a{i} {align}\n"
        f"extern_kernel aten.fill_.Scalar(%a{i}, {i}) writes(%a{i})\n"
        for i in range(4)
    )
    names = ", ".join(f"%a{i}" for i in range(4))
    run_both(f"program @main() {{\n{lines}\nreturn {names}\n}}")


WORKSPACES = """
program @main(%x: f32[s]) {{
  symbol s: int 1..9 = size(%x, 0)
  %w = allocate f32[{size}{layout}] {align}workspace({mode})
  {check}
  {fill}
  %r = extern_kernel aten.clone.default(%w, \
memory_format = memory_format(contiguous_format)) : f32[{size}]
  extern_kernel aten.fill_.Scalar(%w, 5) writes(%w)
  {clean}
  return %r
}}
"""


@pytest.mark.parametrize("mode", ["uninitialized", "zero_on_call", "zero_per_program"])
@pytest.mark.parametrize("size", ["4", "s"])
@pytest.mark.parametrize("layout", ["", "; stride 2; offset 3", "; offset s"])
@pytest.mark.parametrize("align", ["", "{align = 256} "])
def test_workspaces(mode: str, size: str, layout: str, align: str) -> None:
    fill = "extern_kernel aten.zero_.default(%w) writes(%w)"
    text = WORKSPACES.format(
        mode=mode,
        size=size,
        layout=layout,
        align=align,
        check="assert_alignment %w 256" if align and not layout else "",
        fill=fill if mode == "uninitialized" else "",
        clean=fill if mode == "zero_per_program" else "free %w",
    )
    call = load(parsed(text), {})
    for rows in (4, 2, 4, 4):
        inputs: list[Value] = [torch.ones(rows)]
        assert_same(call(list(inputs)), interpret(parsed(text), inputs, {}))


def test_a_kept_workspace_is_kept() -> None:
    text = """
    program @main(%n: i64) {
      symbol s: int 1..9 = value(%n)
      %w = allocate i64[s] workspace(zero_per_program)
      %u = allocate i64[3] workspace(zero_per_program)
      extern_kernel aten.add_.Scalar(%w, 1) writes(%w)
      extern_kernel aten.add_.Scalar(%u, 1) writes(%u)
      %a = extern_kernel aten.clone.default(%w) : i64[s]
      %b = extern_kernel aten.clone.default(%u) : i64[3]
      return %a, %b
    }
    """
    module = built(text)
    counts = [[t.tolist() for t in module(n)] for n in (2, 2, 4, 2)]
    assert counts == [
        [[1, 1], [1, 1, 1]],
        [[2, 2], [2, 2, 2]],
        [[1, 1, 1, 1], [3, 3, 3]],
        [[3, 3], [4, 4, 4]],
    ]


def test_memory_for_communication_is_ordinary_on_the_cpu() -> None:
    text = """
    program @main() {
      %a = allocate f32[4] {space = comm}
      extern_kernel aten.fill_.Scalar(%a, 2) writes(%a)
      %p = allocate_pool pool[64] {space = comm}
      %b = place i64[2] in %p at 0 {space = comm}
      free %p
      extern_kernel aten.fill_.Scalar(%b, 2) writes(%b)
      return %a, %b
    }
    """
    run_both(
        text.replace("at 0 {space = comm}", "at 0").replace(
            "i64[2]", "i64[2] {space = comm}"
        )
    )


def test_pinned_memory_is_asked_for() -> None:
    module = built(
        """
        program @main() {
          %a = allocate f32[4] {pinned}
          %p = allocate_pool pool[64] {pinned}
          free %p
          return %a
        }
        """
    )
    given = [
        node.kwargs["pin_memory"]
        for node in module.graph.nodes
        if node.target is torch.empty_strided
    ]
    assert given == [True, True]
    if not torch.accelerator.is_available():
        with pytest.raises(RuntimeError):
            module()


REFUSED = """
program @main(%flag: bool[]) {{
  {line}
  free %a
  conditional %flag () {{
    true () {{
      %b = allocate f32[4] {{space = vram}}
      free %b
      return
    }}
    false () {{
      return
    }}
  }}
  return
}}
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%a = allocate f32[4] {space = l2}", "memory space 'l2' is unknown"),
        ("%a = allocate_pool pool[64] {space = l2}", "memory space 'l2' is unknown"),
        (
            "%a = allocate f32[4] {layout = acme.tiled(16)}",
            "vendor layout 'acme.tiled' is unknown",
        ),
        (
            "%a = allocate f32[4] {pinned, align = 128}",
            "pinned memory has no alignment beyond 64 bytes",
        ),
        (
            "%a = extern_kernel acme.frob.default() : f32[4]",
            "PyTorch has no operator acme.frob",
        ),
        (
            "%a = extern_kernel aten.clone.default(%flag, "
            "memory_format = memory_format(odd_format)) : bool[]",
            "torch has no 'memory_format' named 'odd_format'",
        ),
    ],
)
def test_what_memory_cannot_be_is_refused_all_at_once(line: str, message: str) -> None:
    program = parsed(REFUSED.format(line=line))
    with pytest.raises(DiagnosticError) as caught:
        build_graph(program)
    first, second = caught.value.diagnostics
    assert first.code is second.code is Code.UNSUPPORTED_FEATURE
    assert (first.message, first.path) == (message, ("lines", 0))
    assert second.message == "memory space 'vram' is unknown"
    with pytest.raises(DiagnosticError):
        FxEmitter().emit(program)
