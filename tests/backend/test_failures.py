"""What a user of ``torch.compile`` sees of a failure, and the option ``fallback``."""

import inspect
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from attrs import evolve
from torch._inductor import config

from tests.torch_release import BEFORE_2_13
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Emitter
from wrapperir.ir import ExternKernelLine
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter


@pytest.fixture(autouse=True)
def triton_on_cpu() -> Iterator[None]:
    torch._dynamo.reset()
    with config.patch(cpu_backend="triton"):
        yield


def head(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x.sin() + 1
    return torch.mm(y, w)


MM_LINE = inspect.getsourcelines(head)[1] + 2


def inputs(grad: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(4, 4, requires_grad=grad) for _ in range(2)]


BOTH = pytest.mark.parametrize("frontend", ["inductor", "lowering"])


def diagnostics_of(
    options: dict[str, Any], function: Callable[..., Any] = head
) -> DiagnosticError:
    """Return the error of a compilation that fails."""
    with pytest.raises(Exception, match="WIR") as raised, torch.no_grad():
        torch.compile(function, backend="wrapperir", options=options)(*inputs())
    error = getattr(raised.value, "inner_exception", raised.value)
    assert isinstance(error, DiagnosticError)
    return error


def without_operators() -> Emitter:
    emitter = PythonEmitter()
    lines = emitter.support.lines - {ExternKernelLine}
    emitter.support = evolve(emitter.support, lines=lines)
    return emitter


@pytest.fixture
def failing_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Inductor fail by an error of its own, at each kernel of this backend's."""
    monkeypatch.setattr(
        "wrapperir.frontend.inductor.wrapper.CaptureWrapper.generate_kernel_call",
        Mock(side_effect=KeyError("grid_type")),  # raised in a module of Python's own
    )


@BOTH
def test_an_emitter_that_refuses_names_the_users_line(
    frontend: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "frontend": frontend,
        "emitter": without_operators(),
        "passes": (),
        "dump_dir": str(tmp_path),
    }
    found = diagnostics_of(options).diagnostics[0]
    assert found.code is Code.UNSUPPORTED_LINE
    assert found.origin == f"{__file__}:{MM_LINE}"
    assert "fallback" in (found.hint or "")
    program = parse_program((tmp_path / "forward-0" / "program.wir").read_text())
    assert any(isinstance(line, ExternKernelLine) for line in program.lines)


def quantized(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)


@pytest.mark.skipif(BEFORE_2_13, reason="Dynamo traces no quantization before 2.13")
def test_an_emitter_that_refuses_while_it_writes_names_the_users_line() -> None:
    options = {"emitter": "cpp", "fallback_emitter": None}
    (found,) = diagnostics_of(options, quantized).diagnostics
    assert found.code is Code.UNSUPPORTED_FEATURE
    assert found.origin == f"{__file__}:{inspect.getsourcelines(quantized)[1] + 1}"


def test_a_construct_that_is_refused_names_the_users_line() -> None:
    with config.patch({"triton.debug_sync_kernel": True}):
        found = diagnostics_of({}).diagnostics[0]
    assert found.code is Code.INDUCTOR_TEXT
    assert found.origin == f"{__file__}:{MM_LINE - 1}"
    assert f"from {__file__}:{MM_LINE - 1}" in str(DiagnosticError(found))
    assert "torch.compiler.disable" in (found.hint or "")


@BOTH
@pytest.mark.parametrize(
    ("option", "code"),
    [
        ({"emitter": "pyhton"}, Code.UNKNOWN_EMITTER),
        ({"passes": ["plan"]}, Code.UNKNOWN_PASS),
        ({"dump_dir": f"{__file__}/folder"}, Code.INVALID_OPTION),
    ],
)
def test_errors_in_the_options_are_raised_with_a_fallback_too(
    option: dict[str, Any], code: Code, frontend: str
) -> None:
    for options in (option, {**option, "fallback": "inductor"}):
        options["frontend"] = frontend
        (found,) = diagnostics_of(options).diagnostics
        assert found.code is code
        assert "fallback" not in (found.hint or "")


@pytest.mark.usefixtures("failing_inductor")
def test_an_error_of_pytorchs_has_a_code() -> None:
    error = diagnostics_of({})
    (found,) = error.diagnostics
    assert found.code is Code.COMPILATION_FAILED
    assert "KeyError: 'grid_type'" in found.message
    assert found.origin == f"{__file__}:{MM_LINE - 1}"
    assert "fallback" in (found.hint or "")
    assert isinstance(error.__cause__, KeyError)


def test_an_error_of_the_lowerings_has_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "wrapperir.frontend.lowering.scope.LoopScope.call"
    monkeypatch.setattr(name, Mock(side_effect=KeyError("mm")))
    error = diagnostics_of({"frontend": "lowering"})
    (found,) = error.diagnostics
    assert found.code is Code.COMPILATION_FAILED
    assert "KeyError: 'mm'" in found.message
    assert found.origin == f"{__file__}:{MM_LINE}"
    assert "fallback" in (found.hint or "")
    assert isinstance(error.__cause__, KeyError)


class UsersError(Exception):
    """An exception of the user's."""


@pytest.mark.parametrize("fallback", [None, "inductor"])
@pytest.mark.parametrize("kind", [UsersError, KeyboardInterrupt])
def test_exceptions_of_the_users_pass_unchanged(
    kind: type[BaseException], fallback: str | None
) -> None:
    def own_pass(graph: torch.fx.Graph) -> None:
        raise raised

    raised = kind("mine")
    options: dict[str, Any] = {"fallback": fallback}
    compiled = torch.compile(head, backend="wrapperir", options=options)
    before = config.get_config_copy()
    with (
        config.patch(post_grad_custom_post_pass=own_pass),
        torch.no_grad(),
        pytest.raises(BaseException) as error,  # noqa: PT011
    ):
        compiled(*inputs())
    assert getattr(error.value, "inner_exception", error.value) is raised
    assert config.get_config_copy() == before
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs()), head(*inputs()))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "wrapperir.fallback"]


