"""Host time of a matrix product on a GPU: by cuBLAS, emitted C++, PyTorch and Inductor.

Each contender computes small products, so that the host takes longer than the GPU.  A batch
is a loop of products that ends before the queue of the GPU is full; the time is that of the
loop without the wait after it.

    cuBLAS         ``cublasGemmEx`` or ``cublasLtMatmul`` in a loop of C, with its algorithm
    emitted C++    a program of many products, over their number
    PyTorch        ``torch.mm(..., out=)`` from Python
    Inductor       its ``cpp_wrapper``, of many products, over their number

    python -m bench.host.gpu_products [batches]
"""

import ctypes
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from bench.machine import describe_machine
from wrapperir import ir as wir
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.kernels import find_compiler
from wrapperir_cpp.emitter import CppEmitter

PRODUCTS = 200
COMPILED = 40
"""Products in what Inductor compiles, which takes long."""
SIZE = 64
GOAL = 1.1
"""Times of the bare call that a product of emitted C++ may take."""
CUDA = wir.Device("cuda", 0)

LOOP = """\
#include <stddef.h>
#include <stdint.h>
typedef const void* In;
extern "C" {
int torch_get_current_cuda_blas_handle(void**);
int cublasGemmEx(
    void*, int, int, int, int, int, In, In, int, int, In, int, int, In, void*, int, int,
    int, int);
int cublasLtMatmulDescCreate(void**, int, int);
int cublasLtMatmulDescSetAttribute(void*, int, In, size_t);
int cublasLtMatrixLayoutCreate(void**, int, uint64_t, uint64_t, int64_t);
int cublasLtMatmulPreferenceCreate(void**);
int cublasLtMatmulPreferenceSetAttribute(void*, int, In, size_t);
int cublasLtMatmulAlgoGetHeuristic(
    void*, void*, void*, void*, void*, void*, void*, int, void*, int*);
int cublasLtMatmul(
    void*, void*, In, In, void*, In, void*, In, In, void*, void*, void*, In, void*, size_t,
    void*);

int gemm_often(In a, In b, void* c, int size, int times) {
  void* handle;
  const float one = 1, zero = 0;
  int error = torch_get_current_cuda_blas_handle(&handle);
  for (int i = 0; i < times && !error; ++i)
    error = cublasGemmEx(
        handle, 0, 0, size, size, size, &one, a, 2, size, b, 2, size, &zero, c, 2, size, 68,
        99);
  return error;
}

int biased_often(
    In a, In b, In bias, void* c, int size, void* memory, size_t bytes, void* stream,
    int times) {
  void *handle, *what, *layout, *preferred;
  const float one = 1, zero = 0;
  const uint32_t epilogue = 4;
  uint64_t found[12];
  int count = 0;
  int error = torch_get_current_cuda_blas_handle(&handle);
  error |= cublasLtMatmulDescCreate(&what, 68, 0);
  error |= cublasLtMatmulDescSetAttribute(what, 7, &epilogue, sizeof epilogue);
  error |= cublasLtMatmulDescSetAttribute(what, 8, &bias, sizeof bias);
  error |= cublasLtMatrixLayoutCreate(&layout, 2, size, size, size);
  error |= cublasLtMatmulPreferenceCreate(&preferred);
  error |= cublasLtMatmulPreferenceSetAttribute(preferred, 1, &bytes, sizeof bytes);
  error |= cublasLtMatmulAlgoGetHeuristic(
      handle, what, layout, layout, layout, layout, preferred, 1, found, &count);
  for (int i = 0; i < times && !error; ++i)
    error = cublasLtMatmul(
        handle, what, &one, a, layout, b, layout, &zero, c, layout, c, layout, found,
        memory, bytes, stream);
  return error;
}

int handle_often(int times) {
  void* handle;
  int error = 0;
  for (int i = 0; i < times && !error; ++i)
    error = torch_get_current_cuda_blas_handle(&handle);
  return error;
}
}
"""

Loop = Callable[[], object]


