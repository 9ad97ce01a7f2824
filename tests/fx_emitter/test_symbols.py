"""Symbols in graphs: where they are read, what they become, and their ranges."""

import pytest
import torch

from tests.fx_emitter.running import built, refuse_both, run_both
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.ir import DType


def targets(text: str) -> list[str]:
    """Return the names of what the nodes of a program's graph call."""
    calls = [node for node in built(text).graph.nodes if node.op == "call_function"]
    return [getattr(node.target, "__name__", str(node.target)) for node in calls]


def test_sizes_and_strides_are_read_once() -> None:
    text = """
    program @main(%x: f32[s, 8; stride t, 1]) {
      symbol s: int 0..9 = size(%x, 0)
      symbol t: int = stride(%x, 0)
      %y = extern_kernel aten.neg.default(%x) : f32[s, 8]
      return s, t, s * t, %y
    }
    """
    read = ["sym_size.int", "check_range", "sym_stride.int"]
    assert targets(text) == [*read, "neg.default", "mul"]
    assert run_both(text, torch.ones(3, 16)[:, 4:12])[:3] == (3, 16, 48)
    wanted = "Expected s >= 0 and s <= 9 but received 10"
    assert refuse_both(text, torch.ones(10, 8)) == wanted


@pytest.mark.parametrize(
    ("kind", "dtype", "number", "wanted"),
    [
        ("int", "i64", 3, 3),
        ("int", "f32", 3.0, 3),
        ("int", "bool", True, 1),
        ("float", "f16", 0.5, 0.5),
        ("float", "i32", 2, 2.0),
        ("float", "bool", True, 1.0),
        ("bool", "bool", False, False),
        ("bool", "u8", 7, True),
        ("bool", "f64", 0.0, False),
    ],
)
def test_an_item_becomes_the_kind_of_its_symbol(
    kind: str, dtype: str, number: float, wanted: float
) -> None:
    text = f"""
    program @main(%x: {dtype}[1, 1]) {{
      symbol_definition u: {kind} = item(%x)
      return u
    }}
    """
    (result,) = run_both(text, torch.tensor([[number]], dtype=torch_dtype(DType(dtype))))
    assert type(result) is type(wanted)
    assert result == wanted


def test_an_item_that_is_not_whole_is_a_fault() -> None:
    text = """
    program @main(%x: f64[]) {
      symbol_definition u: int = item(%x)
      return
    }
    """
    assert "not a whole number" in refuse_both(text, torch.tensor(2.5).double())


@pytest.mark.parametrize(
    ("bounds", "wanted", "number"),
    [("2..5", "u >= 2 and u <= 5", 1), ("2..", "u >= 2", 1), ("..5", "u <= 5", 6)],
)
def test_a_number_out_of_its_range_is_a_fault(
    bounds: str, wanted: str, number: int
) -> None:
    text = f"""
    program @main(%x: i64[]) {{
      symbol_definition u: int {bounds} = item(%x)
      return
    }}
    """
    said = refuse_both(text, torch.tensor(number))
    assert said == f"Expected {wanted} but received {number}"


def test_a_symbol_that_is_another_makes_no_node() -> None:
    text = """
    program @main(%n: i64) {
      symbol n: int = value(%n)
      symbol_definition m: int = n
      symbol_definition k: int = m * 2
      symbol_definition b: bool = k
      return m, k, b
    }
    """
    assert targets(text) == ["given_int", "mul", "truth"]
    assert run_both(text, 4) == (4, 8, True)


def test_the_offset_of_an_input_is_its_types() -> None:
    text = """
    program @main(%x: f32[3; offset 2]) {
      symbol_definition o: int = offset(%x)
      %v = reinterpret %x as f32[4; offset 1]
      symbol_definition p: int = offset(%v)
      return o, p, %v
    }
    """
    outputs = run_both(text, torch.arange(10.0)[4:7])
    assert outputs[:2] == (2, 1)


def test_an_offset_that_is_asked_for_is_pytorchs() -> None:
    text = """
    program @main(%x: f32[3; offset s]) {
      symbol s: int = offset(%x)
      %v = reinterpret %x as f32[4; offset s - 1]
      return s, %v
    }
    """
    s, v = run_both(text, torch.arange(10.0)[4:7])
    assert s == 4
    assert isinstance(v, torch.Tensor)
    assert v.tolist() == [3, 4, 5, 6]


def test_the_offset_of_a_view_that_an_operator_returns_is_its_types() -> None:
    text = """
    program @main(%x: f32[4]) {
      %e = extern_kernel aten.slice.Tensor(%x, 0, 1, 3) aliases(%x) : f32[2; offset 1]
      symbol_definition u: int = offset(%e)
      %w = reinterpret %e as f32[4]
      return u, %e, %w
    }
    """
    assert run_both(text, torch.arange(10.0)[2:6])[0] == 1


def test_the_offset_of_a_result_may_be_asked_for() -> None:
    text = """
    program @main(%x: f32[4]) {
      %e = extern_kernel aten.slice.Tensor(%x, 0, 1, 3) aliases(%x) : f32[2; offset u]
      symbol_definition u: int = offset(%e)
      %w = reinterpret %e as f32[3; offset u - 1]
      return u, %e, %w
    }
    """
    u, _, w = run_both(text, torch.arange(10.0)[2:6])
    assert u == 3
    assert isinstance(w, torch.Tensor)
    assert w.tolist() == [2, 3, 4]


def test_a_result_of_a_size_to_come_keeps_its_types_offset() -> None:
    text = """
    program @main(%x: f32[4]) {
      %e = extern_kernel aten.slice.Tensor(%x, 0, 1, 3) aliases(%x) : f32[u; offset 1]
      symbol_definition u: int 0..4 = size(%e, 0)
      symbol_definition o: int = offset(%e)
      return u, o, %e
    }
    """
    assert run_both(text, torch.arange(10.0)[2:6])[:2] == (2, 1)


def test_a_size_that_only_the_operator_knows() -> None:
    text = """
    program @main(%x: i64[6]) {
      %e = extern_kernel aten.nonzero.default(%x) : i64[u, 1]
      symbol_definition u: int 0..6 = size(%e, 0)
      %r = allocate i64[u * 2]
      extern_kernel aten.fill_.Scalar(%r, u) writes(%r)
      return u, %e, %r
    }
    """
    assert run_both(text, torch.tensor([0, 3, 0, 1, 0, 0]))[0] == 2
    assert run_both(text, torch.zeros(6, dtype=torch.int64))[0] == 0
