"""Emitted C++ on a GPU: against the Python emitter, and under ``torch.compile``."""

import gc
import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings

from tests.cpp_emitter.moved import GPU, on_gpu
from tests.cpp_emitter.running import assert_same
from tests.python_emitter.test_cuda import SIZE, mlp, on_streams
from wrapperir.emit import Loaded, Value
from wrapperir.ir import KernelDefinitionLine, Language, Program, ZeroMode, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import present_targets
from wrapperir.testing import CASES, Case, example_constants, example_inputs, programs
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir.tuning.record import parse_record
from wrapperir.verify import verify
from wrapperir_cpp.build import build_artifact, load_library
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import PythonEmitter

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
pytestmark = [pytest.mark.gpu, on_a_gpu]

CPP: dict[str, Any] = {"emitter": "cpp"}


@pytest.fixture(autouse=True)
def _forget() -> None:
    torch._dynamo.reset()


def is_of_c_plus_plus(case: Case) -> bool:
    return any(
        isinstance(line, KernelDefinitionLine) and line.language is Language.CPP
        for line in case.program.definitions
    )


def loaded(program: Program, constants: dict[str, torch.Tensor] | None = None) -> Loaded:
    emitter = CppEmitter()
    return emitter.load(emitter.emit(program), constants or {})


def copied(values: Sequence[Value]) -> list[Value]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def new_stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def agree(program: Program, seed: int) -> None:
    """Run a program twice with either emitter, on equal inputs; all must be equal."""
    inputs = example_inputs(program, seed)
    constants = [example_constants(program, seed) for _ in range(2)]
    python = PythonEmitter()
    calls = (
        loaded(program, constants[0]),
        python.load(python.emit(program), constants[1]),
    )
    for _ in range(2):
        given = [copied(inputs) for _ in calls]
        outputs: list[tuple[Value, ...]] = []
        for call, mine in zip(calls, given, strict=True):
            torch.manual_seed(0)
            outputs.append(call(list(mine)))
        torch.cuda.synchronize()
        assert_same(*outputs)
        assert_same(*given)
        assert_same(*[list(kept.values()) for kept in constants])


