"""Memory in graphs: allocations, pools and views, beside the interpreter's."""

import textwrap
from collections.abc import Sequence

import pytest
import torch
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from tests.fx_emitter.running import built, load, parsed, refuse_both, run_both
from tests.python_emitter.running import assert_same
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.interp import interpret
from wrapperir.ir import DType
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_builder import build_graph

BYTES = 192
DTYPES = ("u8", "i16", "i32", "i64", "f64")


@frozen
class View:
    """A layout within ``BYTES`` bytes."""

    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def text(self, *, symbolic: bool) -> str:
        """Return the type; if symbolic, its numbers are those where ``s`` is 3."""

        def number(value: int) -> str:
            return f"s + {value} - 3" if symbolic else str(value)

        size = ", ".join(map(number, self.size))
        stride = f"; stride {', '.join(map(number, self.stride))}" if self.size else ""
        return f"{self.dtype}[{size}{stride}; offset {number(self.offset)}]"


@st.composite
def views(draw: st.DrawFn) -> View:
    dtype = draw(st.sampled_from(DTYPES))
    room = BYTES // DType(dtype).itemsize
    size = draw(st.lists(st.integers(0, 3), max_size=3))
    stride = [draw(st.integers(0, 5)) for _ in size]
    reach = sum((n - 1) * step for n, step in zip(size, stride, strict=True) if n)
    offset = draw(st.integers(0, room - 1 - reach))
    return View(dtype, tuple(size), tuple(stride), offset)


def given_bytes(dtype: str, before: int) -> torch.Tensor:
    """Return elements of ``BYTES`` bytes that begin some elements into their storage."""
    known = torch_dtype(DType(dtype))
    count = BYTES // known.itemsize
    storage = torch.arange(before + count).mul_(37).to(known)
    return storage[before:]


# What the first view is of: lines that make %b, of COUNT elements and offset 0 or more.
BASES = {
    "an input": "%b = reinterpret %x as DT[COUNT]",
    "an operator's result": "%b = extern_kernel aten.clone.default(%x) : DT[COUNT]",
    "an allocation": """
        %a = allocate DT[COUNT]
        extern_kernel aten.copy_.default(%a, %x) writes(%a)
        %b = reinterpret %a as DT[COUNT]
        free %a
    """,
    "an allocation with an offset": """
        %b = allocate DT[COUNT - 2; offset 2]
        extern_kernel aten.zero_.default(%b) writes(%b)
        %h = reinterpret %b as DT[COUNT]
        extern_kernel aten.copy_.default(%h, %x) writes(%h)
        free %h
    """,
    "an aligned allocation": """
        %b = allocate DT[COUNT - 2; offset 2] {align = 1024}
        extern_kernel aten.zero_.default(%b) writes(%b)
        %h = reinterpret %b as DT[COUNT]
        assert_alignment %h 1024
        extern_kernel aten.copy_.default(%h, %x) writes(%h)
        free %h
    """,
    "a place": """
        %p = allocate_pool pool[START + 192]
        %b = place DT[COUNT] in %p at START
        free %p
        extern_kernel aten.copy_.default(%b, %x) writes(%b)
    """,
    "a place in a place of an aligned pool": """
        %p = allocate_pool pool[START + 256] {align = 256}
        %q = place pool[256] in %p at START
        %b = place DT[COUNT] in %q at 64
        free %q
        free %p
        extern_kernel aten.copy_.default(%b, %x) writes(%b)
    """,
}


