"""Operands of products are copied to padded ones only where their rows need it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from torch._inductor import config
from torch._inductor.fx_passes import pad_mm
from torch.fx.experimental.proxy_tensor import make_fx

from wrapperir.frontend.inductor import capture, product_padding
from wrapperir.text import format_program

aten = torch.ops.aten

Function = Callable[..., Any]


def decisions(
    monkeypatch: pytest.MonkeyPatch,
    function: Function,
    *sizes: tuple[int, ...],
    tracing: Literal["fake", "symbolic"] = "fake",
    is_scoped: bool = True,
) -> list[bool]:
    """Return whether Inductor may pad each product; the last argument is a tangent."""
    monkeypatch.setattr(product_padding, "_STOCK", lambda *_: True)
    inputs = [torch.zeros(size, dtype=torch.bfloat16) for size in sizes]
    graph = make_fx(function, tracing_mode=tracing)(*inputs).graph
    *_, tangent = graph.find_nodes(op="placeholder")
    tangent.target = "tangents_1"

    def decide(node: torch.fx.Node) -> bool:
        packet = node.target.overloadpacket  # type: ignore[union-attr]
        given = node.args[1:] if packet is aten.addmm else node.args
        match: Any = SimpleNamespace(kwargs=dict(zip(("mat1", "mat2"), given, strict=True)))
        values = [arg.meta["val"] for arg in given if isinstance(arg, torch.fx.Node)]
        return pad_mm.should_pad(match, values[0], values[1], packet)

    products = [
        node
        for target in (aten.mm.default, aten.addmm.default)
        for node in graph.find_nodes(op="call_function", target=target)
    ]
    if not is_scoped:
        return [decide(node) for node in products]
    with product_padding.padding_where_needed():
        return [decide(node) for node in products]


def backward(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> Any:
    """Return gradients of ``x @ w.t()``, whose tangent a kernel computes."""
    d = d.exp().view(-1, d.shape[-1])
    return d @ w, d.t() @ x


ROWS, WORDS = 32, 5001
SIZES = (WORDS, 64), (ROWS, 64), (ROWS, WORDS)


def test_long_rows_that_a_kernel_writes_are_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert decisions(monkeypatch, backward, *SIZES) == [False, False]
    assert decisions(monkeypatch, backward, *SIZES[:2], (4, 8, WORDS)) == [False, False]


def test_elsewhere_inductor_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decisions(monkeypatch, backward, *SIZES, is_scoped=False) == [True, True]


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        # Its own rows are not multiples of eight numbers.
        (lambda w, x, d: x.exp() @ w.t(), SIZES),
        # The caller's are not.
        (lambda w, x, d: d @ w, SIZES),
        (lambda w, x, d: d.t() @ x, SIZES),
        # Too short for Inductor to pad them.
        (lambda w, x, d: d.exp() @ w, ((513, 64), (ROWS, 64), (ROWS, 513))),
        # A library writes them.
        (lambda w, x, d: (x @ w.t()) @ (d.t() @ x), SIZES),
        (lambda w, x, d: torch.addmm(d.sum(0), x, w.t()) @ w, SIZES),
        # A row is not the whole row that the kernel writes.
        (lambda w, x, d: d.exp()[:, 1:] @ w[1:], SIZES),
    ],
)
def test_other_rows_are_for_inductor_to_decide(
    monkeypatch: pytest.MonkeyPatch, function: Function, sizes: Any
) -> None:
    assert all(decisions(monkeypatch, function, *sizes))


def test_results_of_the_forward_stay_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(x: torch.Tensor, w: torch.Tensor, d: torch.Tensor) -> Any:
        y = x.exp()
        return y.view(2, -1, WORDS), y @ w

    def one(x: torch.Tensor, w: torch.Tensor, d: torch.Tensor) -> Any:
        return x.exp() @ w

    sizes = (ROWS, WORDS), (WORDS, 64), (1, 1)
    assert decisions(monkeypatch, both, *sizes) == [True]
    assert decisions(monkeypatch, one, *sizes) == [False]


def test_inputs_of_convolutions_stay_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    def convolved(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> Any:
        made = d.exp()
        return made @ w, torch.conv1d(made.unsqueeze(1), x[:1, :3].unsqueeze(0))

    assert decisions(monkeypatch, convolved, *SIZES) == [True]


def test_without_padding_of_layouts_inductor_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with config.patch(comprehensive_padding=False):
        assert decisions(monkeypatch, backward, *SIZES) == [True, True]


def test_symbolic_rows_are_for_inductor_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decisions(monkeypatch, backward, *SIZES, tracing="symbolic") == [True, True]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_backward_of_odd_columns_copies_no_operand() -> None:
    head = torch.nn.Linear(256, 20001, bias=False, device="cuda", dtype=torch.bfloat16)

    def loss(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = head(x).float()
        return torch.nn.functional.cross_entropy(logits, targets)

    x = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    targets = torch.randint(0, 20001, (512,), device="cuda")
    _, lowered = capture(loss, [x, targets], training=True)
    assert "constant_pad" not in format_program(lowered.program)

    grads: list[torch.Tensor] = []
    compiled: Function = torch.compile(loss, backend="wrapperir")
    for function in (loss, compiled):
        x.grad = head.weight.grad = None
        function(x, targets).backward()
        assert x.grad is not None
        assert head.weight.grad is not None
        grads += [x.grad, head.weight.grad]
    torch.testing.assert_close(grads[2], grads[0], rtol=2e-2, atol=1e-4)
    torch.testing.assert_close(grads[3], grads[1], rtol=2e-2, atol=1e-4)
