"""The option ``frontend`` of the backend, and of ``wrapperir compile``."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._higher_order_ops.out_dtype import out_dtype
from torch._library.effects import EffectType

import wrapperir
from tests.backend.program_calls import Calls
from tests.backend.test_constructs import map_rows, scan
from tests.cli.files import invoke
from tests.torch_release import BEFORE_2_13
from wrapperir import backend
from wrapperir.frontend import Lowered
from wrapperir.ir import KernelDefinitionLine, Program
from wrapperir.lowering.triton import TritonRenderer
from wrapperir.plugin import PluginManager
from wrapperir.text import parse_program

_out_dtype: Any = out_dtype


class Block(torch.nn.Module):
    """Linear layers, a norm and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(24)
        self.first = torch.nn.Linear(24, 40)
        self.second = torch.nn.Linear(40, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.first(self.norm(x)))
        return x + torch.softmax(self.second(hidden), -1)


def compiled(model: Any, **options: object) -> Any:
    torch._dynamo.reset()
    chosen: Any = {"frontend": "lowering", **options}
    return torch.compile(model, backend="wrapperir", options=chosen)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_inference(emitter: str) -> None:
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(6, 24)
    with torch.no_grad():
        found = compiled(model, emitter=emitter)(x)
        torch.testing.assert_close(found, model(x))


def test_training() -> None:
    torch.manual_seed(0)
    model, x = Block(), torch.randn(6, 24)
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    found = torch.autograd.grad(compiled(model)(x).square().sum(), list(model.parameters()))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("mode", "settings", "is_timed"),
    [
        ("default", {}, False),
        ("max-autotune-no-cudagraphs", {}, True),
        (None, {"max_autotune": True}, True),
    ],
)
def test_configs_of_kernels_are_timed_on_request(
    mode: str | None,
    settings: dict[str, object],
    is_timed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Program] = []

    def keep(lowered: Lowered, *rest: object) -> Any:
        found.append(lowered.program)
        return lambda arguments: arguments

    monkeypatch.setattr(backend, "compile_lowered", keep)
    monkeypatch.setattr(PluginManager, "renderer", lambda *_: TritonRenderer())
    torch._dynamo.reset()
    options = {"frontend": "lowering", **settings}
    graph = torch.fx.symbolic_trace(lambda x: (x + 1,))
    with torch.no_grad():
        backend.wrapperir_backend(graph, [torch.randn(9000)], mode=mode, options=options)
    ((definition,),) = (program.definitions for program in found)
    assert isinstance(definition, KernelDefinitionLine)
    assert (len(definition.configs) > 1) == is_timed


def test_saved_tensors_are_donated(tmp_path: Path) -> None:
    model, x = Block(), torch.randn(6, 24)
    compiled(model, dump_dir=tmp_path)(x).sum().backward()
    program = parse_program((tmp_path / "backward-1" / "program.wir").read_text())
    donated = [given.name for given in program.inputs if given.donated]
    assert {"addmm", "addmm_1"} & set(donated)
    assert not [name for name in donated if name.startswith(("primals", "tangents"))]


def test_sums_of_products_are_rounded_twice_if_rounding_is_eager() -> None:
    torch.manual_seed(0)
    x, y, z = (torch.randn(64, 64).bfloat16() for _ in range(3))

    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, y) + z

    with torch.no_grad():
        expected = function(x, y, z)
        assert torch.equal(compiled(function, rounding="eager")(x, y, z), expected)
        assert not torch.equal(compiled(function)(x, y, z), expected)


def test_what_was_flipped_outlives_a_write() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        flipped = x.flip(0)
        x.mul_(2)
        return flipped

    x, y = torch.arange(6.0), torch.arange(6.0)
    with torch.no_grad():
        assert torch.equal(compiled(function)(x), function(y))
    assert torch.equal(x, y)


@pytest.mark.skipif(BEFORE_2_13, reason="AOTAutograd of 2.11 drops the check of a result")
def test_failures_of_linear_algebra() -> None:
    x = torch.randn(3, 3, dtype=torch.float64)
    with torch.no_grad():
        found = compiled(torch.linalg.inv)
        torch.testing.assert_close(found(x), torch.linalg.inv(x))
        with pytest.raises(RuntimeError, match="singular"):
            found(torch.zeros(3, 3, dtype=torch.float64))


