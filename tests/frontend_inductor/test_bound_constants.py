"""Inputs as constants: the same results, with fewer inputs."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontend_inductor.captured import capture_all
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor.signature import bind_constants
from wrapperir.interp import interpret
from wrapperir.ir import Program
from wrapperir.text import parse_program
from wrapperir.verify import verify

SHAPES = ((4, 3), (4, 3), (3,), (3,))


def mixed(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    c.add_(1)
    return a @ b.t() + 1, (b * d).sum(0) + c


@cache
def captured() -> Program:
    (lowered,) = capture_all(mixed, [torch.ones(shape) for shape in SHAPES])
    return lowered.program


@settings(max_examples=40)
@given(chosen=st.sets(st.integers(0, 3)), seed=st.integers(0, 1000))
def test_any_inputs_may_be_bound(chosen: set[int], seed: int) -> None:
    program = captured()
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        input.name: torch.randn(input.type.size, generator=generator)  # type: ignore
        for input in program.inputs
    }
    names = [input.name for i, input in enumerate(program.inputs) if i in chosen]
    bound = bind_constants(program, {name: f"held.{name}" for name in names})
    assert verify(bound) == ()
    assert [constant.key for constant in bound.constants] == [f"held.{n}" for n in names]

    expected_inputs = [tensor.clone() for tensor in tensors.values()]
    expected = interpret(program, expected_inputs, {})
    held = {f"held.{name}": tensors[name] for name in names}
    free = [tensors[input.name] for input in bound.inputs]
    for result, wanted in zip(
        interpret(bound, free, constants=held), expected, strict=True
    ):
        torch.testing.assert_close(result, wanted, rtol=0, atol=0)
    for after, wanted in zip(tensors.values(), expected_inputs, strict=True):
        torch.testing.assert_close(after, wanted, rtol=0, atol=0)


STRIDED = """\
wrapperir 1

program @main(%x: f32[s0], %w: f32[4; offset w_offset]) {
  symbol s0: int = size(%x, 0)
  symbol w_offset: int LIMITS = offset(%w)

  free %x
  %copy = extern_kernel aten.clone.default(%w) : f32[4]
  free %w
  return %copy
}
"""


def test_the_place_of_a_constant_is_a_number() -> None:
    program = parse_program(STRIDED.replace("LIMITS", "2..2"))
    bound = bind_constants(program, {"w": "w"})
    assert verify(bound) == ()
    assert [line.symbol for line in bound.symbols] == ["s0"]
    tensor = torch.arange(8.0)[2:6]
    (copy,) = interpret(bound, [torch.ones(3)], constants={"w": tensor})
    assert isinstance(copy, torch.Tensor)
    assert torch.equal(copy, tensor)


def test_a_place_that_varies_is_refused() -> None:
    program = parse_program(STRIDED.replace("LIMITS", "0.."))
    with pytest.raises(DiagnosticError) as raised:
        bind_constants(program, {"w": "w"})
    assert {found.code for found in raised.value.diagnostics} == {
        Code.UNSUPPORTED_SIGNATURE
    }
