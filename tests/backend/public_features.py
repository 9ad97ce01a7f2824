"""Small functions over the public features of torch.compile, through every emitter.

``make sweep-features`` runs them, with ``FRONTEND=lowering`` through that frontend;
``make test`` does not.  Inductor compiles each of them
in one graph.  ``REFUSED`` lists what is refused, with the code.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch
from torch._dynamo import config as dynamo_config
from torch._inductor import config as inductor_config
from torch.func import grad, hessian, jacrev, vmap
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

from tests.backend.test_constructs import EMITTERS, FRONTEND, compiled, map_rows, scan
from tests.frontend_inductor.captured import while_loop

pytestmark = pytest.mark.sweep

Tensor: TypeAlias = torch.Tensor
Function: TypeAlias = Callable[..., Any]

_attend: Any = flex_attention
_checkpoint: Any = checkpoint


@torch.library.custom_op("wrapperir_features::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("wrapperir_features::add_one_", mutates_args=("x",))
def add_one(x: Tensor) -> None:
    x.add_(1)


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Sine(torch.autograd.Function):
    """A sine with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradients[0] * x.cos()


def own_derivative(x: Tensor) -> Any:
    apply: Any = Sine.apply
    return apply(x) * 2


class Counter(torch.nn.Module):
    """A module that changes its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Tensor) -> Any:
        count: Any = self.count
        return count.add_(x) * 2


def without_gradient(x: Tensor) -> Any:
    with torch.no_grad():
        y = x.sin()
    return y + x * 2


def total(x: Tensor) -> Tensor:
    return (x.sin() * x.softmax(0)).sum()


def scaled_sine(x: Tensor) -> Tensor:
    return x.sin() * x.sum()


def with_hook(x: Tensor) -> Tensor:
    y = x.sin()
    hooked: Any = y
    hooked.register_hook(lambda gradient: gradient * 2)
    return y


def in_place(x: Tensor) -> Any:
    x.add_(1)
    return x.sum()


@torch.compiler.nested_compile_region
def region(x: Tensor, w: Tensor) -> Any:
    return (x @ w).relu()


def calls_of_a_region(x: Tensor, w: Tensor) -> Any:
    return region(region(x, w), w)


def loop(x: Tensor) -> Any:
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x.sin()), (x[0] * 0, x))


def branch(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))


def mutating_operator(x: Tensor) -> Tensor:
    y = x * 1
    torch.ops.wrapperir_features.add_one_(y)
    return y


def sums(x: Tensor) -> Any:
    return scan(lambda c, x: (c + x, c * x), x[0], x, dim=0)


def quantized(x: Tensor) -> Any:
    return torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize() + 1


def item(x: Tensor) -> Tensor:
    return torch.zeros(int(x.abs().sum().ceil().item())) + 1


def module(kind: Function, *arguments: Any) -> Function:
    torch.manual_seed(0)
    made: Function = kind(*arguments)
    return made


def heads(x: Tensor) -> Tensor:
    q = x.reshape(1, 2, -1, 4)
    return functional.scaled_dot_product_attention(q, q, q, is_causal=True)


Shapes: TypeAlias = tuple[tuple[int, ...], ...]

INFERENCE: dict[str, tuple[Function, Shapes]] = {
    "branch": (branch, ((4,),)),
    "loop": (loop, ((4,),)),
    "scan": (sums, ((5, 3),)),
    "map": (lambda x, y: map_rows(lambda x, y: x.sin() + y, x, y), ((5, 3), (3,))),
    "in_place": (in_place, ((4,),)),
    "nonzero": (lambda x: (x > 0).nonzero() * 2, ((8,),)),
    "unique": (lambda x: torch.unique(x.round()) * 2, ((8,),)),
    "item": (item, ((4,),)),
    "float_item": (lambda x: x * x.sum().item(), ((4,),)),
    "masked_select": (lambda x: x[x > 0] * 2, ((8,),)),
    "fft": (lambda x: torch.fft.fft(x).abs() + 1, ((8,),)),
    "float8": (lambda x: x.to(torch.float8_e4m3fn).float() + 1, ((8,),)),
    "bits": (lambda x: x.view(torch.int32) + 1, ((8,),)),
    "uint16": (lambda x: x.abs().to(torch.uint16).to(torch.int64) + 1, ((8,),)),
    "vmap": (vmap(total), ((5, 4),)),
    "jacrev": (jacrev(scaled_sine), ((4,),)),
    "grad": (grad(total), ((4,),)),
    "hessian": (hessian(total), ((4,),)),
    "custom_operator": (lambda x: twice(x) + 1, ((4,),)),
    "mutating_operator": (mutating_operator, ((4,),)),
    "buffer": (Counter(), ((4,),)),
    "outputs": (lambda x: (x + 1, {"b": x * 2}, 3), ((4,),)),
    "aliases": (lambda x: (x, x.view(2, 2), x[1:]), ((4,),)),
    "sort": (lambda x: x.sort(descending=True), ((8,),)),
    "flex_attention": (lambda x: _attend(x, x, x), ((1, 2, 16, 16),)),
    "quantized": (quantized, ((4,),)),
    "lstm": (module(torch.nn.LSTM, 4, 5), ((3, 2, 4),)),
}
TRAINING: dict[str, tuple[Function, Shapes]] = {
    "branch": (branch, ((4,),)),
    "loop": (lambda x: loop(x)[1], ((4,),)),
    "scan": (sums, ((5, 3),)),
    "region": (calls_of_a_region, ((3, 3), (3, 3))),
    "checkpoint": (
        lambda x, w: _checkpoint(lambda a: (a.sin() @ w).relu(), x, use_reentrant=False),
        ((3, 3), (3, 3)),
    ),
    "autograd_function": (own_derivative, ((4,),)),
    "without_gradient": (without_gradient, ((4,),)),
    "hook": (with_hook, ((4,),)),
    "attention": (heads, ((2, 3, 4),)),
    "batch_norm": (module(torch.nn.BatchNorm1d, 4), ((5, 4),)),
    "convolution": (module(torch.nn.Conv2d, 2, 3, 3), ((1, 2, 6, 6),)),
    "layer_norm": (module(torch.nn.LayerNorm, 4), ((5, 4),)),
    "transformer": (
        module(torch.nn.TransformerEncoderLayer, 8, 2, 16, 0.0),
        ((3, 2, 8),),
    ),
    "embedding": (
        lambda w: functional.embedding(torch.tensor([0, 2, 2]), w).sin(),
        ((4, 3),),
    ),
    "dropout": (lambda x: functional.dropout(x, 0.5), ((8, 8),)),
}

REFUSED: dict[tuple[str, str, str], tuple[str, str]] = {
    ("quantized", "inductor", "cpp"): ("WIR705", "C++ has no quantized dtypes"),
    **{
        ("quantized", "lowering", emitter): ("WIR603", "loops have no quantized dtypes")
        for emitter in EMITTERS
    },
}


@pytest.fixture(autouse=True)
def settings() -> Any:
    with (
        dynamo_config.patch(
            capture_scalar_outputs=True,
            capture_dynamic_output_shape_ops=True,
            allow_rnn=True,
        ),
        inductor_config.patch(fallback_random=True),
    ):
        yield


@pytest.mark.parametrize("emitter", ["inductor", *EMITTERS])
@pytest.mark.parametrize("name", INFERENCE)
def test_inference(name: str, emitter: str) -> None:
    function, shapes = INFERENCE[name]
    with torch.no_grad():
        _compare(name, "inference", emitter, lambda f, *xs: (f(*xs), xs), function, shapes)


@pytest.mark.parametrize("emitter", ["inductor", *EMITTERS])
@pytest.mark.parametrize("name", TRAINING)
def test_training(name: str, emitter: str) -> None:
    function, shapes = TRAINING[name]

    def gradients(function: Function, *inputs: Tensor) -> Any:
        outputs = function(*inputs)
        several = outputs if isinstance(outputs, list | tuple) else (outputs,)
        loss = sum((output.sin().sum() for output in several), torch.zeros(()))
        return outputs, torch.autograd.grad(loss, inputs)

    _compare(name, "training", emitter, gradients, function, shapes)


@pytest.mark.parametrize("emitter", ["inductor", *EMITTERS])
@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "convolution", "dropout"])
def test_dynamic_sizes(name: str, emitter: str) -> None:
    function, (shape, *_) = TRAINING[name]
    made = compiled(function, emitter)
    for size in (5, 8):
        x = torch.randn(size, *shape[1:])
        torch._dynamo.mark_dynamic(x, 0)
        results: list[Tensor] = []
        for function_ in (made, function):
            torch.manual_seed(1)
            results.append(function_(x))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def _compare(
    name: str, use: str, emitter: str, run: Function, function: Function, shapes: Shapes
) -> None:
    """Compare a run of the compiled function with one of the function itself."""
    inputs = [torch.randn(shape) for shape in shapes]

    def once(function: Function) -> Any:
        torch.manual_seed(1)
        state = function.state_dict() if isinstance(function, torch.nn.Module) else {}
        kept = {key: value.clone() for key, value in state.items()}
        copies = [x.clone().requires_grad_(use == "training") for x in inputs]
        result = run(function, *copies)
        changed = [value.clone() for value in state.values()]
        for key, value in kept.items():
            state[key].detach().copy_(value)
        return result, changed

    refused = REFUSED.get((name, FRONTEND, emitter))
    if refused is not None:
        code, reason = refused
        with pytest.raises(Exception, match=code):
            once(compiled(function, emitter))
        pytest.xfail(f"{code}: {reason}")
    expected = once(function)
    actual = once(compiled(function, emitter))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
