"""Operators that keep their arguments, or give them another layout or storage."""

import gc

import pytest
import torch

from tests.cpp_emitter.running import assert_same, load, parsed
from wrapperir.interp import interpret
from wrapperir.ir.storage_operators import changes_layout, may_keep, needs_own_tensors
from wrapperir_cpp.emitter import CppEmitter

KEPT: list[torch.Tensor] = []


@torch.library.custom_op("wrapperir_keeping::keep", mutates_args=())
def keep(x: torch.Tensor) -> torch.Tensor:
    """Keep a tensor."""
    KEPT.append(x)
    return x + 1


KEEPING = """
program @main(%x: f32[64]) {
  constant %w: f32[64] = "w"
  %a = allocate f32[64]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
  %b = extern_kernel wrapperir_keeping.keep.default(%a) : f32[64]
  free %a
  %v = reinterpret %w as f32[8, 8]
  %c = extern_kernel wrapperir_keeping.keep.default(%v) : f32[8, 8]
  free %v
  return %b, %c
}
"""


def test_an_operator_of_others_may_keep_its_argument() -> None:
    KEPT.clear()
    call = load(parsed(KEEPING), {"w": torch.ones(64)})
    for number in (1.0, 2.0, 3.0):
        call([torch.full((64,), number)])
    del call
    gc.collect()
    arguments, views = KEPT[::2], KEPT[1::2]
    assert [a[0].item() for a in arguments] == [-1, -2, -3]
    assert [v.sum().item() for v in views] == [64] * 3
    views[0].unsqueeze_(0)
    assert views[1].shape == (8, 8)


CHANGES = {
    "transposed": """
        %a = allocate f32[4, 4]
        extern_kernel aten.copy_.default(%a, %x) writes(%a)
        extern_kernel aten.transpose_.default(%a, 0, 1) writes(%a)
        %b = extern_kernel aten.mm.default(%a, %x) : f32[4, 4]
        free %a
        return %b
        """,
    "resized by data": """
        %a = allocate i64[16, 2]
        extern_kernel aten.nonzero.out(%x, out = %a) writes(%a)
        %b = extern_kernel aten.sum.default(%a) : i64[]
        free %a
        return %b
        """,
    "a view of a constant": """
        %v = reinterpret %w as f32[16]
        extern_kernel aten.unsqueeze_.default(%v, 0) writes(%v)
        %b = extern_kernel aten.sum.dim_IntList(%v, [0]) : f32[16]
        free %v
        return %b
        """,
    "a constant": """
        extern_kernel aten.t_.default(%w) writes(%w)
        %b = extern_kernel aten.clone.default(%w) : f32[4, 4; stride 1, 4]
        return %b
        """,
    "a view like its source": """
        %a = extern_kernel aten.clone.default(%x) : f32[4, 4]
        %v = reinterpret %a as f32[4, 4]
        extern_kernel aten.t_.default(%v) writes(%v)
        %b = extern_kernel aten.mm.default(%a, %v) : f32[4, 4]
        free %v
        return %b, %a
        """,
    "another storage": """
        %a = extern_kernel aten.clone.default(%x) : f32[4, 4]
        %n = extern_kernel aten.neg.default(%x) : f32[4, 4]
        %v = reinterpret %a as f32[4, 4]
        %u = reinterpret %a as f32[2, 8]
        extern_kernel aten.set_.source_Tensor(%v, %n) writes(%v)
        %b = extern_kernel aten.add.Tensor(%a, %v) : f32[4, 4]
        free %v
        free %n
        return %b, %a, %u
        """,
    "in a block": """
        %a = allocate f32[4, 4]
        extern_kernel aten.copy_.default(%a, %x) writes(%a)
        %r = subgraph_call @inner (%a) : f32[4, 4] {
          body (%p: f32[4, 4]) {
            %v = reinterpret %p as f32[4, 4]
            extern_kernel aten.t_.default(%v) writes(%v)
            %d = extern_kernel aten.mm.default(%v, %p) : f32[4, 4]
            free %v
            return %d
          }
        }
        free %a
        return %r
        """,
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_a_changed_layout_ends_with_the_call(name: str) -> None:
    constant = 'constant %w: mutated f32[4, 4] = "w"'
    program = parsed(f"program @main(%x: f32[4, 4]) {{\n{constant}\n{CHANGES[name]}\n}}\n")
    w = torch.arange(16.0).reshape(4, 4)
    call = load(program, {"w": w})
    for number in range(3):
        x = torch.arange(16.0).reshape(4, 4).remainder(number + 2)
        assert_same(call([x]), interpret(program, [x.clone()], {"w": w.clone()}))
    assert w.stride() == (4, 1)


def test_operators_that_change_layouts_are_those_that_pytorch_says() -> None:
    found = 0
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace != "aten":
            continue
        overload = schema.overload_name or "default"
        operator = getattr(getattr(torch.ops.aten, name), overload, None)
        tags = getattr(operator, "tags", ())
        sized = torch.Tag.dynamic_output_shape in tags and "out" in overload
        if torch.Tag.inplace_view in tags or sized:
            found += 1
            assert changes_layout(f"aten.{name}.{overload}"), schema
    assert found > 10
    assert not changes_layout("aten.nonzero.default")
    assert not needs_own_tensors("aten.add.out")
    assert not may_keep("prims.convert_element_type.default")
    assert may_keep("wrapperir_keeping.keep.default")


def test_views_of_constants_are_ready_for_pytorchs_own_operators() -> None:
    text = KEEPING.replace("wrapperir_keeping.keep", "aten.neg")
    assert "c.fixed[v]" in str(CppEmitter().emit(parsed(text)).files["program.cpp"])
