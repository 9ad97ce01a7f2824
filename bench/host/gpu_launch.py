"""Host time of a launch on a GPU: by the driver, Triton, Inductor and emitted code.

Each contender launches one program of an empty kernel with a number of arguments, all but
the last of them addresses.  A batch is a loop of launches that ends before the queue of the
GPU is full; the time is that of the loop without the wait after it.

    driver            ``cuLaunchKernel`` in a loop of C
    Triton            ``kernel[grid](...)``
    Inductor          its static launcher, called with the current stream
    Inductor, fast    the same in a C extension, where this PyTorch has it
    before            emitted Python where Triton launches: a launcher of the grid
    emitted           emitted Python: the kernel, called with the grid
    emitted call      the same as a program of many launches, over their number
    C++ call          that program by the C++ emitter

    python -m bench.host.gpu_launch [batches]
"""

import ctypes
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from bench.machine import describe_machine
from wrapperir import ir as wir
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import find_compiler
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import PythonEmitter

COUNTS = (2, 5, 10)
LAUNCHES = 400
GOALS = {"emitted": 1.0, "C++ call": 0.2}
"""Microseconds that a launch may take more than the driver's, by contender."""
CUDA = wir.Device("cuda", 0)

LOOP = """\
#include <dlfcn.h>
typedef int (*Launch)(
    void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
    void**, void**);
extern "C" int launch_often(
    void* function, unsigned threads, unsigned shared, void* stream, void** arguments,
    int times) {
  static Launch launch =
      (Launch)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
  int error = 0;
  for (int i = 0; i < times && !error; ++i)
    error = launch(function, 1, 1, 1, threads, 1, 1, shared, stream, arguments, nullptr);
  return error;
}
"""

Loop = Callable[[], None]


def empty_kernel(count: int) -> wir.KernelDefinitionLine:
    """Return a kernel that takes addresses and a number, and only looks at that."""
    names = [f"x{index}" for index in range(count - 1)]
    source = f"""\
@triton.jit
def empty({", ".join(names)}, n):
    if n < 0:
        tl.store(x0, {" + ".join(f"tl.load({name})" for name in names)})
"""
    return wir.KernelDefinitionLine(
        name="empty",
        language=wir.Language.TRITON,
        parameters=(
            *(wir.BufferParameter(x, wir.DType.F32, wir.Access.READ_WRITE) for x in names),
            wir.ScalarParameter("n", wir.DType.I64),
        ),
        grid=(1,),
        configs=(wir.KernelConfig((("num_warps", 1),)),),
        entry="empty",
        source=source,
    )


def program_of(kernel: wir.KernelDefinitionLine, launches: int) -> wir.Program:
    """Return a program that launches a kernel on its inputs."""
    b = ProgramBuilder()
    type = wir.tensor("f32", (64,), device=CUDA)
    count = len(kernel.parameters) - 1
    inputs = [b.input(type, mutated=True) for _ in range(count)]
    b.kernel(kernel)
    for _ in range(launches):
        b.call(kernel, *inputs, 64, device=CUDA)
    return b.build()


def repeated(call: Callable[..., object], *arguments: object) -> Loop:
    """Return a loop of calls."""

    def loop() -> None:
        for _ in range(LAUNCHES):
            call(*arguments)

    return loop


def driver_loop(compiled: Any, arguments: list[Any], folder: Path) -> Loop:
    """Return a loop of launches in C, with the arguments in memory."""
    (folder / "loop.cpp").write_text(LOOP)
    flags = ["-shared", "-fPIC", "-O2", "loop.cpp", "-o", "loop.so", "-ldl"]
    find_compiler().run(flags, folder, "the loop")
    launch = ctypes.CDLL(str(folder / "loop.so")).launch_often
    words = [x.data_ptr() if isinstance(x, torch.Tensor) else x for x in arguments]
    values = (ctypes.c_uint64 * (len(words) + 2))(*words)
    step, first = ctypes.sizeof(ctypes.c_uint64), ctypes.addressof(values)
    addresses = (ctypes.c_void_p * len(values))(
        *(first + step * index for index in range(len(values)))
    )
    threads = 32 * compiled.metadata.num_warps
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    function = ctypes.c_void_p(compiled.function)

    def loop() -> None:
        error = launch(
            *(function, threads, compiled.metadata.shared, stream, addresses, LAUNCHES)
        )
        assert not error, error
        assert values[0]  # it is held

    return loop


