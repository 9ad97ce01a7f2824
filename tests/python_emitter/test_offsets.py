"""Offsets: they count from where the program sees a storage begin."""

import torch

from tests.python_emitter.running import run_both


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


def test_a_workspace_may_have_a_symbolic_offset() -> None:
    text = """
    program @main(%n: i64) {
      symbol s: int 0..100 = value(%n)
      %w = allocate f32[4; offset s] workspace(zero_per_program)
      symbol_definition o: int = offset(%w)
      %r = extern_kernel aten.clone.default(%w) : f32[4]
      return o, %r
    }
    """
    assert run_both(text, 3)[0] == 3
