"""Time kernels in OpenCL C with vectors beside the same kernels with single values.

    python -m bench.opencl.vectors

The plugin ``wrapperir-emitter-opencl`` has to be installed, with a platform.  A time is
that of one launch: of programs with many launches and with one, on memory of the device.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from unittest import mock

import torch
from torch.nn import functional

from wrapperir import ir as wir
from wrapperir.emit import compile_program
from wrapperir.frontend.lowering.exported import lower_exported
from wrapperir.lowering.c.lanes import LaneAnalysis, Lanes
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.plugin import plugin_manager

DEVICE = wir.Device("opencl", 0)
FUNCTIONS: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "x * y + x": (lambda x, y: x * y + x, ((1 << 20,), (1 << 20,))),
    "gelu": (functional.gelu, ((1 << 20,),)),
    "gelu, tanh": (lambda x: functional.gelu(x, approximate="tanh"), ((1 << 20,),)),
    "x + bias, rows of 1024": (lambda x, b: x + b, ((1024, 1024), (1024,))),
    "x + bias, rows of 1021": (lambda x, b: x + b, ((1024, 1021), (1021,))),
    "x + column": (lambda x, c: x + c[:, None], ((1024, 1024), (1024,))),
    "x + y.t()": (lambda x, y: x + y.t(), ((1024, 1024), (1024, 1024))),
    "softmax": (lambda x: x.softmax(-1), ((1024, 1024),)),
    "layer_norm": (lambda x: functional.layer_norm(x, (1024,)), ((1024, 1024),)),
    "sum of rows": (lambda x: x.sum(1), ((1024, 1024),)),
    "sum of columns": (lambda x: x.sum(0), ((1024, 1024),)),
    "bf16 to f32": (lambda x: x.bfloat16() + 1, ((1 << 20,),)),
}
LAUNCHES = 20


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


def kernels_of(
    function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]
) -> list[KernelLaunch]:
    """Return the launches that a function needs."""
    exported = torch.export.export(_Function(function), tuple(inputs))
    items = lower_exported(exported).schedule.items
    return [item for item in items if isinstance(item, KernelLaunch)]


def program_of(item: KernelLaunch, launches: int) -> wir.Program:
    """Return a program that launches a kernel several times on its inputs."""
    (renderer,) = plugin_manager().renderers("opencl")
    definition = renderer.render_kernel(item.kernel)
    buffers = item.kernel.buffers
    names = [f"b{n}" for n in range(len(buffers))]
    return wir.Program(
        inputs=tuple(
            wir.Input(
                name=name,
                type=wir.tensor(b.type.dtype, (_extent(b.type),), device=DEVICE),
                mutated=b.access.writes,
            )
            for name, b in zip(names, buffers, strict=True)
        ),
        definitions=(definition,),
        lines=(
            wir.KernelCallLine(
                kernel=definition.name,
                arguments=tuple(map(wir.BufferRef, names)),
                device=DEVICE,
            ),
        )
        * launches,
    )


def _extent(type: wir.TensorType) -> int:
    extent = wir.storage_extent(type)
    assert isinstance(extent, int)
    return extent


def time_of(item: KernelLaunch, repeats: int) -> float:
    """Return the seconds that one launch takes."""
    found: list[float] = []
    for launches in (1, 1 + LAUNCHES):
        program = program_of(item, launches)
        call = compile_program(program, emitter="opencl")
        memory: list[torch.Tensor] = []
        for given in program.inputs:
            assert isinstance(given.type, wir.TensorType)
            (count,) = given.type.size
            assert isinstance(count, int)
            dtype = getattr(torch, given.type.dtype.torch_name)
            memory.append(torch.randn(count).to(dtype))
        times: list[float] = []
        for _ in range(repeats):
            start = time.perf_counter()
            call([*memory])
            times.append(time.perf_counter() - start)
        found.append(min(times))
    return (found[1] - found[0]) / LAUNCHES


def main() -> None:
    """Print a row for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    torch.manual_seed(0)
    print(f"{'kernel of':<26}{'single, ms':>12}{'vectors, ms':>13}{'gain':>8}")
    for name, (function, shapes) in FUNCTIONS.items():
        inputs = [torch.randn(shape) for shape in shapes]
        times: list[float] = []
        for has_vectors in (False, True):
            none = mock.patch.object(LaneAnalysis, "choose", return_value=Lanes())
            with nullcontext() if has_vectors else none:
                items = kernels_of(function, inputs)
                times.append(sum(time_of(item, repeats) for item in items))
        single, vectors = times
        print(f"{name:<26}{1e3 * single:12.3f}{1e3 * vectors:13.3f}{single / vectors:8.2f}")


if __name__ == "__main__":
    main()
