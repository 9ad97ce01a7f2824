"""GPT-2's attention over lengths that change, captured as if there were a GPU."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
import torch
from attrs import evolve

from tests.frontend_inductor.captured import Capture
from tests.frontend_inductor.gpu_cases import dense_attention
from tests.passes.attention_on_cpu import attention_operators
from tests.passes.replaced_calls import on_cpu
from wrapperir import ir as wir
from wrapperir import kernels
from wrapperir.emit import compile_program
from wrapperir.emit.default_passes import passes_to_run
from wrapperir.interp import interpret
from wrapperir.ir.blocks import walk_lines
from wrapperir.kernels import Target, compile_triton
from wrapperir.passes import CaptureReport
from wrapperir.passes.attention_calls import MOST_POSITIONS
from wrapperir.passes.replay_cost import count_calls
from wrapperir.pipelines import run_passes
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

OWN = {"branch_attention", "tile_attention"}


@pytest.fixture(params=["", "lowering: "], ids=["inductor", "lowering"])
def before(request: pytest.FixtureRequest, captured: Capture) -> wir.Program:
    """Return the program of each frontend."""
    (program,) = captured(f"{request.param}attention, lengths")
    assert verify(program) == ()
    return program


@pytest.fixture(autouse=True)
def h100(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "present_targets", lambda: (Target("sm_90"),))


def changed(
    before: wir.Program, *, graphs: bool, without: Collection[str] = ()
) -> tuple[wir.Program, list[CaptureReport]]:
    """Run the default passes, without some, for an H100."""
    names = passes_to_run(None, PythonEmitter(), graphs=graphs)
    assert set(names) > OWN
    reports: list[CaptureReport] = []
    kept = [name for name in names if name not in without]
    after = run_passes(before, kept, reports.append)
    assert verify(after) == ()
    return after, reports


def calls_of_attention(program: wir.Program) -> int:
    return sum(
        isinstance(line, wir.ExternKernelLine) and "attention" in line.operator
        for line in walk_lines(program.lines)
    )


@pytest.mark.slow
def test_a_region_stays_whole(before: wir.Program) -> None:
    plain, (without,) = changed(before, graphs=True, without=OWN)
    after, (report,) = changed(before, graphs=True)
    assert calls_of_attention(plain) == calls_of_attention(after) == 1
    assert not any(
        isinstance(line, wir.ConditionalLine) for line in walk_lines(plain.lines)
    )
    (region,) = [line for line in after.lines if isinstance(line, wir.GraphRegionLine)]
    assert any(isinstance(line, wir.ConditionalLine) for line in region.body.lines)
    assert [count_calls(each.line) for each in report.regions] == [
        count_calls(each.line) for each in without.regions
    ]
    assert len(report.outside) == len(without.outside)


@pytest.fixture(scope="module")
def ran() -> Iterator[list[str]]:
    with attention_operators() as names:
        yield names


LENGTHS = 3, 40, 70, MOST_POSITIONS + 1


@pytest.mark.slow
@pytest.mark.parametrize("graphs", [False, True])
def test_one_program_computes_what_eager_does(
    before: wir.Program, graphs: bool, ran: list[str]
) -> None:
    after = on_cpu(changed(before, graphs=graphs)[0])
    loaded = compile_program(after, emitter="python")
    for length in LENGTHS:
        torch.manual_seed(length)
        inputs = torch.randn(length, 64).half(), torch.randn(64, 192).half() / 8
        wanted = dense_attention(*inputs)
        ran.clear()
        (found,) = interpret(after, [length, *inputs], {})
        assert bool(ran) == (length > MOST_POSITIONS)
        torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-2)
        (emitted,) = loaded([length, *inputs])
        torch.testing.assert_close(emitted, found, rtol=0, atol=0)


def test_its_kernels_compile_for_a_gpu(before: wir.Program) -> None:
    after, _ = changed(before, graphs=True)
    files = CppEmitter().emit(after).files
    facts = {
        Path(path).name.split(".")[0]: json.loads(text)
        for path, text in files.items()
        if path.endswith(".triton.json")
    }
    chosen = {name: fact for name, fact in facts.items() if fact["entry"] == "attention"}
    assert len(chosen) == 2  # for at most 64 keys, and for more
    for fact in chosen.values():
        assert not [name for name, kind in fact["signature"] if kind == "i64"]
    sources = {fact["source"]: str(files[fact["source"]]) for fact in chosen.values()}
    _, built = compile_triton(chosen, sources, [Target("sm_90")], "kernels/")
    assert len(built) >= 2
    assert all(binary[:4] == b"\x7fELF" for binary in built.values())


def test_emitted_cpp_multiplies_what_either_branch_returns(before: wir.Program) -> None:
    """Products are not called through PyTorch, as both branches know the layout."""
    after, _ = changed(before, graphs=False)
    source = CppEmitter().emit(after).files["program.cpp"]
    assert isinstance(source, str)
    assert source.count(" multiply(") == 2
    assert "mm_out(" not in source


def test_emitters_without_branches_keep_the_call(before: wir.Program) -> None:
    assert OWN - {*passes_to_run(None, FxEmitter(), graphs=False)} == {"branch_attention"}
    emitter = PythonEmitter()
    emitter.support = evolve(emitter.support, branching=False)
    after = run_passes(before, passes_to_run(None, emitter, graphs=False))
    assert calls_of_attention(after) == 1
    assert not any(isinstance(line, wir.ConditionalLine) for line in after.lines)