def test_operators_with_effects_keep_their_order() -> None:
    seen: list[float] = []

    @torch.library.custom_op("wrapperir_tests::noted", mutates_args=())
    def noted(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(float(x.sum()))
        return x + 1, x + 2

    noted.register_fake(lambda x: (x + 1, x + 2))
    noted.register_effect(EffectType.ORDERED)
    x = torch.zeros(1)
    with torch.no_grad():
        found = compiled(lambda x: (noted(x + 1)[1], noted(x)[0], noted(x + 2)))(x)
    assert [float(value) for value in (*found[:2], *found[2])] == [3, 1, 3, 4]
    assert seen == [1, 0, 2]


@torch.library.custom_op("wrapperir_lowering::halve_", mutates_args=("x",))
def halve(x: torch.Tensor) -> None:
    x.mul_(0.5)


def running_sums(x: torch.Tensor) -> Any:
    return scan(lambda c, row: (c + row, c * row), x[0], x, dim=0)


def sines_of_rows(x: torch.Tensor) -> Any:
    return map_rows(lambda row, y: row.sin() + y, x, x[1] * 2)


def halved(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch.ops.wrapperir_lowering.halve_(y[1:])
    return y + 1


def product_of_bytes(x: torch.Tensor) -> Any:
    given = (x * 100).to(torch.int8)
    return _out_dtype(torch.ops.aten.mm.default, torch.int32, given, given.t())


@pytest.mark.parametrize(
    "function", [running_sums, sines_of_rows, halved, product_of_bytes]
)
def test_operators_that_stand_for_graphs(function: Any) -> None:
    x = torch.randn(5, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(x), function(x))


def test_hooks_with_compiled_autograd() -> None:
    layer = torch.nn.Linear(3, 4)

    def gradient(step: Any) -> Any:
        x = torch.ones(2, 3, requires_grad=True)
        step(x)
        return x.grad

    def step(x: torch.Tensor) -> None:
        y: Any = layer(x)
        y.register_hook(lambda gradient: gradient * 2)
        y.sum().backward()

    expected = gradient(step)
    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.testing.assert_close(gradient(compiled(step)), expected)


def jagged(**settings: bool) -> torch.Tensor:
    rows = [torch.randn(2, 4), torch.randn(5, 4)]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, **settings)


def rows_and_size(x: torch.Tensor) -> Any:
    return x.sin(), x.size(1)


@pytest.mark.parametrize(
    "function",
    [
        rows_and_size,
        lambda x: x.softmax(-1).sum(1),
        lambda x: torch.nested.to_padded_tensor(x, 0.0) + 1,
        lambda x: x.unflatten(-1, (2, 2)).transpose(1, 2) * 2,
    ],
)
def test_jagged_tensors(function: Any, calls: Calls) -> None:
    x = jagged()
    for _ in range(2):  # a second process would compile it too
        torch._dynamo.reset()
        results, expected = compiled(function)(x), function(x)
        if function is rows_and_size:
            (results, size), (expected, wanted) = results, expected
            assert size == wanted
        assert results.size() == expected.size()  # of the same rows
        assert results.stride() == expected.stride()
        if results.is_nested:
            results, expected = results.values(), expected.values()
        torch.testing.assert_close(results, expected)
    assert calls.loads == 0


def test_a_jagged_tensor_in_training() -> None:
    layer = torch.nn.Linear(4, 6)
    x = jagged(requires_grad=True)

    def gradients(function: Any) -> Any:
        loss = function(x).values().square().sum()
        rows, weights = torch.autograd.grad(loss, (x, layer.weight))
        return rows.values(), weights

    def function(x: torch.Tensor) -> Any:
        return layer(x).relu()

    torch.testing.assert_close(gradients(compiled(function)), gradients(function))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_multiples_of_the_size_of_a_jagged_tensor(emitter: str) -> None:
    def function(x: torch.Tensor) -> Any:
        return x.sin(), x.size(1) * 2 * x.values().size(0), x.stride()

    x = jagged()
    called = compiled(function, emitter=emitter)
    assert called(x)[1:] == function(x)[1:]


def test_a_size_of_a_jagged_tensor_that_is_no_number_is_refused() -> None:
    def function(x: torch.Tensor) -> Any:
        return x.values() * x.size(1)

    message = rf"WIR604: .*the size of a jagged tensor, which mul uses,.*{__file__}:\d+"
    with pytest.raises(Exception, match=message):
        compiled(function)(jagged())


class Named(torch.Tensor):
    """A subclass that passes all functions on."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        parent: Any = super()
        return parent.__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_a_subclass_of_tensors(emitter: str) -> None:
    def function(x: torch.Tensor) -> Any:
        return x.sin() * 2, x.t(), x.mul_(3)

    x: Any = torch.randn(3, 3).as_subclass(Named)
    y = x.clone()
    called = compiled(function, emitter=emitter)
    for _ in range(2):  # PyTorch checks aliases in the first call
        found, wanted = called(x), function(y)
        assert [type(value) for value in found] == [Named] * 3
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("frontend", "other", "'inductor' or 'lowering'"),
        ("rounding", 3, "'fused' or 'eager'"),
        ("epilogue_fusion", True, "is for the frontend 'inductor'"),
    ],
)
def test_wrong_options(option: str, value: object, message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(lambda x: x + 1, **{option: value})(torch.ones(3))


MODEL = """\
import torch

def step(x, y):
    return (x + y).relu() @ y.t()

EXAMPLE_INPUTS = (torch.ones(4, 5), torch.ones(4, 5))
"""


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    target, output = f"{tmp_path / 'model.py'}:step", str(tmp_path / "out")
    done = invoke("compile", target, "--frontend", "lowering", "-o", output)
    assert done.exit_code == 0, done.output
    x = torch.randn(4, 5)
    (found,) = wrapperir.load(output)(x, x)
    torch.testing.assert_close(found, (x + x).relu() @ x.t())