def bare_loops(x: torch.Tensor, bias: torch.Tensor, out: torch.Tensor) -> dict[str, Loop]:
    """Return loops in C, of each product and of taking PyTorch's handle."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loop.cpp").write_text(LOOP)
        torch_libraries = Path(torch.__file__).parent / "lib"
        libraries = ["libtorch_cuda.so", "libtorch_cpu.so", "libc10.so"]
        flags = ["-shared", "-fPIC", "-O2", "loop.cpp", "-o", "loop.so"]
        flags += ["-Wl,--no-as-needed", f"-Wl,-rpath,{torch_libraries}"]
        flags += [str(torch_libraries / library) for library in libraries]
        find_compiler().run(flags, folder, "the loop")
        library = ctypes.CDLL(str(folder / "loop.so"))
    a, b, c = (ctypes.c_void_p(value.data_ptr()) for value in (x, bias, out))
    memory = torch.empty(1 << 25, dtype=torch.uint8, device="cuda")
    workspace = ctypes.c_void_p(memory.data_ptr()), ctypes.c_size_t(memory.numel())
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def checked(function: Any, *arguments: Any) -> Loop:
        def loop() -> None:
            error = function(*arguments, PRODUCTS)
            assert not error, error
            assert memory.numel()  # it is held

        return loop

    return {
        "mm: cuBLAS": checked(library.gemm_often, a, a, c, SIZE),
        "addmm: cuBLASLt": checked(
            library.biased_often, a, a, b, c, SIZE, *workspace, stream
        ),
        "taking the handle": checked(library.handle_often),
    }


def emitted_loop(operator: str, x: torch.Tensor, bias: torch.Tensor, out: Any) -> Loop:
    """Return a program of emitted C++ that makes the products."""
    b = ProgramBuilder()
    type = wir.tensor("f16", (SIZE, SIZE), device=CUDA)
    value = b.input(type)
    row = b.input(wir.tensor("f16", (SIZE,), device=CUDA))
    result = b.input(type, mutated=True)
    operands: list[NamedValue] = [value, value]
    if operator == "addmm":
        operands.insert(0, row)
    line = wir.ExternKernelLine(
        operator=f"aten.{operator}.out",
        arguments=tuple(wir.BufferRef(operand.name) for operand in operands),
        keywords=(("out", wir.BufferRef(result.name)),),
        writes=(result.name,),
        device=CUDA,
    )
    for _ in range(PRODUCTS):
        b.append(line)
    emitter = CppEmitter()
    call: Any = emitter.load(emitter.emit(b.build()), {})
    return lambda: call([x, bias, out])


def inductor_loop(operator: str, x: torch.Tensor, bias: torch.Tensor) -> Loop | None:
    """Return a function of Inductor's that makes the products, one after another."""

    def products(value: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        result = value
        for _ in range(COMPILED):
            if operator == "mm":
                result = torch.mm(result, value)
            else:
                result = torch.addmm(row, result, value)
        return result

    try:
        compiled = torch.compile(products, options={"cpp_wrapper": True})
        compiled(x, bias)
    except Exception as error:
        print(f"skipped: Inductor's cpp_wrapper ({type(error).__name__}: {error})")
        return None
    return lambda: compiled(x, bias)


def contenders() -> dict[str, Loop]:
    """Return the loops to time."""
    x = torch.randn(SIZE, SIZE, device="cuda").half() / SIZE
    bias, out = torch.randn(SIZE, device="cuda").half(), torch.empty_like(x)
    loops = bare_loops(x, bias, out)

    def often(function: Callable[..., object], *operands: torch.Tensor) -> Loop:
        def loop() -> None:
            for _ in range(PRODUCTS):
                function(*operands, out=out)

        return loop

    for operator in ("mm", "addmm"):
        operands = (x, x) if operator == "mm" else (bias, x, x)
        loops[f"{operator}: emitted C++"] = emitted_loop(operator, x, bias, out)
        loops[f"{operator}: PyTorch"] = often(getattr(torch, operator), *operands)
    return loops


def inductor_contenders() -> dict[str, Loop]:
    """Return the loops of Inductor's, which take long to compile."""
    x = torch.randn(SIZE, SIZE, device="cuda").half() / SIZE
    bias = torch.randn(SIZE, device="cuda").half()
    loops = {f"{name}: Inductor": inductor_loop(name, x, bias) for name in ("mm", "addmm")}
    return {name: loop for name, loop in loops.items() if loop is not None}


def measured(loops: Mapping[str, Loop], batches: int) -> dict[str, float]:
    """Return the least microseconds a product of each contender."""
    counts = {name: COMPILED if "Inductor" in name else PRODUCTS for name in loops}
    times = dict.fromkeys(loops, float("inf"))
    for _ in range(batches):
        for name, loop in loops.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            loop()
            taken = (time.perf_counter() - begin) * 1e6 / counts[name]
            times[name] = min(times[name], taken)
            torch.cuda.synchronize()
    return times


def show(times: Mapping[str, float], bare: Mapping[str, float]) -> None:
    """Print the rows of some contenders."""
    for name, taken in times.items():
        against = bare.get(name.partition(":")[0])
        ratio = f"{taken / against:.2f}" if against else ""
        print(f"| {name} | {taken:.2f} | {ratio} |", flush=True)


def main(batches: int = 60) -> None:
    """Print a table, or what was skipped."""
    print(describe_machine())
    if not torch.cuda.is_available() or torch.version.hip is not None:
        print("skipped: all contenders, as there is no CUDA device")
        return
    print(torch.cuda.get_device_name(), "\n")
    print("| product | µs | to the bare call |")
    print("| --- | --- | --- |", flush=True)
    times = measured(contenders(), batches)
    bare = {"mm": times["mm: cuBLAS"], "addmm": times["addmm: cuBLASLt"]}
    show(times, bare)
    show(measured(inductor_contenders(), batches), bare)
    worst = max(times[f"{operator}: emitted C++"] / bare[operator] for operator in bare)
    print(f"\nThe goal is {GOAL} of the bare call: {worst:.2f}.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
