"""A process that runs programs on a made-up GPU, and what to ask it for."""

import itertools
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from filelock import FileLock

from wrapperir.ir import Program
from wrapperir.kernels import find_compiler
from wrapperir.text import format_program
from wrapperir_cpp.shims import declared_shims

CURRENT = 0x70
"""The stream that is PyTorch's current one."""
FAKE_HEADERS = Path(__file__).with_name("fake_headers")
"""CUDA's headers for ``graph_pools.so`` without a GPU, and PyTorch's that need them."""


class FakeGpu:
    """Sends requests to the process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._names = itertools.count()

    def ask(
        self,
        program: Program,
        calls: Sequence[tuple[int, int]] = ((0, CURRENT), (1, CURRENT)),
        targets: Sequence[str] = ("sm_90",),
        **facts: Any,
    ) -> dict[str, Any]:
        """Run a program, in a library of its own, for each seed and current stream."""
        program = evolve(program, name=f"of_{next(self._names)}")
        request = {
            "program": format_program(program),
            "calls": calls,
            "targets": targets,
            **facts,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process ended"
        return dict(json.loads(line))

    def logs(self, program: Program, **facts: Any) -> list[list[str]]:
        """Return the driver's log of each call; outputs must be as interpreted."""
        answer = self.ask(program, **facts)
        assert "error" not in answer, answer
        return [log.splitlines() for log in answer["logs"]]


def driver_environment(run_cache: Path) -> dict[str, str]:
    """Return the environment of processes with a driver that is made up.

    The driver is built once, for all processes of a run of the tests.
    """
    folder = run_cache.with_name("driver")
    folder.mkdir(exist_ok=True)
    library = folder / "libcuda.so.1"
    with FileLock(folder / "lock"):
        if not library.exists():
            _build_driver(folder, library)
    preloaded = {"LD_PRELOAD": str(library), "TRITON_LIBCUDA_PATH": str(folder)}
    return {**os.environ, **preloaded}


def _build_driver(folder: Path, library: Path) -> None:
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"]
    operators = folder / "operators.cpp"
    operators.write_text(format_operators())
    names = ("cuda", "graphs", "cublas", "pools")
    fakes = (Path(__file__).with_name(f"fake_{name}.cpp") for name in names)
    sources = [*map(str, fakes), str(operators), f"-I{FAKE_HEADERS}"]
    find_compiler().run(
        [*flags, *sources, "-o", str(library), "-ldl"], folder, "the driver"
    )


def format_operators() -> str:
    """Return C++ whose operators of a GPU are those of the CPU."""
    prefix = "aoti_torch_cuda_"
    names = sorted(name for name in declared_shims() if name.startswith(prefix))
    slots = ", ".join(f'"{name.replace("cuda", "cpu", 1)}"' for name in names)
    jumps = "\n".join(
        f'asm(".globl {name}\\n.type {name}, @function\\n{name}:\\n'
        f'jmp *slots+{8 * index}(%rip)\\n");'
        for index, name in enumerate(names)
    )
    return f"""\
#include <dlfcn.h>
extern "C" {{
__attribute__((visibility("hidden"), used)) void* slots[{len(names)}];
}}
static const char* const names[] = {{{slots}}};
extern "C" __attribute__((visibility("default"))) void fake_bind_operators() {{
  void* torch = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  for (int i = 0; i < {len(names)}; ++i) slots[i] = dlsym(torch, names[i]);
}}
{jumps}
"""
