"""Views in graphs: of any memory, of one another, and how they look to tracers."""

import textwrap
from collections.abc import Sequence

import pytest
import torch
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from tests.fx_emitter.running import built, refuse_both, run_both
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.ir import DType

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
