"""Errors of the user's own code, and of memory that runs out, beside Inductor's."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._inductor import config

from tests.torch_release import BEFORE_2_13, NEEDS_MESSAGES

EMITTERS = ("python", "cpp", "fx")
BACKENDS: dict[str, dict[str, Any]] = {
    "inductor": {"backend": "inductor"},
    **{
        emitter: {"backend": "wrapperir", "options": {"emitter": emitter}}
        for emitter in EMITTERS
    },
}
WITH_MESSAGES = [
    pytest.param(name, marks=NEEDS_MESSAGES if name == "cpp" else ()) for name in BACKENDS
]
"""Back ends, if what fails in them can say why."""
RAISED: list[BaseException] = []
RAISED_WHEN_TRACED: list[BaseException] = []


class OwnError(ValueError):
    """An error of the user's own."""


@torch.library.custom_op("robustness::step", mutates_args=())
def step(x: torch.Tensor) -> torch.Tensor:
    if RAISED:
        raise RAISED[0]
    return x.clone()


@step.register_fake
def _traced(x: torch.Tensor) -> torch.Tensor:
    if RAISED_WHEN_TRACED:
        raise RAISED_WHEN_TRACED[0]
    return torch.empty_like(x)


def _backward(_: Any, gradient: torch.Tensor) -> Any:
    return torch.ops.robustness.step(gradient)


step.register_autograd(_backward)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    RAISED.clear()
    RAISED_WHEN_TRACED.clear()
    torch._dynamo.reset()


def _function(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = (step(x.sin() + 1) * 2) @ x
    return result


def _works(compiled: Callable[..., Any]) -> None:
    """Check results and gradients of a compiled ``_function``."""
    x = torch.randn(4, 4, requires_grad=True)
    torch.testing.assert_close(compiled(x), _function(x))
    for result in (compiled(x), _function(x)):
        found, wanted = (torch.autograd.grad(r.sum(), x)[0] for r in (result, _function(x)))
        torch.testing.assert_close(found, wanted)


ERRORS = [
    OwnError("why"),
    KeyError("key"),
    StopIteration("stop"),
    NotImplementedError("two\nlines"),
    MemoryError("none left"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1"),
    KeyboardInterrupt(),
    SystemExit(3),
]


@pytest.mark.parametrize("backend", WITH_MESSAGES)
def test_an_error_of_an_operator_passes_through(backend: str) -> None:
    compiled = torch.compile(_function, **BACKENDS[backend])
    x = torch.randn(4, 4)
    compiled(x)
    for error in ERRORS:
        RAISED.append(error)
        with torch.no_grad(), pytest.raises(type(error)) as caught:
            compiled(x)
        assert type(caught.value) is type(error)
        RAISED.clear()
        if not isinstance(error, torch.OutOfMemoryError):  # in C++ the line is before it
            assert caught.value.args in (error.args, (str(error),))
        _works(compiled)


@pytest.mark.skipif(BEFORE_2_13, reason="graphs lack the checks of errors before 2.13")
@pytest.mark.parametrize("backend", WITH_MESSAGES)
def test_an_error_of_an_operator_of_pytorchs(backend: str) -> None:
    linalg: Any = torch.linalg
    compiled: Any = torch.compile(linalg.cholesky, **BACKENDS[backend])
    for _ in range(2):  # in a first call, a mode of PyTorch's calls the operators
        with pytest.raises(linalg.LinAlgError, match="not positive-definite"):
            compiled(-torch.eye(3))


@pytest.mark.parametrize("backend", WITH_MESSAGES)
def test_an_error_in_a_backward_passes_through(backend: str) -> None:
    compiled = torch.compile(_function, **BACKENDS[backend])
    x = torch.randn(4, 4, requires_grad=True)
    torch.autograd.grad(compiled(x).sum(), x)
    y = compiled(x)
    RAISED.append(OwnError("why"))
    with pytest.raises(OwnError, match=r"^why"):
        torch.autograd.grad(y.sum(), x)
    RAISED.clear()
    _works(compiled)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_of_a_hook_passes_through(backend: str) -> None:
    def refuse(gradient: torch.Tensor) -> None:
        raise OwnError("why")

    compiled = torch.compile(_function, **BACKENDS[backend])
    x: Any = torch.randn(4, 4, requires_grad=True)
    y = compiled(x)
    x.register_hook(refuse)
    with pytest.raises(OwnError, match=r"^why$"):
        torch.autograd.grad(y.sum(), x)
    _works(compiled)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_while_an_operator_is_traced(backend: str) -> None:
    compiled = torch.compile(_function, **BACKENDS[backend])
    RAISED_WHEN_TRACED.append(OwnError("why"))
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match=r"OwnError\('why'\)"):
        compiled(torch.randn(4, 4))
    RAISED_WHEN_TRACED.clear()
    _works(compiled)


@pytest.mark.parametrize(
    "setting",
    ["joint_custom_pre_pass", "post_grad_custom_pre_pass", "post_grad_custom_post_pass"],
)
def test_an_error_of_a_pass_of_the_users(setting: str) -> None:
    def refuse(_: Any) -> None:
        raise OwnError("why")

    raised: set[type[BaseException]] = set()
    for options in BACKENDS.values():
        torch._dynamo.reset()
        compiled = torch.compile(_function, **options)
        with (
            config.patch({setting: refuse}),
            pytest.raises(Exception, match="why") as caught,
        ):
            compiled(torch.randn(4, 4))
        raised.add(type(caught.value))
        _works(compiled)
    assert len(raised) == 1


def _outer(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(x[:, None].sin(), x[None, :]).cos().cumsum(0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("backend", WITH_MESSAGES)
def test_memory_that_runs_out(backend: str) -> None:
    compiled = torch.compile(_outer, dynamic=True, **BACKENDS[backend])
    x = torch.randn(8)
    torch.testing.assert_close(compiled(x), _outer(x))
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match="can't allocate memory: you tried to allocate"
        ):
            compiled(torch.ones(1).expand(1 << 24))
        torch.testing.assert_close(compiled(x), _outer(x))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_of_a_gpu_that_runs_out(backend: str) -> None:
    compiled = torch.compile(_outer, dynamic=True, **BACKENDS[backend])
    x = torch.randn(8, device="cuda")
    expected = _outer(x)
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        torch.testing.assert_close(compiled(x), expected)
        for _ in range(2):
            with pytest.raises(torch.OutOfMemoryError, match=r"out of memory|stderr"):
                compiled(torch.ones(1, device="cuda").expand(1 << 20))
            assert torch.cuda.current_stream() == stream
            torch.testing.assert_close(compiled(x), expected)
