"""FX graphs on a GPU: whole functions, memory, streams and events.

The features of ``test_features*.py`` are tested there on a GPU too.
"""

import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._inductor import config

from tests.fx_emitter.features import TRITON, argument, calls, options, run
from tests.python_emitter.running import assert_same
from tests.python_emitter.test_cuda import SIZE, in_stages, mlp, on_streams, orthogonal
from wrapperir import compile_program
from wrapperir.emit import Value
from wrapperir.ir import Device, Program, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import example_inputs
from wrapperir.testing.kernels import descriptor_kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

GPU = Device("cuda", 0)
COMPUTED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "pointwise": lambda x, w: torch.relu(x + w) * 2 - w.sin(),
    "reduction": lambda x, w: (x * w).sum() + x.mean(0) + w.amax(1),
    "matmul": lambda x, w: torch.relu(x @ w + 1) @ x,
    "sort": lambda x, w: torch.sort(x + w)[0],
}


@pytest.fixture(autouse=True)
def _forget() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", COMPUTED)
def test_compiled_functions(name: str) -> None:
    function = COMPUTED[name]
    x, w = (torch.rand(96, 96, device="cuda") for _ in range(2))
    compiled = torch.compile(function, backend="wrapperir", options=options())
    torch.testing.assert_close(compiled(x, w), function(x, w), rtol=1e-4, atol=1e-4)


def test_a_function_of_any_size() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2, -1) @ x.t()

    compiled = torch.compile(function, backend="wrapperir", options=options(), dynamic=True)
    for rows in (8, 33, 300):
        x = torch.rand(rows, rows + 3, device="cuda")
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)


def test_training() -> None:
    losses: list[list[float]] = []
    for emitter in (None, "python", "fx"):
        torch._dynamo.reset()
        model: Any = mlp()
        call = model
        if emitter is not None:
            call = torch.compile(model, backend="wrapperir", options={"emitter": emitter})
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.linspace(-1, 1, 64 * 64, device="cuda").reshape(64, 64)
        losses.append([])
        for _ in range(5):
            loss = (call(x) - x.flip(0)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    eager, python, fx = losses
    assert fx == pytest.approx(eager, rel=1e-3)
    # Of several configs of a reduction, each takes the one that ran fastest.
    assert fx == pytest.approx(python, rel=1e-6)
    assert fx[-1] < fx[0]


def test_cooperative_reduction() -> None:
    with config.patch({"triton.force_cooperative_reductions": True}):
        ran = run(lambda x: x.sum(), torch.randn(100, 1000, device="cuda"))
    (launch,) = calls(ran.graph, TRITON)
    kept = argument(launch, "kwargs")["sem_ptr"]
    assert kept.op == "get_attr"
    assert not any(getattr(ran.graph, kept.target).tolist())


def ran_once(
    program: Program, inputs: Sequence[Value], emitter: str, passes: Sequence[str] = ()
) -> tuple[tuple[Value, ...], int]:
    """Return a program's outputs, and the most bytes that its second call had at once."""
    call = compile_program(program, emitter=emitter, passes=passes)
    call(list(inputs))
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    outputs = call(list(inputs))
    torch.cuda.synchronize()
    return outputs, torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("passes", [(), ("plan_memory",)], ids=["allocated", "planned"])
def test_memory_is_what_emitted_python_has(passes: tuple[str, ...]) -> None:
    program = in_stages()
    inputs = example_inputs(program)
    wanted, most = ran_once(program, inputs, "python", passes)
    outputs, peak = ran_once(program, inputs, "fx", passes)
    assert_same(outputs, wanted)
    assert peak <= most


@pytest.mark.parametrize("passes", [(), ("plan_memory",)], ids=["allocated", "planned"])
@pytest.mark.parametrize("seed", range(6))
def test_streams_wait_for_events(seed: int, passes: tuple[str, ...]) -> None:
    program, operands = on_streams(seed)
    call = compile_program(program, emitter="fx", passes=passes)
    inputs = [orthogonal() for _ in range(2)]
    values = list(inputs)
    for x, y in operands:
        values.append(values[x] @ values[y])
    used = {value for pair in operands for value in pair}
    wanted = tuple(v for n, v in enumerate(values) if n > 1 and n not in used)
    for _ in range(10):
        outputs = call(list(inputs))
        torch.full((4 * SIZE, SIZE), torch.nan, device="cuda")  # takes what was freed
        torch.testing.assert_close(outputs, wanted, rtol=1e-4, atol=1e-4)


def test_the_callers_stream_is_current_again() -> None:
    program, _ = on_streams(0)
    call = compile_program(program, emitter="fx")
    before = torch.cuda.current_stream()
    call(example_inputs(program))
    assert torch.cuda.current_stream() == before


@pytest.mark.parametrize("columns", [4, 12, 64])
def test_a_kernel_takes_tensors_behind_descriptors(columns: int) -> None:
    type = tensor("f32", (7, columns), device=GPU)
    b = ProgramBuilder()
    x, y = b.input(type), b.input(type)
    out = b.allocate(type)
    b.call(b.kernel(descriptor_kernel()), x, y, out, 7, columns, device=type.device)
    call = compile_program(b.build(out), emitter="fx")
    inputs = [torch.randn(7, columns, device="cuda") for _ in range(2)]
    assert_same(call(list(inputs)), (inputs[0] + inputs[1],))


def test_constants_stay_on_their_gpu() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (3, 8), device=GPU))
    weight = b.constant(tensor("f32", (8, 4), device=GPU), "weight")
    out = b.allocate(tensor("f32", (3, 4), device=GPU))
    b.extern_out("aten.mm.out", x, weight, out=out, device=GPU)
    constants = {"weight": torch.randn(8, 4, device="cuda")}
    call = compile_program(b.build(out), emitter="fx", constants=constants)
    given = torch.randn(3, 8, device="cuda")
    assert_same(call([given]), (given @ constants["weight"],))
