"""Rows of products are padded where nobody sees it, and results stay."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from wrapperir import backend
from wrapperir.frontend import Lowered
from wrapperir.frontend.lowering import padding
from wrapperir.ir import (
    AllocateLine,
    BodyLine,
    ExternKernelLine,
    Program,
    TensorType,
    product,
)
from wrapperir.ir.line_effects import value_types

Programs = list[Program]
WORDS = 101
"""Rows of 101 halves begin at odd addresses; 104 is the next multiple of 8.

They are f16: on CPUs with AMX, PyTorch's products of bf16 read the padding, which may
hold NaN.
"""


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Return the programs that the backend compiles; it pads on the CPU, too."""
    monkeypatch.setattr(padding, "DEVICES", frozenset({"cpu"}))
    found: Programs = []
    compile_lowered = backend.compile_lowered

    def keep(lowered: Lowered, *rest: Any) -> Any:
        found.append(lowered.program)
        return compile_lowered(lowered, *rest)

    monkeypatch.setattr(backend, "compile_lowered", keep)
    return found


def compiled(function: Callable[..., Any], **options: object) -> Callable[..., Any]:
    torch._dynamo.reset()
    chosen: Any = {"frontend": "lowering", **options}
    result: Callable[..., Any] = torch.compile(
        function, backend="wrapperir", options=chosen
    )
    return result


def padded(program: Program) -> list[tuple[Any, ...]]:
    """Return the sizes of values whose rows are padded."""
    return [
        type.size
        for type in value_types(program).values()
        if isinstance(type, TensorType) and type.size[-1:] == (WORDS,)
        if type.stride[-2:] == (104, 1)
    ]


def products(program: Program) -> list[ExternKernelLine]:
    lines: tuple[BodyLine, ...] = program.lines
    return [line for line in lines if isinstance(line, ExternKernelLine)]


class Model(torch.nn.Module):
    """An embedding, a layer, and scores of all words by the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, 32)
        self.layer = torch.nn.Linear(32, 32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.layer(self.words(tokens)))
        return hidden @ self.words.weight.t()

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        scores = self.forward(tokens)
        return torch.nn.functional.cross_entropy(
            scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )


@pytest.mark.parametrize(
    "emitter",
    [
        "python",
        pytest.param("cpp", marks=pytest.mark.sweep),
        pytest.param("fx", marks=pytest.mark.sweep),
    ],
)
def test_what_a_forward_saves_is_padded(emitter: str, programs: Programs) -> None:
    torch.manual_seed(0)
    model = Model().half()
    tokens = torch.randint(0, WORDS, (4, 16))
    parameters = list(model.parameters())
    wanted = torch.autograd.grad(model.loss(tokens), parameters)
    loss = compiled(model.loss, emitter=emitter)
    found = torch.autograd.grad(loss(tokens), parameters)
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-3)
    forward, backward = programs
    saved = [each.type for each in backward.inputs if isinstance(each.type, TensorType)]
    assert [each.stride for each in saved if each.size == (60, WORDS)] == [(104, 1)]
    # The gradient of the scores is written once, for both products of it.
    made = [line.type for line in backward.lines if isinstance(line, AllocateLine)]
    sizes = [each.size for each in made if isinstance(each, TensorType)]
    assert [product(size) for size in sizes].count(64 * WORDS) == 1
    assert (4, 16, WORDS) in padded(forward) or (64, WORDS) in padded(forward)
    assert padded(backward)
    allocated = {line.result for line in forward.lines if isinstance(line, AllocateLine)}
    assert allocated & {name for line in products(forward) for name in line.writes}
    # Products of the backward take padded rows: nothing is copied for them.
    for line in products(backward):
        for name in line.writes:
            type = value_types(backward)[name]
            assert isinstance(type, TensorType)
            assert type.size[-1] != WORDS or type.stride[-1] != 1


def test_what_the_caller_sees_is_not_padded(programs: Programs) -> None:
    torch.manual_seed(0)
    model = Model().half()
    tokens = torch.randint(0, WORDS, (4, 16))
    with torch.no_grad():
        wanted = model(tokens)
        found = compiled(model)(tokens)
    assert found.stride() == wanted.stride()
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-3)
    assert [padded(program) for program in programs] == [[]]


def test_rows_that_a_view_joins_are_copied(programs: Programs) -> None:
    x, w = torch.randn(32, 64).half(), torch.randn(64, WORDS).half()

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).view(-1).cos()

    with torch.no_grad():
        found = compiled(function)(x, w)
        torch.testing.assert_close(found, function(x, w), rtol=2e-2, atol=2e-2)
    assert [padded(program) for program in programs] == [[]]


def test_decomposed_operators_pad_their_results(programs: Programs) -> None:
    x, w = torch.randn(32, WORDS).half(), torch.randn(WORDS, 64).half()
    backward = torch.ops.aten.rrelu_with_noise_backward  # graphs keep it

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gradient = backward(x, x, x, 0.1, 0.3, True, False)
        return gradient @ w, gradient.t() @ w[:32]

    with torch.no_grad():
        found = compiled(function)(x, w)
        torch.testing.assert_close(found, function(x, w), rtol=2e-2, atol=0.1)
    (program,) = programs
    assert padded(program)
    allocated = [line for line in program.lines if isinstance(line, AllocateLine)]
    sizes = [line.type.size for line in allocated if isinstance(line.type, TensorType)]
    assert sizes.count((32, WORDS)) + sizes.count((WORDS, 32)) == 1


def test_operators_that_are_called_lay_out_their_results(programs: Programs) -> None:
    x, w = torch.randn(16, WORDS).half(), torch.randn(WORDS, 64).half()

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.sort(x, descending=True)[0] @ w

    with torch.no_grad():
        found = compiled(function)(x, w)
        torch.testing.assert_close(found, function(x, w), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("size", [(64, 104), (64, 40), (8, WORDS), (64,)])
def test_sizes_that_are_not_padded(size: tuple[int, ...], programs: Programs) -> None:
    x, w = torch.randn(*size).half(), torch.randn(size[-1], 48).half()

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cos(x) @ w

    with torch.no_grad():
        found = compiled(function)(x, w)
        torch.testing.assert_close(found, function(x, w), rtol=2e-2, atol=2e-2)
    assert [padded(program) for program in programs] == [[]]
