"""Constructs of PyTorch beyond operators, compiled with every emitter, beside eager."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch
from torch._higher_order_ops.map import map as _map
from torch._higher_order_ops.scan import scan as _scan

from tests.frontend_inductor.captured import while_loop

# They carry no types.
scan: Any = _scan
map_rows: Any = _map

Tensor: TypeAlias = torch.Tensor
Function: TypeAlias = Callable[..., Any]

EMITTERS = ("python", "cpp", "fx")
FRONTEND = os.environ.get("FRONTEND", "inductor")
"""``make sweep-features FRONTEND=lowering`` sets it."""


pytestmark = pytest.mark.usefixtures("quick_kernels")


def compiled(function: Function, emitter: str) -> Function:
    """Return the function, compiled as one graph."""
    torch._dynamo.reset()
    options: Any = {"emitter": emitter, "frontend": FRONTEND}
    return torch.compile(function, backend="wrapperir", fullgraph=True, options=options)


def accumulate(carry: Tensor, rows: Tensor) -> Any:
    return scan(lambda c, x: (c + x, (c * x).sin()), carry, rows, dim=0)


def accumulate_backwards(carry: Tensor, rows: Tensor) -> Any:
    return scan(lambda c, x: (c + x, (c * x).sin()), carry, rows, dim=0, reverse=True)


def add_to_rows(rows: Tensor, row: Tensor) -> Any:
    return map_rows(lambda x, y: x.sin() + y, rows, row)


def repeat(x: Tensor, w: Tensor) -> Any:
    """Run as often as a number in a tensor says."""
    begin, step = w[0].floor().long(), lambda i, x: (i + 1, (x * w).sin())
    return while_loop(lambda i, x: i < 3, step, (begin, x))[1]


LOOPS: list[tuple[Function, tuple[tuple[int, ...], ...]]] = [
    (accumulate, ((3,), (5, 3))),
    (accumulate_backwards, ((3,), (5, 3))),
    (add_to_rows, ((5, 3), (3,))),
]


def with_quick_kernels() -> list[Any]:
    """Return each loop with each emitter; ``make test`` has one with kernels in C++."""
    return [
        pytest.param(
            *loop,
            emitter,
            marks=pytest.mark.sweep if i and emitter == "cpp" else (),
            id=f"{loop[0].__name__}-{emitter}",
        )
        for i, loop in enumerate(LOOPS)
        for emitter in EMITTERS
    ]


@pytest.mark.parametrize(("function", "shapes", "emitter"), with_quick_kernels())
def test_loops(
    function: Function, shapes: tuple[tuple[int, ...], ...], emitter: str
) -> None:
    inputs = [torch.randn(shape) for shape in shapes]
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, emitter)(*inputs), function(*inputs))


def in_training() -> list[Any]:
    """Return each loop with each emitter; ``make test`` has each of both."""
    return [
        pytest.param(
            *loop,
            emitter,
            marks=() if i % len(EMITTERS) == j else pytest.mark.sweep,
            id=f"{loop[0].__name__}-{emitter}",
        )
        for i, loop in enumerate([*LOOPS, (repeat, ((5, 3), (3,)))])
        for j, emitter in enumerate(EMITTERS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "shapes", "emitter"), in_training())
def test_loops_in_training(
    function: Function, shapes: tuple[tuple[int, ...], ...], emitter: str
) -> None:
    inputs = [torch.randn(shape) for shape in shapes]

    def gradients(function: Function) -> list[Tensor | None]:
        leaves = [x.clone().requires_grad_() for x in inputs]
        outputs = function(*leaves)
        several = outputs if isinstance(outputs, list | tuple) else (outputs,)
        torch.autograd.backward([output.sum() for output in several])
        return [leaf.grad for leaf in leaves]

    torch.testing.assert_close(gradients(compiled(function, emitter)), gradients(function))


@pytest.mark.slow
@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_region_used_twice_in_training(emitter: str) -> None:
    @torch.compiler.nested_compile_region
    def layer(x: Tensor, w: Tensor) -> Any:
        return (x @ w).relu()

    def model(x: Tensor, w: Tensor) -> Any:
        return layer(layer(x, w), w)

    x, w = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    gradients = torch.autograd.grad(compiled(model, emitter)(x, w).sum(), (x, w))
    expected = torch.autograd.grad(model(x, w).sum(), (x, w))
    torch.testing.assert_close(gradients, expected)


def jagged() -> Tensor:
    rows = [torch.randn(2, 4), torch.randn(5, 4)]
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


def softmax_of_rows(x: Tensor) -> Any:
    return x.softmax(-1).sum(1)


def pad(x: Tensor) -> Any:
    return torch.nested.to_padded_tensor(x, 0.0) + 1


def split_heads(x: Any) -> Any:
    return x.unflatten(-1, (2, 2)).transpose(1, 2) * 2


@pytest.mark.parametrize(
    ("function", "emitter"),
    [
        pytest.param(
            *(function, emitter),
            marks=() if i % len(EMITTERS) == j else pytest.mark.sweep,
        )
        for i, function in enumerate([torch.sin, softmax_of_rows, pad, split_heads])
        for j, emitter in enumerate(EMITTERS)
    ],
)
def test_jagged_tensors(function: Function, emitter: str) -> None:
    x = jagged()
    result, expected = compiled(function, emitter)(x), function(x)
    assert result.is_nested is expected.is_nested
    if result.is_nested:
        assert result.size() == expected.size()  # of the same rows
        assert result.stride() == expected.stride()
        result, expected = result.values(), expected.values()
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("emitter", ["fx"])
def test_all_results_of_jagged_tensors_have_the_same_rows(emitter: str) -> None:
    def function(x: Tensor) -> Any:
        return x.cos(), x.sin()

    x = jagged()
    for result in compiled(function, emitter)(x):
        assert result.size() == x.size()


@pytest.mark.parametrize("emitter", ["python"])
def test_a_graph_with_objects_is_compiled_again(emitter: str) -> None:
    x = jagged()
    for _ in range(2):
        result = compiled(torch.cos, emitter)(x)
        torch.testing.assert_close(result.values(), x.values().cos())


@pytest.mark.slow
@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_jagged_tensor_of_a_graph_in_training(emitter: str) -> None:
    layer = torch.nn.Linear(4, 6)
    rows = jagged().values()

    def model(values: Tensor, offsets: Tensor) -> Any:
        x = torch.nested.nested_tensor_from_jagged(values, offsets)
        return layer(x).relu().values()

    def gradients(function: Function) -> Any:
        values = rows.clone().requires_grad_()
        loss = function(values, torch.tensor([0, 2, 7])).sum()
        return torch.autograd.grad(loss, (values, layer.weight))

    torch.testing.assert_close(gradients(compiled(model, emitter)), gradients(model))
