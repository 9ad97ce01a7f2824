"""What a capture patches is as before, also when compilation fails."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import config as dynamo_config
from torch._inductor import config, ir
from torch._inductor.codegen import common
from torch._inductor.codegen.wrapper import PythonWrapperCodegen

from tests.frontend_inductor.captured import capture_all, capture_one, lines_of
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor import capture
from wrapperir.frontend.inductor.compilation import capturing
from wrapperir.frontend.inductor.session import Session
from wrapperir.ir import ExternKernelLine


def _state() -> tuple[Any, ...]:
    from triton.runtime import driver

    common.init_backend_registration()
    if torch.cuda.is_available():
        _ = driver.active  # Triton looks for the GPU's when it is first asked
    return (
        {name: tuple(vars(c).items()) for name, c in common.device_codegens.items()},
        dict(common.custom_backend_passes),
        dict(common.custom_backend_codegen_configs),
        config.save_config_portable(),
        driver._active,
        torch._functorch.config.enable_autograd_cache,
    )


def _session() -> Session:
    def never(*_: object) -> Any:
        raise AssertionError

    return Session(never, alignment_asserts=True)


@pytest.mark.parametrize("cpu_backend", [None, "triton"])
def test_everything_is_restored_after_a_capture(cpu_backend: str | None) -> None:
    before = _state()
    capture_one(lambda x: x.sin().sum(), torch.randn(8), cpu_backend=cpu_backend)
    assert _state() == before


def _raise(*_: object, **__: object) -> None:
    raise RuntimeError("on purpose")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ir.ExternKernelOut, "codegen"),
        (PythonWrapperCodegen, "run_wrapper_ir_passes"),
        (PythonWrapperCodegen, "generate_kernel_call"),
    ],
)
def test_everything_is_restored_after_a_failure(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _state()
    monkeypatch.setattr(owner, name, _raise)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="on purpose"):
        capture(lambda x: (x @ x).relu(), (torch.randn(4, 4),), cpu_backend="triton")
    assert _state() == before


@pytest.mark.parametrize("name", ["cpp_wrapper", "fx_wrapper", "triton.cudagraphs"])
def test_a_users_settings_are_restored_after_a_failure(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ir.ExternKernelOut, "codegen", _raise)
    torch._dynamo.reset()
    with config.patch({name: True}):
        before = _state()
        with pytest.raises(Exception, match="on purpose"):
            capture(lambda x: (x @ x).relu(), (torch.randn(4, 4),), cpu_backend="triton")
        with pytest.raises(Exception, match="on purpose"):
            torch.compile(lambda x: (x @ x).relu(), backend="wrapperir")(torch.eye(4))
        assert _state() == before


def test_what_a_captured_function_runs_may_compile_for_itself() -> None:
    """``capture`` runs the function; what that compiles is not part of the program."""
    seen: list[object] = []

    def doubled(x: torch.Tensor) -> torch.Tensor:
        seen.append((config.cpu_backend, common.device_codegens["cpu"].wrapper_codegen))
        result: torch.Tensor = torch.compile(lambda x: x * 2 + 1, backend="inductor")(x)
        return result

    with torch.library._scoped_library("wrapperir_nested", "FRAGMENT") as library:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", doubled, "CPU")
        library.impl("doubled", torch.empty_like, "Meta")
        operator = torch.ops.wrapperir_nested.doubled
        x = torch.randn(4)
        before = _state()
        program = capture_one(lambda x: operator(x.sin()) * 3, x, cpu_backend="triton")
        assert _state() == before
        (call,) = lines_of(program, ExternKernelLine)
        assert call.operator.startswith("wrapperir_nested.doubled")
        assert seen == [(config.cpu_backend, PythonWrapperCodegen)]

        torch._dynamo.reset()
        with config.patch(cpu_backend="triton"):
            compiled = torch.compile(lambda x: operator(x.sin()) * 3, backend="wrapperir")
            with config.patch(cpu_backend="cpp"):
                torch.testing.assert_close(compiled(x), (x.sin() * 2 + 1) * 3)
        assert _state() == before


def test_a_captured_function_runs_once() -> None:
    counter, x = torch.zeros(2), torch.ones(2, requires_grad=True)

    def count(x: torch.Tensor) -> torch.Tensor:
        counter.add_(1)
        return x * 3

    assert len(capture_all(count, (x,), training=True)) == 2
    assert counter.tolist() == [1, 1]
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3]


def test_importing_registers_nothing() -> None:
    common.init_backend_registration()
    for codegen in common.device_codegens.values():
        assert "wrapperir" not in str(codegen.wrapper_codegen)


def test_another_thread_gets_inductors_own_wrapper_meanwhile() -> None:
    common.init_backend_registration()
    made: list[object] = []
    factory: Any
    with capturing(_session()):
        factory = common.device_codegens["cpu"].wrapper_codegen
        stock: Callable[..., Any] = lambda *_: "stock"  # noqa: E731
        factory._stock = type("Stock", (), {"create": staticmethod(stock)})
        thread = threading.Thread(
            target=lambda: made.append(factory.create(False, None, None))
        )
        thread.start()
        thread.join()
    assert made == ["stock"]


def test_scopes_nest() -> None:
    before = _state()
    with capturing(_session()):
        outer = common.device_codegens["cpu"]
        with capturing(_session()):
            pass
        assert common.device_codegens["cpu"] is outer
    assert _state() == before


def test_text_that_no_line_stands_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: ir.ExternKernelOut, wrapper: Any) -> None:
        wrapper.writeline("print('pasted')")

    monkeypatch.setattr(ir.ExternKernelOut, "codegen", write)
    torch._dynamo.reset()
    with pytest.raises(DiagnosticError, match=r"print.*pasted.*ExternKernelOut") as error:
        capture(lambda x: x @ x, (torch.randn(4, 4),))
    assert error.value.diagnostics[0].code is Code.INDUCTOR_TEXT


def test_an_operator_outside_the_dispatcher_is_refused_by_name() -> None:
    def show(x: torch.Tensor) -> torch.Tensor:
        torch.ops.higher_order.print("{}", x.shape[0])
        return x + 1

    torch._dynamo.reset()
    with pytest.raises(DiagnosticError, match=r"WIR652.*print"):
        capture(show, (torch.randn(4),))


def test_a_function_that_was_compiled_often_is_captured() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x = torch.ones(3)
    for _ in range(dynamo_config.recompile_limit):  # Dynamo compiles it no more often
        torch.compile(doubled, backend=lambda graph, _: graph.forward)(x)
    (lowered,) = capture(doubled, (x,))
    assert len(lowered.program.inputs) == 1
