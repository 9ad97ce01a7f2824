"""Methods of TorchBind objects are operators of a program."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing._internal import torchbind_impls

from tests.frontend_inductor.captured import capture_one, lines_of
from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.inductor import object_methods
from wrapperir.ir import ExternKernelLine
from wrapperir_cpp.emitter import CppEmitter

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorchbind_test.so"
X = torch.arange(6.0).reshape(2, 3)
implementations: Any = torchbind_impls

pytestmark = [
    pytest.mark.skipif(
        not LIBRARY.exists(), reason="this PyTorch has no TorchBind classes for tests"
    ),
    pytest.mark.usefixtures("triton_on_cpu"),
]


@pytest.fixture(scope="module", autouse=True)
def classes() -> Any:
    """Load PyTorch's classes for tests, and their fakes."""
    ops: Any = torch.ops
    ops.load_library(str(LIBRARY))
    implementations.register_fake_operators()
    implementations.register_fake_classes()
    return torch.classes._TorchScriptTesting


def queue() -> Any:
    made: Any = torch.classes._TorchScriptTesting
    return made._TensorQueue(torch.full((0,), -1.0))


def foo() -> Any:
    made: Any = torch.classes._TorchScriptTesting
    return made._Foo(10, 20)


class Holder(torch.nn.Module):
    """A module with an object."""

    def __init__(self) -> None:
        super().__init__()
        self.held = foo()

    def forward(self, x: torch.Tensor) -> Any:
        return self.held.add_tensor(x) * 2


def kept(objects: Any, x: torch.Tensor) -> torch.Tensor:
    """Have an object keep tensors whose memory the program would use again."""
    y = x * 2
    objects.push(y)
    z = (y + 1).cumsum(0)
    w = (z * 3).sin()
    objects.push(w[:, ::2])
    return w.cumsum(0).cos().cumsum(1) + 1


def popped(objects: Any, x: torch.Tensor) -> Any:
    objects.push(x)
    objects.push(x + 1)
    return objects.pop() * objects.pop() + objects.size()


def contents(objects: Any) -> list[torch.Tensor]:
    return [objects.pop() for _ in range(objects.size())]


@pytest.mark.parametrize("emitter", ["python", "fx"])
@pytest.mark.parametrize("function", [kept, popped])
def test_objects_have_what_eager_gives_them(
    function: Callable[..., Any], emitter: str
) -> None:
    torch._dynamo.reset()
    options: dict[str, Any] = {"emitter": emitter}
    compiled: Any = torch.compile(
        function, backend="wrapperir", options=options, fullgraph=True
    )
    for _ in range(2):
        given, expected = queue(), queue()
        torch.testing.assert_close(compiled(given, X), function(expected, X))
        torch.testing.assert_close(contents(given), contents(expected))


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_objects_of_modules(emitter: str) -> None:
    torch._dynamo.reset()
    module = Holder()
    options: dict[str, Any] = {"emitter": emitter}
    compiled: Any = torch.compile(module, backend="wrapperir", options=options)
    assert torch.equal(compiled(X), module(X))


def test_what_an_object_has_is_not_overwritten() -> None:
    torch._dynamo.reset()
    holder: Any = torch.classes._TorchScriptTesting
    given = holder._ContainsTensor(X.clone())

    def function(objects: Any) -> Any:
        return objects.get() + 1

    compiled: Any = torch.compile(function, backend="wrapperir")
    assert torch.equal(compiled(given), X + 1)
    assert torch.equal(given.get(), X)


def test_calls_are_operators() -> None:
    def function(objects: Any, x: torch.Tensor) -> Any:
        return objects.add_tensor(x + 1) * 2

    program = capture_one(function, foo(), X)
    copy, call = lines_of(program, ExternKernelLine)
    assert copy.operator == "aten.clone.default"
    assert call.operator.startswith("wrapperir_methods.of___TorchScriptTesting___Foo__add")
    with pytest.raises(DiagnosticError, match="is an object of PyTorch's"):
        CppEmitter().emit(program)


def test_two_methods_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = object_methods.method_operator(foo(), "add_tensor").split(".")[1]
    monkeypatch.setitem(object_methods._METHODS, name, ("another.Class", "add_tensor"))
    with pytest.raises(DiagnosticError, match=re.escape("another.Class.add_tensor")):
        object_methods.method_operator(foo(), "add_tensor")
