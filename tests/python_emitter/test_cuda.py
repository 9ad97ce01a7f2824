"""Emitted Python on a GPU: what ``torch.compile`` gives it, pools, streams and events."""

import gc
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from tests.frontend_inductor.captured import capture_all
from wrapperir import compile_program
from wrapperir.emit import Value
from wrapperir.ir import AllocatePoolLine, Device, Program, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.passes import memory_passes, plan_memory
from wrapperir.testing import example_inputs
from wrapperir.testing.kernels import descriptor_kernel
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

COMPUTED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "pointwise": lambda x, w: torch.relu(x + w) * 2 - w.sin(),
    "reduction": lambda x, w: (x * w).sum() + x.mean(0) + w.amax(1),
    "softmax": lambda x, w: torch.softmax(x + w, -1),
    "matmul": lambda x, w: torch.relu(x @ w + 1) @ x,
    "sort": lambda x, w: torch.sort(x + w)[0],
}


@pytest.fixture(autouse=True)
def _forget() -> None:
    torch._dynamo.reset()


def mlp() -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(256, 64)).cuda()


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("name", COMPUTED)
def test_compiled_functions(name: str) -> None:
    function = COMPUTED[name]
    x, w = (torch.rand(96, 96, device="cuda") for _ in range(2))
    compiled = torch.compile(function, backend="wrapperir")
    torch.testing.assert_close(compiled(x, w), function(x, w), rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@on_a_gpu
def test_a_function_of_any_size() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2, -1) @ x.t()

    compiled = torch.compile(function, backend="wrapperir", dynamic=True)
    for rows in (8, 33, 300):
        x = torch.rand(rows, rows + 3, device="cuda")
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@on_a_gpu
def test_training() -> None:
    losses: list[list[float]] = []
    for backend in ("eager", "wrapperir"):
        torch._dynamo.reset()
        model = mlp()
        compiled = torch.compile(model, backend=backend)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.linspace(-1, 1, 64 * 64, device="cuda").reshape(64, 64)
        losses.append([])
        for _ in range(5):
            loss = (compiled(x) - x.flip(0)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert losses[1][-1] < losses[1][0]


def ran(
    program: Program,
    inputs: Sequence[Value],
    passes: Sequence[str] = (),
    constants: Mapping[str, torch.Tensor] | None = None,
) -> tuple[tuple[Any, ...], int]:
    """Return a program's outputs, and the most bytes that its second call had at once."""
    call = compile_program(program, passes=passes, constants=constants or {})
    call(list(inputs))
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    outputs = call(list(inputs))
    torch.cuda.synchronize()
    return outputs, torch.cuda.max_memory_allocated() - before


def in_stages() -> Program:
    """Use much memory for a while, then buffers of which two live at a time."""
    gpu = Device("cuda", 0)
    b = ProgramBuilder()
    value = b.input(tensor("f32", (64, 64), device=gpu))
    b.free(
        b.extern(
            "aten.expand_copy.default",
            value,
            [64, 64, 64],
            type=tensor("f32", (64, 64, 64), device=gpu),
            device=gpu,
        )
    )
    for size in (128, 256, 64, 256, 128):
        after = b.allocate(tensor("f32", (64, size), device=gpu))
        weight = b.input(tensor("f32", (64, size), device=gpu))
        b.extern_out("aten.mm.out", value, weight, out=after, device=gpu)
        b.free(value)
        value = b.allocate(tensor("f32", (64, 64), device=gpu))
        b.extern_out(
            "aten.mm.out",
            after,
            b.input(tensor("f32", (size, 64), device=gpu)),
            out=value,
            device=gpu,
        )
        b.free(after)
    result = b.extern(
        "aten.neg.default", value, type=tensor("f32", (64, 64), device=gpu), device=gpu
    )
    b.free(value)
    return b.build(result)


def test_the_program_in_stages_is_planned() -> None:
    program = in_stages()
    assert verify(program) == ()
    assert any(isinstance(line, AllocatePoolLine) for line in plan_memory(program).lines)


@pytest.mark.gpu
@on_a_gpu
def test_memory_from_a_pool() -> None:
    program = in_stages()
    inputs = example_inputs(program)
    plain, without = ran(program, inputs)
    pooled, planned = ran(program, inputs, ["plan_memory"])
    torch.testing.assert_close(pooled, plain, rtol=0, atol=0)
    assert planned <= without


@pytest.mark.gpu
@on_a_gpu
def test_memory_of_a_model() -> None:
    model = mlp()
    x = torch.rand(512, 64, device="cuda")
    passes = memory_passes(PythonEmitter().support.lines)
    for lowered in capture_all(model, (x,)):
        by_type = {tuple(p.shape): p.detach() for p in model.parameters()}
        inputs = [
            x if value.type.size == (512, 64) else by_type[value.type.size]  # type: ignore[union-attr,index]
            for value in lowered.program.inputs
        ]
        plain, without = ran(lowered.program, inputs, (), lowered.constants)
        planned, peak = ran(lowered.program, inputs, passes, lowered.constants)
        torch.testing.assert_close(planned, plain, rtol=0, atol=0)
        assert peak <= without


SIZE = 1024
TYPE = f"f32[{SIZE}, {SIZE}]@cuda:0"


def orthogonal() -> torch.Tensor:
    """Return a matrix with which products of many neither vanish nor overflow."""
    matrix: torch.Tensor = torch.linalg.qr(torch.randn(SIZE, SIZE, device="cuda"))[0]
    return matrix.contiguous()  # on a GPU it is column-major


def on_streams(seed: int) -> tuple[Program, list[tuple[int, int]]]:
    """Write launches over three streams, with an event for each value that crosses.

    Return the operands of each launch too: numbers below two are inputs.
    """
    draw = random.Random(seed)
    operands = [(draw.randrange(n), draw.randrange(n)) for n in range(2, 14)]
    streams = [0, 0, *(draw.randrange(3) for _ in operands)]
    last = {value: n for n, pair in enumerate(operands, 2) for value in pair}
    lines: list[str] = []
    waited: set[tuple[int, int]] = set()
    for n, pair in enumerate(operands, 2):
        at = f"@cuda:0 stream({streams[n]})" if streams[n] else "@cuda:0"
        for value in dict.fromkeys(pair):
            crosses = value > 1 and streams[value] != streams[n]
            if crosses and (value, streams[n]) not in waited:
                waited.add((value, streams[n]))
                lines.append(f"wait_event %e{value} {at}")
        x, y = pair
        if draw.random() < 0.5:
            lines.append(
                f"%v{n} = extern_kernel aten.mm.default(%v{x}, %v{y}) {at} : {TYPE}"
            )
        else:
            lines.append(f"%v{n} = allocate {TYPE}")
            lines.append(
                f"extern_kernel aten.mm.out(%v{x}, %v{y}, out = %v{n}) writes(%v{n}) {at}"
            )
        lines.append(f"%e{n} = record_event {at}")
        lines += [f"free %v{v}" for v in dict.fromkeys(pair) if last[v] == n and v > 1]
    unused = [n for n in range(2, len(operands) + 2) if n not in last]
    lines.append("return " + ", ".join(f"%v{n}" for n in unused))
    body = "\n".join(f"  {line}" for line in lines)
    text = f"wrapperir 1\n\nprogram @main(%v0: {TYPE}, %v1: {TYPE}) {{\n{body}\n}}\n"
    return parse_program(text), operands


@pytest.mark.parametrize("seed", range(6))
def test_programs_of_streams_are_valid_planned_or_not(seed: int) -> None:
    program, _ = on_streams(seed)
    assert verify(program) == ()
    assert verify(plan_memory(program)) == ()


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("passes", [(), ("plan_memory",)], ids=["allocated", "planned"])
@pytest.mark.parametrize("seed", range(6))
def test_streams_wait_for_events(seed: int, passes: tuple[str, ...]) -> None:
    program, operands = on_streams(seed)
    call = compile_program(program, passes=passes)
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


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("columns", [4, 12, 64])
def test_a_kernel_takes_tensors_behind_descriptors(columns: int) -> None:
    type = tensor("f32", (7, columns), device=Device("cuda", 0))
    b = ProgramBuilder()
    x, y = b.input(type), b.input(type)
    out = b.allocate(type)
    b.call(b.kernel(descriptor_kernel()), x, y, out, 7, columns, device=type.device)
    call = compile_program(b.build(out))
    inputs = [torch.randn(7, columns, device="cuda") for _ in range(2)]
    (total,) = call(list(inputs))
    assert isinstance(total, torch.Tensor)
    assert torch.equal(total, inputs[0] + inputs[1])
