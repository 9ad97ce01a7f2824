"""Time the Triton kernels of our renderer on a GPU, each with all of its configs.

For each case: the time of the configs that rules chose, of the best configs, the bandwidth
and its share of a plain copy's, and the time of Inductor's program for the same function.
All of them are CUDA graphs, so that the time of a launch counts for none.

    python -m bench.lowering.triton_kernels [--compile-only] [--no-inductor] [NAME...]

Without a GPU, ``--compile-only`` compiles every kernel for ``sm_90``.
"""

import argparse
import importlib.util
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import triton
from attrs import frozen
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bench.lowering.triton_cases import GpuCase, gpu_cases, least_bytes
from wrapperir.ir import (
    BufferParameter,
    ConstexprParameter,
    KernelConfig,
    KernelDefinitionLine,
    evaluate_int,
    storage_extent,
)
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.schedule import Schedule, plan_kernels
from wrapperir.lowering.triton import TritonRenderer

Launch = Callable[[], object]


@frozen
class Kernel:
    """A loaded kernel and its arguments."""

    definition: KernelDefinitionLine
    function: Any
    arguments: tuple[torch.Tensor, ...]

    def launch(self, config: KernelConfig) -> Launch:
        """Return a launch with a config."""
        values = dict(config.values)
        sizes = {name: v for name, v in values.items() if isinstance(v, int)}
        grid = tuple(evaluate_int(count, sizes) for count in self.definition.grid)
        return lambda: self.function[grid](*self.arguments, **values)


def definitions_of(schedule: Schedule) -> list[tuple[KernelLaunch, KernelDefinitionLine]]:
    """Return the kernels of a schedule."""
    launches = [item for item in schedule.items if isinstance(item, KernelLaunch)]
    return [(item, TritonRenderer().render_kernel(item.kernel)) for item in launches]


def loaded(definition: KernelDefinitionLine, folder: Path) -> Any:
    """Return the function of a kernel's source."""
    path = folder / f"{definition.name}_{time.monotonic_ns()}.py"
    path.write_text(definition.source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, definition.entry)


def compile_only(case: GpuCase, folder: Path) -> None:
    """Compile the kernels of a case for ``sm_90``; print the time that the first took."""
    for _, definition in definitions_of(plan_kernels(case.graph())):
        function = loaded(definition, folder)
        signature: dict[str, str] = {}
        aligned: dict[tuple[int], list[list[object]]] = {}
        for position, parameter in enumerate(definition.parameters):
            if isinstance(parameter, ConstexprParameter):
                signature[parameter.name] = "constexpr"
                continue
            star = "*" if isinstance(parameter, BufferParameter) else ""
            signature[parameter.name] = f"{star}{parameter.dtype.triton_name}"
            aligned[(position,)] = [["tt.divisibility", 16]]
        times: list[float] = []
        for config in definition.configs:
            values = dict(config.values)
            constants = {n: values.pop(n) for n in signature if n in values}
            start = time.perf_counter()
            source = ASTSource(function, signature, constants, aligned)
            triton.compile(source, target=GPUTarget("cuda", 90, 32), options=values)
            times.append(time.perf_counter() - start)
        shown = dict(definition.configs[0].values)
        blocks = [f"{n} {v}" for n, v in shown.items() if not n.startswith("enable_")]
        print(f"{case.name:36}{times[0] * 1e3:6.0f} ms  {', '.join(blocks)}")