def program_of(base: str, dtype: str, chain: Sequence[View], *, symbolic: bool) -> str:
    """Return a program that views the memory of a base, and each view in turn."""
    count = str(BYTES // DType(dtype).itemsize)
    start = "(s * 64)" if symbolic else "192"
    lines = (
        textwrap.dedent(BASES[base]).strip().replace("DT", dtype).replace("START", start)
    )
    lines = lines.replace("COUNT - 2", str(int(count) - 2)).replace("COUNT", count)
    names = ["%b"]
    for index, view in enumerate(chain):
        lines += f"\n%v{index} = reinterpret {names[-1]} as {view.text(symbolic=symbolic)}"
        size = ", ".join(map(str, view.size))
        lines += (
            f"\n%r{index} = extern_kernel aten.clone.default(%v{index}, "
            f"memory_format = memory_format(contiguous_format)) : {view.dtype}[{size}]"
        )
        names.append(f"%v{index}")
    frees = "\n".join(f"free {name}" for name in names)
    results = ", ".join(f"%r{index}" for index in range(len(chain)))
    return (
        f"program @main(%x: {dtype}[{count}], %n: i64) {{\n  symbol s: int = value(%n)\n"
        f"{textwrap.indent(lines, '  ')}\n{textwrap.indent(frees, '  ')}\n"
        f"  return {results}\n}}"
    )


@given(
    st.sampled_from(sorted(BASES)),
    st.sampled_from(DTYPES),
    st.lists(views(), min_size=1, max_size=4),
    st.sampled_from([0, 8, 24]),
    st.booleans(),
)
def test_views_of_views(
    base: str, dtype: str, chain: list[View], before: int, symbolic: bool
) -> None:
    text = program_of(base, dtype, chain, symbolic=symbolic)
    run_both(text, given_bytes(dtype, before), 3, calls=1)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_views_of_parameters(base: str, symbolic: bool) -> None:
    start = "(s * 64)" if symbolic else "192"
    lines = textwrap.dedent(BASES[base]).strip().replace("DT", "i32")
    lines = lines.replace("START", start).replace("COUNT - 2", "46").replace("COUNT", "48")
    offset = "; offset 2" if "offset" in base or "aligned alloc" in base else ""
    size = "i32[46; offset 2]" if offset else "i32[48]"
    run_both(
        f"""
        program @main(%x: i32[48], %n: i64) {{
          symbol s: int = value(%n)
          {lines}
          %r, %t = subgraph_call @b (%b) : i64[5], i16[7] {{
            body (%c: {size}) {{
              %w = reinterpret %c as i64[5; stride 2; offset s]
              %v = reinterpret %w as i16[7; offset s * 3]
              %wr = extern_kernel aten.clone.default(%w, \
memory_format = memory_format(contiguous_format)) : i64[5]
              %vr = extern_kernel aten.clone.default(%v) : i16[7]
              free %v
              free %w
              return %wr, %vr
            }}
          }}
          free %b
          return %r, %t
        }}
        """,
        given_bytes("i32", 8),
        3,
    )


def test_an_input_that_is_a_slice_is_viewed_from_where_its_type_counts() -> None:
    text = """
    program @main(%x: i32[3; offset 2]) {
      %v = reinterpret %x as i64[2; offset 1]
      %u = reinterpret %x as i16[4]
      return %v, %u
    }
    """
    storage = torch.arange(12, dtype=torch.int32)
    v, u = run_both(text, storage[6:9])
    assert isinstance(v, torch.Tensor)
    assert v.tolist() == storage[6:10].view(torch.int64).tolist()
    assert isinstance(u, torch.Tensor)
    assert u.tolist() == [4, 0, 5, 0]


def test_views_share_memory() -> None:
    text = """
    program @main(%x: mutated f32[4; offset 1]) {
      %v = reinterpret %x as i32[2; stride 2]
      extern_kernel aten.fill_.Scalar(%v, 1065353216) writes(%v)
      free %v
      %a = allocate f64[2]
      %w = reinterpret %a as i32[4]
      extern_kernel aten.fill_.Scalar(%w, 7) writes(%w)
      free %w
      return %a
    }
    """
    run_both(text, torch.arange(8.0)[3:7])


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
            "no operator 'acme.frob.default' is registered with PyTorch",
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


def test_an_input_that_begins_between_elements_of_a_view_is_refused() -> None:
    text = """
    program @main(%x: i32[4]) {
      %v = reinterpret %x as i64[2]
      return %v
    }
    """
    refuse_both(text, torch.arange(8, dtype=torch.int32)[1:5])


def look(module: torch.fx.GraphModule, name: str) -> torch.Tensor:
    """Return what the node of a name looks like."""
    (value,) = [n.meta["val"] for n in module.graph.nodes if n.name == name]
    assert isinstance(value, torch.Tensor)
    return value


def test_an_offset_that_only_the_run_knows_is_no_number_in_the_graph() -> None:
    module = built(
        """
        program @main(%x: f32[8]) {
          %v = reinterpret %x as f32[2, 2; stride 1, 4; offset 3]
          %w = reinterpret %x as f32[4; offset 4]
          return %v, %w
        }
        """
    )
    (begin,) = module.graph.find_nodes(
        op="call_function", target=torch.ops.aten.sym_storage_offset.default
    )
    assert isinstance(begin.meta["val"], torch.SymInt)
    assert isinstance(look(module, "v").storage_offset(), torch.SymInt)
    storage = torch.arange(16.0)
    v, w = module(storage[5:13])
    assert (v[0].tolist(), w.tolist()) == ([8, 12], [9, 10, 11, 12])


@pytest.mark.parametrize(
    "view",
    ["f32[4; offset 4]", "f32[2, 2; offset 3]", "i32[4; offset 1]", "f64[2; offset 2]"],
)
def test_a_part_of_an_input_is_exported_wherever_the_input_begins(view: str) -> None:
    module = built(
        f"""
        program @main(%x: f32[2, 4]) {{
          %v = reinterpret %x as {view}
          %r = extern_kernel aten.clone.default(%v) : {view.partition(";")[0]}]
          free %v
          return %r
        }}
        """
    )
    storage = torch.arange(24.0)
    exported = torch.export.export(module, (storage[2:10].view(2, 4),)).module()
    given = storage[6:14].view(2, 4)
    assert torch.equal(exported(given)[0], module(given)[0])


def test_results_that_are_views_look_so() -> None:
    module = built(
        """
        program @main(%x: f32[8]) {
          %p = allocate_pool pool[128]
          %a = place f32[2, 4] in %p at 32
          free %p
          extern_kernel aten.zero_.default(%a) writes(%a)
          %t = extern_kernel aten.t.default(%a) aliases(%a) : f32[4, 2; stride 1, 4]
          %s = extern_kernel aten.split.Tensor(%a, 1, 0) aliases(%a) \
: (f32[1, 4], f32[1, 4; offset 4])
          %b = multi_output %s[1] : f32[1, 4; offset 4]
          free %s
          free %a
          free %x
          return %t, %b
        }
        """
    )
    storage = look(module, "p").untyped_storage()._cdata  # pyright: ignore
    for name, offset in (("a", 8), ("t", 8), ("b", 12), ("zero__default", 8)):
        own = look(module, name).untyped_storage()._cdata  # pyright: ignore
        assert own == storage
        assert look(module, name).storage_offset() == offset
    t, b = module(torch.empty(8))
    assert (t.storage_offset(), b.storage_offset()) == (8, 12)
