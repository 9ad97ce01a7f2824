"""Host time of a call that replays a graph region on a GPU.

The region has launches of an empty kernel; the first ones have an input each.  A call is
timed while the GPU is idle, without the wait after it.

    bare             ``torch.cuda.CUDAGraph.replay`` of the same launches
    C++, Python      an emitted program, with its inputs where they were in the call before
    ..., moved       the same, with each input at another address than in the last calls

    python -m bench.host.gpu_replay [calls]
"""

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from bench.host.gpu_launch import CUDA, empty_kernel
from bench.machine import describe_machine
from wrapperir import ir as wir
from wrapperir.emit import Emitter
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.pipelines import run_passes
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import PythonEmitter

LAUNCHES = 64
INPUTS = 8
SETS = 7
"""Sets of inputs that calls take in turn; a recording has fewer instances."""

Call = Callable[[], object]


def launching_program() -> wir.Program:
    """Return a program whose launches are one region."""
    b = ProgramBuilder()
    type = wir.tensor("f32", (64,), device=CUDA)
    inputs = [b.input(type, mutated=True) for _ in range(INPUTS)]
    kernel = b.kernel(empty_kernel(3))
    out = b.allocate(type)
    for number in range(LAUNCHES):
        first = inputs[number] if number < INPUTS else out
        b.call(kernel, first, out, 64, device=CUDA)
    return run_passes(b.build(out), ["capture_graphs"])


def bare(call: Callable[[list[Any]], object], inputs: list[Any]) -> Call:
    """Return the replay of what a call launches."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(list(inputs))
    replay: Call = graph.replay
    return replay


def in_turn(call: Callable[[list[Any]], object], sets: Sequence[list[Any]]) -> Call:
    """Return calls with one of several sets of inputs after the other."""
    turns = itertools.cycle(sets)
    return lambda: call(list(next(turns)))


def contenders() -> dict[str, Call]:
    """Return the calls to time."""
    program = launching_program()
    assert any(isinstance(line, wir.GraphRegionLine) for line in program.lines)
    sets = [[torch.zeros(64, device="cuda") for _ in range(INPUTS)] for _ in range(SETS)]
    calls: dict[str, Call] = {}
    emitters: Mapping[str, Emitter] = {
        "C++": CppEmitter(),
        "Python": PythonEmitter(trusts_inputs=True),
    }
    for name, emitter in emitters.items():
        call: Any = emitter.load(emitter.emit(program), {})
        if not calls:
            call(list(sets[0]))
            calls["bare"] = bare(call, sets[0])
        calls[name] = in_turn(call, sets[:1])
        calls[f"{name}, moved"] = in_turn(call, sets)
    return calls


def measured(calls: Mapping[str, Call], count: int) -> dict[str, tuple[float, float]]:
    """Return the least and the median microseconds of each contender."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(count + 3):
        for name, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            taken = (time.perf_counter() - begin) * 1e6
            if number >= 3:  # the first calls record
                times[name].append(taken)
    return {name: (min(taken), statistics.median(taken)) for name, taken in times.items()}


def main(count: int = 1000) -> None:
    """Print a table, or what was skipped."""
    print(describe_machine())
    if not torch.cuda.is_available() or torch.version.hip is not None:
        print("skipped: all contenders, as there is no CUDA device")
        return
    print(f"{torch.cuda.get_device_name()}; {LAUNCHES} launches, {INPUTS} inputs\n")
    print("| contender | least µs | median µs | above bare |")
    print("| --- | --- | --- | --- |")
    times = measured(contenders(), count)
    floor = times["bare"][1]
    for name, (least, median) in times.items():
        print(f"| {name} | {least:.2f} | {median:.2f} | {median - floor:+.2f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