def kernels_of(case: GpuCase, folder: Path) -> tuple[list[Kernel], torch.Tensor]:
    """Return the loaded kernels of a case, and the result that they compute."""
    schedule = plan_kernels(case.graph())
    inputs, result = case.tensors("cuda")
    memory = {f"b{n}": tensor for n, tensor in enumerate(inputs)}
    memory[f"b{len(inputs)}"] = result
    for name, type in schedule.buffers.items():
        if name not in memory:
            kind = getattr(torch, type.dtype.torch_name)
            extent = evaluate_int(storage_extent(type), {})
            memory[name] = torch.zeros(extent, dtype=kind, device="cuda")
    found: list[Kernel] = []
    for item, definition in definitions_of(schedule):
        arguments = tuple(memory[name] for name in item.buffers)
        found.append(Kernel(definition, loaded(definition, folder), arguments))
    for kernel in found:
        kernel.launch(kernel.definition.configs[0])()
    torch.testing.assert_close(result, case.function(*inputs), rtol=3e-2, atol=2e-2)
    return found, result


def milliseconds(launch: Launch) -> float:
    """Return the median time of a launch, with cold caches."""
    times: list[float] = triton.testing.do_bench(
        launch, warmup=5, rep=40, return_mode="all"
    )
    return sorted(times)[len(times) // 2]


def copy_bandwidth() -> float:
    """Return the bytes that a plain copy reads and writes in a second."""
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    return 2 * 4 * source.numel() / milliseconds(lambda: target.copy_(source)) * 1e3


def captured(launches: Sequence[Launch]) -> Launch:
    """Return a launch of a CUDA graph of launches, which run here for the first time."""
    for _ in range(3):
        for launch in launches:
            launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    return graph.replay


def inductor_launch(case: GpuCase) -> Launch:
    """Return a launch of Inductor's program."""
    torch._dynamo.reset()
    inputs, _ = case.tensors("cuda")
    function = torch.compile(case.function, dynamic=False)
    return captured([lambda: function(*inputs)])


def measure(cases: Sequence[GpuCase], folder: Path, *, is_beside: bool) -> None:
    """Print a row for each case."""
    bandwidth = copy_bandwidth()
    print(f"copy: {bandwidth / 1e9:.0f} GB/s")
    titles = ("us", "best us", "of copy", "Inductor", "ratio")
    print(f"{'':36}" + "".join(f"{title:>10}" for title in titles))
    ratios: list[float] = []
    for case in cases:
        try:
            kernels, _ = kernels_of(case, folder)
        except Exception as error:  # the other cases are of use
            print(f"{case.name:36} {type(error).__name__}: {str(error)[:300]}")
            continue
        total = milliseconds(captured([k.launch(k.definition.configs[0]) for k in kernels]))
        best: list[Launch] = []
        chosen: list[str] = []
        for kernel in kernels:
            launches = [kernel.launch(config) for config in kernel.definition.configs]
            times = [milliseconds(captured([launch])) for launch in launches]
            place = times.index(min(times))
            best.append(launches[place])
            if times[0] > 1.03 * min(times):
                values = dict(kernel.definition.configs[place].values)
                shown = [f"{n} {v}" for n, v in values.items() if "enable" not in n]
                chosen.append(", ".join(shown))
        least = milliseconds(captured(best))
        theirs = milliseconds(inductor_launch(case)) if is_beside else math.nan
        ratios.append(total / theirs)
        share = least_bytes(case) / total * 1e3 / bandwidth
        figures = [f"{total * 1e3:.1f}", f"{least * 1e3:.1f}", f"{share:.2f}"]
        figures += [f"{theirs * 1e3:.1f}", f"{ratios[-1]:.2f}"]
        row = "".join(f"{figure:>10}" for figure in figures)
        print(f"{case.name:36}{row}  {' | '.join(chosen)}", flush=True)
    if is_beside and ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of the ratios: {mean:.3f}, worst {max(ratios):.2f}")


def main() -> None:
    """Time or compile the cases whose names contain an argument."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    names: list[str] = given.names or [""]
    cases = [case for case in gpu_cases() if any(name in case.name for name in names)]
    with tempfile.TemporaryDirectory() as folder:
        if given.compile_only:
            for case in cases:
                compile_only(case, Path(folder))
        else:
            measure(cases, Path(folder), is_beside=not given.no_inductor)


if __name__ == "__main__":
    main()
