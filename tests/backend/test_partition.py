"""Models through emitters that lack something, with a fallback for that."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional

from tests.emit.partition.partial_emitter import HOSTED, HostedEmitter, PartialEmitter
from wrapperir.emit import Emitter, Support
from wrapperir.ir import LINES, KernelCallLine
from wrapperir.plugin import PluginManager
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

pytestmark = pytest.mark.usefixtures("triton_on_cpu")

ALL = PythonEmitter.support
NO_OPERATORS = evolve(ALL, operators=frozenset[str]())
SOME_OPERATORS = evolve(
    ALL,
    operators=frozenset({"aten.mm.out", "aten.addmm.out", "aten.convolution.default"}),
    languages=frozenset(),
)
NO_KERNEL_CALLS = evolve(ALL, lines=frozenset(LINES) - {KernelCallLine})
SUPPORTS = {
    "kernels": NO_OPERATORS,
    "operators": SOME_OPERATORS,
    "no_calls": NO_KERNEL_CALLS,
}


class Decoder(torch.nn.Module):
    """A layer like GPT-2's, with an embedding and causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(20, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.qkv = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 20)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        heads = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        q, k, v = heads
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        found: torch.Tensor = self.head(functional.gelu(x))
        return found


class Images(torch.nn.Module):
    """A small convolution net; batch norm keeps statistics as it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.first(x)))
        found: torch.Tensor = self.head(functional.max_pool2d(x, 2).mean((2, 3)))
        return found


def compiled(model: Any, emitter: str | Emitter, **options: object) -> Any:
    torch._dynamo.reset()
    chosen: Any = {"emitter": emitter, **options}
    return torch.compile(model, backend="wrapperir", options=chosen)


def partial(support: Support) -> PartialEmitter:
    return PartialEmitter(support=support)


def words(rows: int, length: int) -> torch.Tensor:
    return torch.randint(0, 20, (rows, length))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SUPPORTS)
def test_a_decoder_in_inference_with_lengths_in_turn(kind: str) -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    call = compiled(model, partial(SUPPORTS[kind]))
    with torch.no_grad():
        for length in (6, 9, 13):
            given = words(2, length)
            torch.testing.assert_close(call(given), model(given))


@pytest.mark.slow
@pytest.mark.parametrize("make", [Decoder, Images])
@pytest.mark.parametrize("kind", ["kernels", "operators"])
def test_training_steps(kind: str, make: type[torch.nn.Module]) -> None:
    def train(is_compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = make()
        call = compiled(model, partial(SUPPORTS[kind])) if is_compiled else model
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            given = words(2, 6) if make is Decoder else torch.randn(2, 3, 8, 8)
            call(given).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [*model.parameters(), *model.buffers()]

    for found, wanted in zip(train(True), train(False), strict=True):
        torch.testing.assert_close(found, wanted)


def test_dumped_parts_are_programs_and_the_report_says_what_fell_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Images().eval()
    with torch.no_grad(), caplog.at_level(logging.INFO, "wrapperir.partition"):
        compiled(model, partial(NO_OPERATORS), dump_dir=str(tmp_path))(
            torch.randn(2, 3, 8, 8)
        )
    (folder,) = tmp_path.glob("*/partial+python")
    parts = sorted(folder.glob("part*.wir"))
    assert len(parts) > 2
    for part in parts:
        assert verify(parse_program(part.read_text())) == ()
    report = (folder / "partition.txt").read_text()
    assert report.strip() in caplog.text
    assert "operator: the partial emitter has no support for the operator aten." in report
    assert f"{__file__}:" in report


def test_a_program_without_such_lines_is_emitted_as_without_a_fallback(
    tmp_path: Path,
) -> None:
    with torch.no_grad():
        compiled(Images().eval(), partial(ALL), dump_dir=str(tmp_path))(
            torch.randn(2, 3, 8, 8)
        )
    assert list(tmp_path.glob("*/partial/manifest.json"))


def test_without_a_fallback_it_is_refused() -> None:
    call = compiled(Decoder().eval(), partial(NO_OPERATORS), fallback_emitter=None)
    with pytest.raises(BackendCompilerFailed, match="WIR705: the partial emitter"):
        call(words(2, 6))


@pytest.mark.parametrize("frontend", ["lowering", "inductor"])
def test_a_device_without_kernels_says_so(
    frontend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not that the CPU is not supported, which nobody asked for."""
    device = frozenset({HOSTED})
    emitter = HostedEmitter(support=evolve(ALL, devices=device, hosted=device))
    x = torch.randn(8)
    call = compiled(Twice(), emitter, frontend=frontend)
    cause = "no renderer writes kernels for acme"
    message = f"the hosted emitter is given no program for acme: {cause}"
    with torch.no_grad():
        assert torch.equal(call(x), x * 2)
    assert message in caplog.text
    alone = compiled(Twice(), emitter, frontend=frontend, fallback_emitter=None)
    with pytest.raises(BackendCompilerFailed, match=f"WIR704: {message}"):
        alone(x)


def test_a_frontend_for_the_cpu_only_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PluginManager, "kernel_device", lambda *_: HOSTED)
    device = frozenset({HOSTED})
    emitter = HostedEmitter(support=evolve(ALL, devices=device, hosted=device))
    call = compiled(Twice(), emitter, frontend="inductor", fallback_emitter=None)
    with pytest.raises(
        BackendCompilerFailed, match="the frontend 'inductor' makes programs of the CPU"
    ):
        call(torch.randn(8))


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_two_emitters_by_name() -> None:
    model, given = Decoder().eval(), words(2, 6)
    with torch.no_grad():
        found = compiled(model, "fx+python")(given)
        torch.testing.assert_close(found, model(given))
    with pytest.raises(BackendCompilerFailed, match="WIR700"):
        compiled(model, "fx+nothing")(given)
