"""Features of torch.compile that work with Inductor, with each emitter."""

import copy
import functools
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed._functional_collectives as functional
from torch import nn
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from torch._inductor import config
from torch.utils.checkpoint import checkpoint

from tests.torch_release import BEFORE_2_13
from wrapperir.frontend.kept_programs import SETTING

TORCH: Any = torch
Compile = Callable[..., Any]
EMITTERS = ("python", "cpp", "fx")
CASES: dict[str, Callable[[Compile], None]] = {}


def case(function: Callable[[Compile], None]) -> Callable[[Compile], None]:
    CASES[function.__name__.strip("_")] = function
    return function


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 8))


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def _gradients(model: nn.Module) -> list[Any]:
    return [parameter.grad for parameter in model.parameters()]


@case
def _statistics_of_batches_are_kept(compile: Compile) -> None:
    model = nn.BatchNorm1d(8)
    other = copy.deepcopy(model)
    compiled = compile(model)
    for _ in range(3):
        x = torch.randn(4, 8)
        close(compiled(x), other(x))
    assert model.num_batches_tracked == 3
    close(model.running_mean, other.running_mean)
    model.eval(), other.eval()
    x = torch.randn(4, 8)
    close(compiled(x), other(x))


@case
def _checkpoints_with_dropout(compile: Compile) -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x.sin(), 0.5)

    def function(x: torch.Tensor) -> Any:
        return checkpoint(body, x, use_reentrant=False)

    x = torch.ones(64, requires_grad=True)
    y = compile(function)(x)
    y.sum().backward()
    assert ((x.grad == 0) == (y == 0)).all()


@case
def _a_whole_step_is_compiled(compile: Compile) -> None:
    model = _model()
    other = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other)]

    def step(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = compile(step)
    for _ in range(3):
        x = torch.randn(4, 8)
        close(compiled(model, optimizers[0], x), step(other, optimizers[1], x))
    close(list(model.parameters()), list(other.parameters()))


@case
def _compiled_autograd(compile: Compile) -> None:
    model = _model()
    other = copy.deepcopy(model)
    x = torch.randn(4, 8)
    with torch._dynamo.config.patch(compiled_autograd=True):

        def step(x: torch.Tensor) -> None:
            model(x).square().sum().backward()

        compile(step)(x)
    other(x).square().sum().backward()
    close(_gradients(model), _gradients(other))


@case
def _hooks_of_saved_tensors(compile: Compile) -> None:
    packed = []

    def pack(x: torch.Tensor) -> torch.Tensor:
        packed.append(x)
        return x

    model = _model()
    compiled = compile(model)
    x = torch.randn(4, 8)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        y = compiled(x)
    assert packed
    y.sum().backward()
    found = [gradient.clone() for gradient in _gradients(model)]
    model.zero_grad()
    model(x).sum().backward()
    close(found, _gradients(model))


@case
def _numbers_of_eager(compile: Compile) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.5) + torch.randn(3, 4) + torch.randint(0, 5, (4,))

    x = torch.ones(3, 4)
    with config.patch(fallback_random=True):
        compiled = compile(function)
        torch.manual_seed(7)
        found = compiled(x), torch.rand(2)
    torch.manual_seed(7)
    close(found, (function(x), torch.rand(2)))


@case
def _inputs_share_memory(compile: Compile) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    base, other = torch.arange(8.0), torch.arange(8.0)
    compiled = compile(function)
    close(compiled(torch.zeros(4), torch.ones(4)), torch.full((4,), 2.0))
    close(compiled(base[:4], base[2:6]), function(other[:4], other[2:6]))
    close(base, other)


@case
def _numpy_functions(compile: Compile) -> None:
    def function(x: Any) -> Any:
        return np.sin(x).sum(axis=0) * 2

    x = np.ones((3, 4), dtype=np.float32)
    found = compile(function)(x)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, function(x), rtol=1e-5)


