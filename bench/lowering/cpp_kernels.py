"""Time C++ kernels of our renderer beside Inductor's for the same functions, on one thread.

Both are called with ctypes; each figure is the least of many turns.

    python -m bench.lowering.cpp_kernels [WORD ...]
"""

import math
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from bench.lowering.kernel_cases import Case, all_cases
from wrapperir.frontend.inductor import capture
from wrapperir.ir import (
    AllocateLine,
    BufferRef,
    KernelCallLine,
    KernelDefinitionLine,
    ReinterpretLine,
    ReuseLine,
)
from wrapperir.kernels import CppBuildError, CppKernel, build_libraries
from wrapperir.lowering.cpp import CppRenderer

TURNS, CALLS = 15, 30

Launch = Callable[[], object]


def our_launch(case: Case) -> tuple[Launch, torch.Tensor, float]:
    """Return a launch of our kernel, its result, and the seconds that compiling took."""
    definition = CppRenderer().render_kernel(case.kernel())
    source = f"{definition.source}// {time.time()}\n"
    start = time.perf_counter()
    (library,) = build_libraries([source])
    seconds = time.perf_counter() - start
    if isinstance(library, CppBuildError):
        raise library
    kernel = CppKernel(definition, library)
    result = torch.zeros_like(case.function(*case.inputs))
    return (lambda: kernel.launch([*case.inputs, result])), result, seconds


def their_launch(case: Case) -> Launch:
    """Return launches of all kernels of Inductor's program."""
    torch._dynamo.reset()
    (lowered,) = capture(case.function, list(case.inputs))
    program = lowered.program
    tensors = {
        given.name: tensor
        for given, tensor in zip(program.inputs, case.inputs, strict=True)
    }
    for line in program.lines:
        if isinstance(line, AllocateLine):
            type = line.type
            size = [int(n) for n in type.size if isinstance(n, int)]
            stride = [int(n) for n in type.stride if isinstance(n, int)]
            dtype = getattr(torch, type.dtype.torch_name)
            tensors[line.result] = torch.empty_strided(size, stride, dtype=dtype)
        elif isinstance(line, ReuseLine | ReinterpretLine):
            source = tensors[line.source]
            size = [int(n) for n in line.type.size if isinstance(n, int)]
            stride = [int(n) for n in line.type.stride if isinstance(n, int)]
            tensors[line.result] = source.as_strided(size, stride)
    definitions = {
        line.name: line
        for line in program.definitions
        if isinstance(line, KernelDefinitionLine)
    }
    calls: list[tuple[CppKernel, list[torch.Tensor]]] = []
    for line in program.lines:
        if isinstance(line, KernelCallLine):
            definition = definitions[line.kernel]
            (library,) = build_libraries([definition.source])
            if isinstance(library, CppBuildError):
                raise library
            names = [a.name for a in line.arguments if isinstance(a, BufferRef)]
            arguments = [tensors[name] for name in names]
            calls.append((CppKernel(definition, library), arguments))
    assert calls

    def launch() -> None:
        for kernel, arguments in calls:
            kernel.launch(arguments)

    return launch


def microseconds(launch: Launch) -> float:
    """Return the processor time of one call, which other processes change less."""
    start = time.thread_time()
    for _ in range(CALLS):
        launch()
    return (time.thread_time() - start) / CALLS * 1e6


def main() -> None:
    """Print the times, their ratio and the time to compile.

    Words of the command line choose the cases whose names have one of them.
    """
    torch.set_num_threads(1)
    ratios: list[float] = []
    print(f"{'':44}{'ours':>8}{'Inductor':>10}{'ratio':>7}{'eager':>8}{'compile':>9}")
    for case in all_cases():
        if len(sys.argv) > 1 and not any(word in case.name for word in sys.argv[1:]):
            continue
        ours, result, seconds = our_launch(case)
        theirs = their_launch(case)
        ours()
        wanted = case.function(*case.inputs)
        torch.testing.assert_close(result, wanted, rtol=3e-2, atol=1e-2)
        launches: dict[str, Launch] = {
            "ours": ours,
            "theirs": theirs,
            "eager": partial(case.function, *case.inputs),
        }
        times = dict.fromkeys(launches, math.inf)
        for _ in range(TURNS):
            for name, launch in launches.items():
                times[name] = min(times[name], microseconds(launch))
        ratios.append(times["ours"] / times["theirs"])
        print(
            f"{case.name:44}{times['ours']:7.1f} {times['theirs']:9.1f} {ratios[-1]:6.2f}"
            f" {times['eager']:7.1f} {seconds * 1e3:6.0f} ms"
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of the ratios: {mean:.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
