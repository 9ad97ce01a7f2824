"""Multi-kernels of Inductor's: a call of several equivalent kernels."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._inductor import config

from tests.frontend_inductor.captured import capture_all, capture_one, lines_of
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import compile_program
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor.multi_kernels import MultiKernels
from wrapperir.interp import interpret
from wrapperir.ir import (
    AllocateLine,
    BenchmarkChoice,
    ForcedChoice,
    KernelCallLine,
    KernelChoice,
    KernelDefinitionLine,
    MultiKernelLine,
    Program,
    Selection,
    WorkspaceNeed,
    ZeroMode,
)
from wrapperir.tuning.choice_cache import fresh_choice_cache

Function = Callable[..., Any]

REDUCTIONS: dict[str, Function] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (16,)),
    "row sum": lambda x: x.sum(1),
}


def multi_kernels(program: Program) -> list[MultiKernelLine]:
    return [line for line in program.definitions if isinstance(line, MultiKernelLine)]


def heuristics(program: Program, line: MultiKernelLine) -> list[object]:
    """Return what kind of kernel each choice is."""
    known = {d.name: d for d in program.definitions if isinstance(d, KernelDefinitionLine)}
    return [
        dict(known[choice.kernel].metadata)["inductor.heuristic"] for choice in line.choices
    ]


def selecting(program: Program, selection: Selection) -> Program:
    """Return the program with the selection of each multi-kernel replaced."""
    return evolve(
        program,
        definitions=tuple(
            evolve(line, selection=selection) if isinstance(line, MultiKernelLine) else line
            for line in program.definitions
        ),
    )


def captured(
    function: Function, *inputs: torch.Tensor, setting: int = 1, **others: Any
) -> Lowered:
    with config.patch({"triton.multi_kernel": setting, **others}):
        (lowered,) = capture_all(function, inputs, cpu_backend="triton")
    return lowered


@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_choice_computes_what_eager_does(name: str) -> None:
    function, x = REDUCTIONS[name], torch.randn(3, 16)
    lowered = captured(function, x)
    (line,) = multi_kernels(lowered.program)
    assert line.selection == BenchmarkChoice()
    assert heuristics(lowered.program, line) == ["reduction", "persistent_reduction"]
    (call,) = lines_of(lowered.program, KernelCallLine)
    assert call.kernel == line.name
    for index in range(len(line.choices)):
        program = selecting(lowered.program, ForcedChoice(index))
        emitted = compile_program(program, constants=lowered.constants)
        for (actual,) in (
            interpret(program, [x], lowered.constants),
            emitted([x]),
        ):
            torch.testing.assert_close(actual, function(x), rtol=1e-4, atol=1e-4)


@settings(max_examples=5)
@given(
    shape=st.tuples(st.integers(1, 20), st.integers(2, 40)),
    name=st.sampled_from(["amax", "mean", "sum", "var"]),
    dim=st.sampled_from([0, 1]),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    choice=st.integers(0, 1),
)
def test_any_reduction_computes_what_eager_does(
    shape: tuple[int, int], name: str, dim: int, dtype: torch.dtype, choice: int
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        reduced: torch.Tensor = getattr(torch, name)(x.float().sin(), dim)
        return reduced

    x = torch.randn(shape).to(dtype)
    lowered = captured(function, x)
    program = selecting(lowered.program, ForcedChoice(choice))
    (actual,) = interpret(program, [x], lowered.constants)
    expected = function(x)
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("setting", [2, 3])
def test_the_configuration_forces_a_choice(setting: int) -> None:
    x = torch.randn(3, 16)
    lowered = captured(REDUCTIONS["row sum"], x, setting=setting)
    (line,) = multi_kernels(lowered.program)
    assert line.selection == ForcedChoice(setting - 2)
    (actual,) = interpret(lowered.program, [x], lowered.constants)
    torch.testing.assert_close(actual, x.sum(1), rtol=1e-4, atol=1e-4)


def test_a_choice_that_is_not_there_is_refused() -> None:
    with pytest.raises(DiagnosticError, match=r"WIR654.*picks kernel 5 of multi_kernel_0"):
        captured(REDUCTIONS["row sum"], torch.randn(3, 16), setting=7)


@pytest.mark.parametrize("setting", [1, 3])
@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_torch_compile_runs_one_of_them(emitter: str, setting: int) -> None:
    torch._dynamo.reset()
    x = torch.randn(3, 16)
    function = REDUCTIONS["row sum"]
    patched = {"triton.multi_kernel": setting, "cpu_backend": "triton"}
    with torch.no_grad(), config.patch(patched), fresh_choice_cache():
        options: dict[str, Any] = {"emitter": emitter}
        compiled = torch.compile(function, backend="wrapperir", options=options)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), function(x))


def test_the_same_kernels_are_one_multi_kernel() -> None:
    def twice(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(1), y.sum(1)

    program = captured(
        twice,
        torch.randn(3, 16),
        torch.randn(3, 16),
        max_fusion_size=1,
    ).program
    (line,) = multi_kernels(program)
    calls = lines_of(program, KernelCallLine)
    assert [call.kernel for call in calls] == [line.name, line.name]


def test_a_nested_block_shares_the_multi_kernels_of_the_program() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(
            x.sum() > 0, lambda x: x.sum(1), lambda x: x.sum(0), (x,)
        )
        return chosen

    x = torch.ones(16, 16)
    lowered = captured(function, x)
    assert len(multi_kernels(lowered.program)) == 3
    (actual,) = interpret(
        selecting(lowered.program, ForcedChoice(1)), [x], lowered.constants
    )
    torch.testing.assert_close(actual, x.sum(1))


def test_an_argument_passed_twice_stays_two() -> None:
    def running(x: torch.Tensor, y: torch.Tensor) -> None:
        total = x.sum(1)
        y.copy_(y * 0.9 + total * 0.1)

    x, y = torch.randn(8, 16), torch.randn(8)
    lowered = captured(running, x, y.clone())
    (line,) = multi_kernels(lowered.program)
    (call,) = lines_of(lowered.program, KernelCallLine)
    assert len(call.arguments) == len(line.parameters) == 5
    assert call.arguments[1] == call.arguments[2]
    for index in range(2):
        given = y.clone()
        program = selecting(lowered.program, ForcedChoice(index))
        interpret(program, [x, given], lowered.constants)
        torch.testing.assert_close(given, y * 0.9 + x.sum(1) * 0.1, rtol=1e-4, atol=1e-4)


def test_a_split_scan_has_no_persistent_twin() -> None:
    program = captured(lambda x: x.cumsum(0), torch.randn(100_000)).program
    assert multi_kernels(program) == []
    (kernel,) = program.definitions
    assert isinstance(kernel, KernelDefinitionLine)
    assert dict(kernel.metadata)["inductor.heuristic"] == "split_scan"
    assert [a.workspace for a in lines_of(program, AllocateLine) if a.workspace] == [
        ZeroMode.ZERO_ON_CALL
    ]


def test_merged_workspaces_are_what_every_choice_needs() -> None:
    program = captured(
        lambda x: x.sum(1),
        torch.randn(4, 1000),
        **{"triton.force_cooperative_reductions": True},
    ).program
    (line,) = multi_kernels(program)
    assert len(line.choices) == 4
    semaphores, partial = (
        allocation for allocation in lines_of(program, AllocateLine) if allocation.workspace
    )
    (call,) = lines_of(program, KernelCallLine)
    names = [getattr(argument, "name", None) for argument in call.arguments]
    needs = tuple(
        WorkspaceNeed(names.index(line.result), line.type.size[0], line.workspace)
        for line in (semaphores, partial)
        if line.workspace is not None
    )
    assert [need.mode for need in needs] == [
        ZeroMode.ZERO_PER_PROGRAM,
        ZeroMode.UNINITIALIZED,
    ]
    assert {choice.workspaces for choice in line.choices} == {needs}


def test_rows_may_be_dynamic() -> None:
    x = torch.randn(5, 16)
    torch._dynamo.mark_dynamic(x, 0)
    lowered = captured(REDUCTIONS["row sum"], x)
    (line,) = multi_kernels(lowered.program)
    assert [choice.arguments for choice in line.choices] == [(0, 1, 2, 3)] * 2
    for index, rows in [(0, 3), (1, 7)]:
        x = torch.randn(rows, 16)
        program = selecting(lowered.program, ForcedChoice(index))
        (actual,) = interpret(program, [rows, x], lowered.constants)
        torch.testing.assert_close(actual, x.sum(1), rtol=1e-4, atol=1e-4)


def test_a_dynamic_reduction_has_no_persistent_twin() -> None:
    x = torch.randn(5, 16)
    torch._dynamo.mark_dynamic(x, 1)
    assert multi_kernels(captured(REDUCTIONS["row sum"], x).program) == []


def test_without_the_setting_there_are_none() -> None:
    program = capture_one(REDUCTIONS["softmax"], torch.randn(3, 16), cpu_backend="triton")
    assert multi_kernels(program) == []


def _kernels(*names: str) -> Sequence[Any]:
    """Return what stands for kernels that Inductor has made."""
    return [
        SimpleNamespace(
            kernel_name=name,
            triton_meta={},
            inductor_meta={},
            args=SimpleNamespace(workspace_args=[]),
        )
        for name in names
    ]


def test_flavours_that_share_the_first_kernel_stay_apart() -> None:
    """Two looped reductions may differ in how they evict what they have read."""
    state = MultiKernels()
    first = state.define_kernel(_kernels("persistent", "looped"))
    second = state.define_kernel(_kernels("persistent", "looped_evict_first"))
    again = state.define_kernel(_kernels("persistent", "looped"))
    assert (first, second, again) == ("multi_kernel_0", "multi_kernel_1", "multi_kernel_0")
    assert [kernel.name for kernel in state.defined[second].kernels] == [
        "persistent",
        "looped_evict_first",
    ]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a GPU")
@pytest.mark.parametrize("setting", [1, 2, 3])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_multi_kernels_on_a_gpu(name: str, setting: int) -> None:
    torch._dynamo.reset()
    function, x = REDUCTIONS[name], torch.randn(200, 16, device="cuda")
    setup = config.patch({"triton.multi_kernel": setting})
    with torch.no_grad(), setup, fresh_choice_cache():
        (lowered,) = capture_all(function, (x,))
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="wrapperir")
        for _ in range(3):
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
    (line,) = multi_kernels(lowered.program)
    expected = BenchmarkChoice() if setting == 1 else ForcedChoice(setting - 2)
    assert line.selection == expected
    assert all(isinstance(choice, KernelChoice) for choice in line.choices)