@BOTH
def test_inductor_compiles_what_is_refused(
    frontend: str, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {
        "frontend": frontend,
        "emitter": without_operators(),
        "passes": (),
        "fallback": "inductor",
    }
    compiled = torch.compile(head, backend="wrapperir", options=options)
    with (
        caplog.at_level(logging.WARNING, "wrapperir.fallback"),
        config.patch(cpu_backend="cpp"),
    ):
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(compiled(*inputs()), head(*inputs()))
        assert len(warnings_of(caplog)) == 1
        assert "WIR702" in warnings_of(caplog)[0]
        assert f"{__file__}:{MM_LINE}" in warnings_of(caplog)[0]
        caplog.clear()
        given, expected = inputs(grad=True), inputs(grad=True)
        for _ in range(2):
            torch.autograd.backward(compiled(*given).sum(), retain_graph=True)
            torch.autograd.backward(head(*expected).sum())
    assert [text.split()[3] for text in warnings_of(caplog)] == ["forward", "backward"]
    for actual, wanted in zip(given, expected, strict=True):
        torch.testing.assert_close(actual.grad, wanted.grad)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("falls_back", ["forward", "backward"])
def test_one_of_two_graphs_falls_back(
    falls_back: str,
    frontend: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    import wrapperir.backend

    stock = wrapperir.backend.compile_lowered

    def compile(lowered: Any, options: Any, role: str, show: Any) -> Any:
        if role == falls_back:
            raise Code.UNSUPPORTED_FEATURE.error("refused")
        return stock(lowered, options, role, show)

    monkeypatch.setattr(wrapperir.backend, "compile_lowered", compile)

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x @ w).sin()
        return (y[:2] @ y[2:].t()).exp() * y.sum()

    options: Any = {"fallback": "inductor", "frontend": frontend}
    compiled = torch.compile(model, backend="wrapperir", options=options, dynamic=True)
    given, expected = inputs(grad=True), inputs(grad=True)
    with (
        caplog.at_level(logging.WARNING, "wrapperir.fallback"),
        config.patch(cpu_backend="cpp"),
    ):
        actual, wanted = compiled(*given), model(*expected)
        torch.testing.assert_close(actual, wanted)
        for keeps in (True, False):
            torch.autograd.backward(actual.sum(), retain_graph=keeps)
            torch.autograd.backward(wanted.sum(), retain_graph=keeps)
    assert [text.split()[3] for text in warnings_of(caplog)] == [falls_back]
    for left, right in zip(given, expected, strict=True):
        torch.testing.assert_close(left.grad, right.grad)