@case
def _a_dynamic_size_is_marked(compile: Compile) -> None:
    compiled = compile(lambda x: x.sin() * 2)
    x = torch.randn(4, 3)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    close(compiled(x), x.sin() * 2)
    with torch.compiler.set_stance("fail_on_recompile"):
        close(compiled(torch.ones(9, 3)), torch.ones(9, 3).sin() * 2)
        with pytest.raises(RuntimeError, match="recompile"):
            compiled(torch.ones(9, 4))


@case
def _a_region_is_compiled_once(compile: Compile) -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        return (x @ x).relu() + 1

    region: Any = TORCH.compiler.nested_compile_region(block)

    def function(x: torch.Tensor) -> Any:
        return region(region(region(x)))

    x = torch.randn(4, 4, requires_grad=True)
    found, wanted = compile(function, fullgraph=True)(x), function(x)
    close(found, wanted)
    close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(wanted.sum(), x))


@case
def _freezing(compile: Compile) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    x = torch.randn(2, 3, 8, 8)
    with config.patch(freezing=True), torch.no_grad():
        close(compile(model)(x), model(x))


@case
def _collectives(compile: Compile) -> None:
    with tempfile.NamedTemporaryFile() as file:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{file.name}", rank=0, world_size=1
        )
        try:
            group: Any = torch.distributed.group.WORLD

            def function(x: torch.Tensor) -> Any:
                y = functional.all_reduce(x * 2, "sum", group)
                z = functional.all_gather_tensor(x, 0, group)
                return y + z

            x = torch.randn(4, 8)
            close(compile(function)(x), x * 3)
        finally:
            torch.distributed.destroy_process_group()


@case
def _compiled_ahead_of_time(compile: Compile) -> None:
    if BEFORE_2_13:
        pytest.skip("2.11 compiles no function ahead of time, but methods only")

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    x = torch.randn(4)
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        config.patch(cpu_backend="cpp"),  # graphs with Triton kernels are not saved
    ):
        patch.delenv(SETTING)
        # PyTorch saves all kernels of FX graphs in this process, also of other functions.
        patch.setattr(kernel_side_table, "id_to_kernel", {})
        compiled = compile(function, fullgraph=True)
        ahead = compiled.aot_compile(((x,), {}))
        close(ahead(x), function(x))
        ahead.save_compiled_function(f"{folder}/saved")
        torch._dynamo.reset()
        with open(f"{folder}/saved", "rb") as file:
            close(TORCH.compiler.load_compiled_function(file)(x), function(x))


@case
def _checkpoints_with_attention(compile: Compile) -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x.sin(), x, x).exp()

    def function(x: torch.Tensor) -> Any:
        return checkpoint(body, x, use_reentrant=False)

    x = torch.randn(1, 2, 8, 4, requires_grad=True)
    found, wanted = compile(function)(x), function(x)
    close(found, wanted)
    close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(wanted.sum(), x))


@case
def _checkpoints_with_numbers_of_eager(compile: Compile) -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x.sin() * torch.rand_like(x), 0.5).exp()

    def gradients(function: Any) -> Any:
        torch.manual_seed(7)
        x = torch.ones(64, requires_grad=True)
        y = checkpoint(function, x, use_reentrant=False)
        return y, torch.autograd.grad(y.sum(), x), torch.rand(2)

    with config.patch(fallback_random=True):
        close(gradients(compile(body)), gradients(body))
        step = compile(lambda x: checkpoint(body, x, use_reentrant=False))
        close(gradients(step), gradients(body))


@pytest.mark.usefixtures("quick_kernels")
@pytest.mark.parametrize(
    ("name", "emitter"),
    [
        # Each runs with one emitter here, with the others in the sweep.
        pytest.param(
            *(name, emitter),
            marks=() if i % len(EMITTERS) == j else pytest.mark.sweep,
        )
        for i, name in enumerate(CASES)
        for j, emitter in enumerate(EMITTERS)
    ],
)
def test_it_works(name: str, emitter: str) -> None:
    options = {"emitter": emitter}
    CASES[name](functools.partial(torch.compile, backend="wrapperir", options=options))
