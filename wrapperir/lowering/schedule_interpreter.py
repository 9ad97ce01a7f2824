"""Run the items of loop graphs and schedules on the memory of their buffers."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from wrapperir.diagnostics import Code
from wrapperir.ir import TensorType, evaluate_int, storage_extent
from wrapperir.lowering.eager import dtype_in_torch
from wrapperir.lowering.interpreter import SymbolValues, faults_at, run_nest
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import ExternCall, LoopGraph, Nest
from wrapperir.lowering.schedule import Schedule

BufferMemory: TypeAlias = Mapping[str, torch.Tensor]
"""The memory of buffers by name, in one dimension each."""

RunCall: TypeAlias = Callable[[ExternCall, BufferMemory], None]
RunLaunch: TypeAlias = Callable[[KernelLaunch, BufferMemory, SymbolValues], None]


def no_call(call: ExternCall, memory: BufferMemory) -> None:
    """Refuse to run an operator call.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(f"{call.name} is a call of an operator")


def run_launch(launch: KernelLaunch, memory: BufferMemory, symbols: SymbolValues) -> None:
    """Run a kernel with the interpreter of nests.

    Raises:
        DiagnosticError: as :func:`~wrapperir.lowering.interpreter.run_nest`.
    """
    kernel = launch.kernel
    buffers = zip(kernel.buffers, launch.buffers, strict=True)
    sizes = zip(kernel.symbols, launch.symbols, strict=True)
    run_nest(
        kernel.nest,
        {buffer.name: memory[name] for buffer, name in buffers},
        {symbol.name: symbols[name] for symbol, name in sizes},
    )


def run_schedule(
    schedule: Schedule,
    inputs: BufferMemory,
    symbols: SymbolValues | None = None,
    *,
    call: RunCall = no_call,
    launch: RunLaunch = run_launch,
) -> dict[str, torch.Tensor]:
    """Return the memory of each output of a schedule; inputs are not changed.

    ``call`` runs an operator call, and ``launch`` a kernel: another one than the
    interpreter's runs what a renderer writes.

    Raises:
        DiagnosticError: as :func:`~wrapperir.lowering.interpreter.run_nest`.
    """
    memory = new_memory(schedule.buffers, inputs, symbols or {})
    for number, item in enumerate(schedule.items):
        with faults_at("items", number):
            if isinstance(item, KernelLaunch):
                memory |= {result: memory[source] for result, source in item.in_place}
                launch(item, memory, symbols or {})
            else:
                call(item, memory)
    return {view.buffer: memory[view.buffer] for _, view in schedule.outputs}


def run_graph(
    graph: LoopGraph,
    inputs: BufferMemory,
    symbols: SymbolValues | None = None,
    *,
    call: RunCall = no_call,
) -> dict[str, torch.Tensor]:
    """Return the memory of each output of a graph; inputs are not changed.

    Raises:
        DiagnosticError: WIR800, an input is missing; or as
            :func:`~wrapperir.lowering.interpreter.run_nest`.
    """
    values = symbols or {}
    missing = [name for name in graph.inputs if name not in inputs]
    if missing:
        raise Code.RUN_INPUT_COUNT.error(f"there is no input {', '.join(missing)}")
    memory = new_memory(graph.buffers, inputs, values)
    views = {name: strided(memory[name], t, values) for name, t in graph.buffers.items()}
    for number, item in enumerate(graph.items):
        with faults_at("items", number):
            if isinstance(item, Nest):
                run_nest(item, views, symbols)
            else:
                call(item, memory)
    return {view.buffer: memory[view.buffer] for _, view in graph.outputs}


def strided(memory: torch.Tensor, type: TensorType, symbols: SymbolValues) -> torch.Tensor:
    """Return memory as a tensor of a type, from the first element of the memory on."""
    size = [evaluate_int(part, symbols) for part in type.size]
    stride = [evaluate_int(part, symbols) for part in type.stride]
    return torch.as_strided(memory, size, stride)


def new_memory(
    buffers: Mapping[str, TensorType], inputs: BufferMemory, symbols: SymbolValues
) -> dict[str, torch.Tensor]:
    """Return memory for buffers: copies of inputs, and numbers that nothing computes."""
    memory = {name: tensor.clone() for name, tensor in inputs.items()}
    for name, type in buffers.items():
        if name not in memory:
            count = max(evaluate_int(storage_extent(type), symbols), 0)
            memory[name] = torch.full((count,), 77).to(dtype_in_torch(type.dtype))
    return memory
