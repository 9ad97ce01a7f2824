"""The bytes that each program of a training step takes on a GPU, beside its plan."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from attrs import define

from wrapperir.analysis import ProgramMemory, analyze_memory
from wrapperir.text import parse_program


@define
class ProgramPeak:
    """The most bytes that a program took in a call, and that its plan says."""

    taken: int
    planned: int


class Allocator(Protocol):
    """What is asked of an allocator."""

    def begin(self) -> int:
        """Return the bytes that are taken when all work is done; peaks begin here."""
        ...

    def peak(self) -> int:
        """Return the most bytes taken since, when all work is done."""
        ...


class CudaAllocator:
    """PyTorch's allocator of the current GPU."""

    def begin(self) -> int:
        """Return the bytes that are taken when all work is done; peaks begin here."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()

    def peak(self) -> int:
        """Return the most bytes taken since, when all work is done."""
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()


def planned_memory(folder: Path) -> Mapping[str, ProgramMemory]:
    """Return the memory of the programs that were written, ``forward`` or ``backward``."""
    texts = {
        path.parent.name.partition("-")[0]: path.read_text()
        for path in sorted(folder.glob("*/program.wir"))
    }
    return {role: analyze_memory(parse_program(text), {}) for role, text in texts.items()}


def measure_programs(
    run: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    folder: Path,
    allocator: Allocator,
) -> dict[str, ProgramPeak]:
    """Return the peaks of the forward and the backward program of a compiled model.

    What is alive when a program is called is not its own, but for the inputs that it is
    given for good.
    """
    plans = planned_memory(folder)
    before = allocator.begin()
    result = run(x)
    taken = {"forward": allocator.peak() - before, "backward": 0}

    def begin(*_: Any) -> None:
        taken["backward"] = given_bytes(plans["backward"]) - allocator.begin()

    def end(*_: Any) -> None:
        taken["backward"] += allocator.peak()

    (node,) = [each for each in nodes_before(result) if "CompiledFunction" in each.name()]
    node.register_prehook(begin)
    node.register_hook(end)
    torch.autograd.backward(result.float().square().mean())
    return {role: ProgramPeak(taken[role], plan.peak) for role, plan in plans.items()}


def given_bytes(memory: ProgramMemory) -> int:
    """Return the bytes of a program's donated inputs."""
    top = memory.top
    pairs = zip(top.storages, top.bytes, strict=True)
    return sum(size for storage, size in pairs if storage.is_donated)


def nodes_before(result: torch.Tensor) -> Iterator[Any]:
    """Yield the nodes of the graph that computes the gradients of a result."""
    waiting: list[Any] = [result.grad_fn]
    known: set[Any] = {None}
    while waiting:
        node = waiting.pop()
        if node not in known:
            known.add(node)
            yield node
            waiting += [source for source, _ in node.next_functions]
