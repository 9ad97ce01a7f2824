"""The probe of calls from several threads: each has memory of its own."""

import sys
import threading
from collections.abc import Sequence

from wrapperir import ir as wir
from wrapperir.emit import Loaded, Value
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.testing.inputs import difference, example_inputs, run_example
from wrapperir.testing.kernels import KernelKind, library_kernel

_THREADS = 4
_CALLS = 200
_LARGE = wir.tensor("f32", (64, 256))
"""Large enough that calls overlap, as their kernels take some time."""


def threads_program(language: wir.Language | None) -> wir.Program:
    """Return a program with some buffers; ``None`` makes it of operators, not kernels."""
    b = ProgramBuilder()
    x, y = b.input(_LARGE), b.input(_LARGE)
    made = [x, y]
    kernel = None
    if language is not None:
        kernel = b.kernel(library_kernel(KernelKind.SUBTRACT, language))
    for _ in range(4):
        out = b.allocate(_LARGE)
        left, right = made[-2:]
        if kernel is not None:
            b.call(kernel, left, right, out, 64 * 256)
        else:
            b.extern_out("aten.sub.out", left, right, out=out)
        made.append(out)
    dead: Sequence[NamedValue] = made[2:-2]
    b.free(*dead)
    return b.build(*made[-2:])


def thread_fault(loaded: Loaded, program: wir.Program, given: wir.Program) -> str | None:
    """Return how calls from several threads differ from calls one by one, if they do.

    ``given`` is the program on the device of the loaded one, ``program`` on the CPU.
    """
    wanted = [run_example(program, seed).outputs for seed in range(_THREADS)]
    inputs = [example_inputs(given, seed) for seed in range(_THREADS)]
    faults: list[str] = []
    together = threading.Barrier(_THREADS)

    def run(seed: int) -> None:
        together.wait()
        for _ in range(_CALLS):
            if faults:
                return
            try:
                found = _differs(loaded(list(inputs[seed])), wanted[seed])
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            if found is not None:
                faults.append(f"with {_THREADS} threads, {found:.300}")

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(_THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads meet within a call
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return faults[0] if faults else None


def _differs(returned: Sequence[Value], wanted: Sequence[Value]) -> str | None:
    for index, (got, expected) in enumerate(zip(returned, wanted, strict=True)):
        found = difference(got, expected, any_device=True)
        if found is not None:
            return f"output {index} {found}"
    return None
