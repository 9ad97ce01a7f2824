"""Saved tensors that a backward program is given for good."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._functorch import config as functorch_config

from tests.draws import draws
from tests.frontend_inductor.captured import capture_all
from wrapperir.frontend import donation
from wrapperir.ir import Program, TensorType, is_dense, tensor
from wrapperir.text import parse_program

pytestmark = pytest.mark.usefixtures("triton_on_cpu")


def two_layers(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return ((x @ weight).exp() @ weight).tanh().sum()


def attention(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    q, k, v = ((x @ weight).sin() @ weight.t()).view(2, 16, 3, 8).unbind(2)
    return ((q * k).sum(-1, keepdim=True) * v).sum()


def backward_of(function: object, shapes: Sequence[tuple[int, ...]]) -> Program:
    assert callable(function)
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    _, backward = capture_all(function, inputs, training=True)
    return backward.program


def test_saved_tensors_are_donated_and_weights_are_not() -> None:
    program = backward_of(two_layers, [(64, 64), (64, 64)])
    donated = {given.name for given in program.inputs if given.donated}
    assert {"exp", "mm_1"} <= donated
    assert not [name for name in donated if name.startswith(("permute", "tangents"))]
    assert not [given.name for given in program.inputs if given.mutated]


def test_parts_of_one_saved_tensor_are_donated() -> None:
    program = backward_of(attention, [(2, 16, 24), (24, 24)])
    scattered = [
        given
        for given in program.inputs
        if given.donated and isinstance(given.type, TensorType) and not is_dense(given.type)
    ]
    assert len(scattered) == 3


def test_nothing_is_donated_where_pytorch_is_told_so() -> None:
    with functorch_config.patch("donated_buffer", False):
        program = backward_of(two_layers, [(64, 64), (64, 64)])
    assert not any(given.donated for given in program.inputs)


@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_backward_that_keeps_its_graph_copies_what_it_is_given(
    keeps: bool, frontend: str
) -> None:
    torch._dynamo.reset()
    inputs = [(torch.rand(16, 16) / 8).requires_grad_() for _ in range(2)]
    expected = torch.autograd.grad(two_layers(*inputs), inputs)
    options: Any = {"frontend": frontend}
    compiled = torch.compile(two_layers, backend="wrapperir", options=options)
    torch.autograd.grad(compiled(*inputs), inputs)  # donates, as it does not keep the graph
    loss = compiled(*inputs)
    for turn in range(3):
        found = torch.autograd.grad(loss, inputs, retain_graph=keeps and turn < 2)
        torch.testing.assert_close(found, expected)
        if not keeps:
            break


SAVED = """\
wrapperir 1

program @main(%x: f32[8, 6]) {{
  %a = allocate f32[8, 6]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
  %first = reinterpret %a as {}
  %second = reinterpret %a as {}
  free %a
  return %x, %first, %second
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "donated"),
    [
        ("f32[8, 3; stride 6, 1]", "f32[8, 3; stride 6, 1; offset 3]", [0, 1]),
        ("f32[8, 4; stride 6, 1]", "f32[8, 3; stride 6, 1; offset 3]", []),
        ("f32[8, 6]", "f32[6, 8; stride 1, 6]", []),
    ],
)
def test_saved_tensors_that_share_elements_are_not_donated(
    first: str, second: str, donated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [0, 1]
    metadata = SimpleNamespace(
        bw_donated_idxs=known,
        num_symints_saved_for_bw=0,
        tensors_saved_for_backwards_slice=slice(1, 3),
    )
    monkeypatch.setattr(donation, "_metadata", lambda: metadata)
    donation.keep_apart(parse_program(SAVED.format(first, second)))
    assert known == donated


DIMS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=3)
LAYOUTS = st.builds(
    lambda dtype, dims, offset: tensor(
        dtype, tuple(n for n, _ in dims), tuple(s for _, s in dims), offset=offset
    ),
    st.sampled_from(["f32", "f16"]),
    DIMS,
    st.integers(0, 12),
)


@settings(max_examples=draws(200, fuzz=1000))
@given(LAYOUTS, LAYOUTS)
def test_shared_bytes_are_those_of_the_elements(
    left: TensorType, right: TensorType
) -> None:
    def bytes_of(type: TensorType) -> set[int]:
        assert isinstance(type.offset, int)
        found = {type.offset}
        for size, stride in zip(type.size, type.stride, strict=True):
            assert isinstance(size, int)
            assert isinstance(stride, int)
            found = {at + n * stride for at in found for n in range(size)}
        item = type.dtype.itemsize
        return {at * item + byte for at in found for byte in range(item)}

    expected = bool(bytes_of(left) & bytes_of(right))
    assert donation._share_bytes(left, right) is expected