def test_what_is_here() -> None:
    """Show the machine: it is the first thing to know of a failure."""
    import triton

    facts = {
        "device": torch.cuda.get_device_name(),
        "capability": torch.cuda.get_device_capability(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "compiler": subprocess.run(
            ["c++", "--version"], capture_output=True, text=True, check=False
        ).stdout.partition("\n")[0],
    }
    print(json.dumps(facts))
    assert present_targets()


@pytest.mark.parametrize(
    "case",
    # Process groups of the kit are for the CPU; tests.emit has those of GPUs.
    [case for case in CASES if not (is_of_c_plus_plus(case) or case.program.groups)],
    ids=lambda case: case.name,
)
def test_conformance(case: Case) -> None:
    program = on_gpu(case.program, is_there=True)
    assert verify(program) == ()
    if case.faults:
        with pytest.raises(RuntimeError) as caught:
            loaded(program)(example_inputs(program, case.seeds[0]))
        print(case.name, caught.value)
        return
    for seed in case.seeds[:1]:
        agree(program, seed)


@settings(
    max_examples=6,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(programs(languages=(Language.TRITON,)))
def test_generated_programs(program: Program) -> None:
    moved = on_gpu(program, is_there=True)
    assume(verify(moved) == ())
    agree(moved, 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_streams_wait_for_events(seed: int) -> None:
    program, operands = on_streams(seed)
    call = loaded(program)
    orthogonal = [torch.linalg.qr(torch.randn(SIZE, SIZE, device="cuda"))[0] for _ in "xy"]
    inputs = [matrix.contiguous() for matrix in orthogonal]
    values = list(inputs)
    for x, y in operands:
        values.append(values[x] @ values[y])
    used = {value for pair in operands for value in pair}
    wanted = tuple(v for n, v in enumerate(values) if n > 1 and n not in used)
    for number in range(20):
        side = new_stream() if number % 2 else torch.cuda.current_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            outputs = call(list(inputs))
            torch.full((4 * SIZE, SIZE), torch.nan, device="cuda")  # takes what was freed
        torch.cuda.current_stream().wait_stream(side)
        torch.testing.assert_close(outputs, wanted, rtol=1e-4, atol=1e-4)
        torch.cuda.synchronize()


def chain(length: int, mode: ZeroMode | None) -> Program:
    """Add a vector to itself again and again, each time with a workspace."""
    size = 1 << 16
    type = tensor("f32", (size,), device=GPU)
    kind = KernelKind.ADD if mode is None else KernelKind.SCRATCH_ADD
    kernel = library_kernel(kind, Language.TRITON)
    b = ProgramBuilder()
    x = b.input(type)
    b.kernel(kernel)
    value = x
    for _ in range(length):
        out = b.allocate(type)
        if mode is None:
            b.call(kernel, value, x, out, size, device=GPU)
        else:
            workspace = b.allocate(type, workspace=mode)
            b.call(kernel, value, workspace, out, size, device=GPU)
            if mode is not ZeroMode.ZERO_PER_PROGRAM:
                b.free(workspace)
        if value is not x:
            b.free(value)
        value = out
    return b.build(value)


@pytest.mark.parametrize("mode", [ZeroMode.ZERO_ON_CALL, ZeroMode.ZERO_PER_PROGRAM])
def test_workspaces_are_zero_on_any_stream(mode: ZeroMode) -> None:
    call = loaded(chain(6, mode))
    x = torch.rand(1 << 16, device="cuda")
    torch.cuda.synchronize()
    for _ in range(20):
        with torch.cuda.stream(new_stream()):
            (out,) = call([x])
            assert isinstance(out, torch.Tensor)
            assert torch.equal(out, x)


def test_threads_run_at_once() -> None:
    call = loaded(chain(20, ZeroMode.ZERO_PER_PROGRAM))
    failures: list[str] = []

    def run(number: int) -> None:
        try:
            with torch.cuda.stream(new_stream()):
                x = torch.full((1 << 16,), float(number), device="cuda")
                for _ in range(50):
                    (out,) = call([x])
                    assert isinstance(out, torch.Tensor)
                    assert torch.equal(out, x)
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_memory_stays_the_same() -> None:
    call = loaded(chain(20, ZeroMode.ZERO_ON_CALL))
    x = torch.rand(1 << 16, device="cuda")
    call([x])
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    for _ in range(1000):
        call([x])
    torch.cuda.synchronize()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


def test_a_wrong_device_is_refused() -> None:
    call = loaded(chain(2, None))
    with pytest.raises(RuntimeError, match="needs to be on cuda:0, not on cpu"):
        call([torch.rand(1 << 16)])


def test_host_time_of_launches() -> None:
    """Show what a launch costs the host; nothing is asserted of it."""
    length = 200
    program = chain(length, None)
    python = PythonEmitter()
    x = torch.rand(1 << 16, device="cuda")
    for name, call in (
        ("cpp", loaded(program)),
        ("python", python.load(python.emit(program), {})),
    ):
        for _ in range(3):
            call([x])
        torch.cuda.synchronize()
        best = min(timed(call, x) for _ in range(20))
        print(f"{name}: {best / length:.2f} us a launch")
    assert torch.equal(
        *(
            out[0]
            for out in (loaded(program)([x]), python.load(python.emit(program), {})([x]))
        )  # type: ignore[arg-type]
    )


def timed(call: Loaded, x: torch.Tensor) -> float:
    begin = time.perf_counter()
    call([x])
    taken = time.perf_counter() - begin
    torch.cuda.synchronize()
    return taken * 1e6


def test_configs_are_timed_and_the_record_stays() -> None:
    emitter = CppEmitter()
    with fresh_choice_cache():
        built = build_artifact(
            emitter.emit(chain(2, None)), present_targets(), emitter.emit
        )
    record = parse_record(built.files["tuning.json"])
    print(built.files["tuning.json"])
    (kernel,) = record.kernels
    assert kernel.device.startswith(torch.cuda.get_device_name())
    assert kernel.chosen is not None
    for case in kernel.cases:
        assert len(case.microseconds) == 2
        assert all(time is not None and time > 0 for time in case.microseconds)
    again = build_artifact(built, present_targets(), emitter.emit)
    assert again.files["tuning.json"] == built.files["tuning.json"]
    assert again.files["program.cpp"] == built.files["program.cpp"]
    x = torch.rand(1 << 16, device="cuda")
    (out,) = load_library(again, {})([x])
    assert isinstance(out, torch.Tensor)
    assert torch.equal(out, x + x + x)


COMPILED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "reduction": lambda x, w: (x * w).sum() + x.mean(0) + w.amax(1),
    "softmax": lambda x, w: torch.softmax(x + w, -1),
    "matmul": lambda x, w: torch.relu(x @ w + 1) @ x,
    "condition": lambda x, w: torch.cond(
        x.sum() > 0, lambda a: a.sin() * 2, lambda a: a.cos(), (x + w,)
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_functions(name: str) -> None:
    function = COMPILED[name]
    x, w = (torch.rand(96, 96, device="cuda") for _ in range(2))
    compiled = torch.compile(function, backend="wrapperir", options=CPP)
    torch.testing.assert_close(compiled(x, w), function(x, w), rtol=1e-4, atol=1e-4)


def test_a_function_of_any_size() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2, -1) @ x.t()

    compiled = torch.compile(function, backend="wrapperir", dynamic=True, options=CPP)
    for rows in (8, 33, 300):
        x = torch.rand(rows, rows + 3, device="cuda")
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)


def test_training() -> None:
    losses: list[list[float]] = []
    for options in (None, CPP):
        torch._dynamo.reset()
        model = mlp()
        call: Any = model
        if options is not None:
            call = torch.compile(model, backend="wrapperir", options=options)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.linspace(-1, 1, 64 * 64, device="cuda").reshape(64, 64)
        losses.append([])
        for _ in range(5):
            loss = (call(x) - x.flip(0)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert losses[1][-1] < losses[1][0]