def inductor_loops(compiled: Any, arguments: list[Any]) -> dict[str, Loop]:
    """Return loops of Inductor's launchers, where this PyTorch has them."""
    loops: dict[str, Loop] = {}
    stream = torch.cuda.current_stream().cuda_stream
    try:
        from torch._inductor.runtime import static_triton_launcher as launchers

        with tempfile.NamedTemporaryFile(suffix=".cubin", delete=False) as file:
            file.write(compiled.asm["cubin"])
        compiled._cubin_path = file.name  # as Inductor sets it
        static: Any = launchers.StaticallyLaunchedCudaKernel(compiled)
        static.load_kernel(0)
        Path(file.name).unlink()
        loops["Inductor"] = repeated(static.run, 1, 1, 1, stream, *arguments)
        fast: Any = getattr(torch._C, "_FastCudaLauncher")  # noqa: B009 it has no type
        scratch = static.has_global_scratch + static.has_profile_scratch
        facts = static.num_warps, static.shared, static.arg_tys, scratch
        run = fast(static.function, *facts)
        loops["Inductor, fast"] = repeated(run, 1, 1, 1, stream, *arguments)
    except (ImportError, AttributeError, NotImplementedError, TypeError) as error:
        print(f"skipped: a launcher of Inductor's ({type(error).__name__}: {error})")
    return loops


def contenders(count: int, folder: Path) -> dict[str, Loop]:
    """Return the loops to time."""
    kernel = empty_kernel(count)
    emitter = PythonEmitter(trusts_inputs=True)
    program = program_of(kernel, LAUNCHES)
    call: Any = emitter.load(emitter.emit(program), {})
    cpp = CppEmitter()
    cpp_call: Any = cpp.load(cpp.emit(program), {})
    emitted = call.__globals__["empty"]
    if not hasattr(emitted, "slow"):
        print("skipped: emitted (its extension module was not compiled)")
    function = emitted.function
    arguments: list[Any] = [torch.zeros(64, device="cuda") for _ in range(count - 1)]
    arguments.append(64)
    compiled: Any = function[(1,)](*arguments, num_warps=1)

    def before(*given: object) -> None:
        function[(1,)](*given, num_warps=1)

    return {
        "driver": driver_loop(compiled, arguments, folder),
        "Triton": repeated(lambda *given: function[(1,)](*given, num_warps=1), *arguments),
        **inductor_loops(compiled, arguments),
        "before": repeated(before, *arguments),
        "emitted": repeated(emitted, 1, 1, 1, *arguments),
        "emitted call": lambda: call(arguments[:-1]),
        "C++ call": lambda: cpp_call(arguments[:-1]),
    }


def measured(loops: Mapping[str, Loop], batches: int) -> dict[str, tuple[float, float]]:
    """Return the least and the median microseconds a launch of each contender."""
    times: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(batches):
        for name, loop in loops.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            loop()
            times[name].append((time.perf_counter() - begin) * 1e6 / LAUNCHES)
            torch.cuda.synchronize()
    return {name: (min(taken), statistics.median(taken)) for name, taken in times.items()}


def main(batches: int = 60) -> None:
    """Print a table, or what was skipped."""
    print(describe_machine())
    if not torch.cuda.is_available() or torch.version.hip is not None:
        print("skipped: all contenders, as there is no CUDA device")
        return
    print(torch.cuda.get_device_name(), "\n")
    print("| arguments | contender | least µs | median µs | above the driver |")
    print("| --- | --- | --- | --- | --- |")
    failed: list[str] = []
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            times = measured(contenders(count, Path(folder)), batches)
        floor = times["driver"][0]
        for name, (least, median) in times.items():
            above = least - floor
            print(f"| {count} | {name} | {least:.2f} | {median:.2f} | {above:+.2f} |")
            if above > GOALS.get(name, above):
                failed.append(f"{name} with {count} arguments {above:.2f} µs")
    goals = " and ".join(f"{limit} µs ({name})" for name, limit in GOALS.items())
    print(f"\nThe goals are {goals} above the driver: {', '.join(failed) or 'reached'}.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
