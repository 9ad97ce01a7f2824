"""Counts the bytes that C++ kernels read and write, by running them instrumented.

A compiler's instrumentation for race detectors calls a function for each access to memory
(``recorder.h``); here the function marks the bytes of the kernel's arguments.  In a launch,
each byte that is read before it is written counts once, and so does each that is written.
Sources are not parsed, so one rule holds for kernels of every origin.
"""

import contextlib
import ctypes
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
from attrs import define, field
from torch.utils.cpp_extension import TORCH_LIB_PATH

from wrapperir.ir import KernelDefinitionLine, Number
from wrapperir.kernels import Compiler, CppBuildError, CppKernel
from wrapperir.kernels.cpp_build import kernel_compiler

RECORDER = Path(__file__).with_name("recorder.h")
_FLAGS = (
    *("-O1", "-fno-tree-vectorize", "-fno-openmp", "-fsanitize=thread"),
    *("--param", "tsan-instrument-func-entry-exit=0", "-fno-builtin"),
)
_ENTRY = re.compile(r'extern\s+"C"\s+void\s+(\w+)\s*\(')
_LINKED = (
    *("-Wl,--wrap=memcpy", "-Wl,--wrap=memset", "-shared"),
    *(f"-L{TORCH_LIB_PATH}", "-ltorch_cpu", "-lc10"),
)


@define
class MovedBytes:
    """Bytes that launches read and wrote, and how many launches there were."""

    read: int = 0
    written: int = 0
    launches: int = 0
    kernels: set[str] = field(factory=set[str])

    @property
    def moved(self) -> int:
        """Bytes read and bytes written."""
        return self.read + self.written


class PartOfLibrary(ctypes.CDLL):
    """A source's share of a library, in which names of functions end in its number."""

    number: int = 0

    def __getitem__(self, name: Any) -> Any:
        return super().__getitem__(f"{name}_{self.number}")


def build_recorded(sources: Sequence[str]) -> list[ctypes.CDLL | CppBuildError]:
    """Return for each source its share of one library, which records.

    The kernels of two sources may have one name.
    """
    parts = [f'#include "{RECORDER}"\n']
    texts: list[str] = []
    for number, source in enumerate(sources):
        lines = source.splitlines(keepends=True)
        parts += [line for line in lines if line.startswith("#include")]
        body = "".join(line for line in lines if not line.startswith("#include"))
        names = dict.fromkeys(_ENTRY.findall(body))
        define = "".join(f"#define {name} {name}_{number}\n" for name in names)
        undefine = "".join(f"#undef {name}\n" for name in names)
        texts.append(f"{define}namespace part_{number} {{\n{body}\n}}\n{undefine}")
    text = "".join((*dict.fromkeys(parts), *texts))
    compiler = kernel_compiler()
    with TemporaryDirectory() as folder:
        place = Path(folder)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        (place / "kernels.cpp").write_text(text)
        compiler.run(
            [*_FLAGS, "-c", "kernels.cpp", "-o", "kernels.o"], place, "the kernels"
        )
        plain = Compiler(compiler.command[:1], compiler.version)
        plain.run(["kernels.o", *_LINKED, "-o", f"{name}.so"], place, "the kernels")
        found: list[ctypes.CDLL | CppBuildError] = []
        for number in range(len(sources)):
            part = PartOfLibrary(str(place / f"{name}.so"))
            part.number = number
            found.append(part)
    return found


class RecordedKernel(CppKernel):
    """A kernel that adds what its launches move to ``moved``."""

    moved: MovedBytes

    def __init__(self, definition: KernelDefinitionLine, library: ctypes.CDLL) -> None:
        super().__init__(definition, library)
        self._record_nothing = ctypes.CDLL.__getitem__(library, "record_nothing")
        self._record_region = ctypes.CDLL.__getitem__(library, "record_region")
        self._name = definition.name

    def launch(self, arguments: Sequence[torch.Tensor | Number]) -> None:
        regions: dict[int, int] = {}
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                storage = argument.untyped_storage()
                regions[storage.data_ptr()] = storage.nbytes()
        self._record_nothing()
        marks: list[torch.Tensor] = []
        for begin, size in regions.items():
            marks.append(torch.zeros(size, dtype=torch.uint8))
            self._record_region(
                ctypes.c_size_t(begin),
                ctypes.c_size_t(size),
                ctypes.c_size_t(marks[-1].data_ptr()),
            )
        super().launch(arguments)
        self.moved.read += sum(int((mark & 1).sum()) for mark in marks)
        self.moved.written += sum(int((mark >> 1).sum()) for mark in marks)
        self.moved.launches += 1
        self.moved.kernels.add(self._name)


@contextlib.contextmanager
def recording(moved: MovedBytes) -> Iterator[None]:
    """Have interpreters that first run inside build kernels that add to ``moved``."""
    kernel = type("Recorded", (RecordedKernel,), {"moved": moved})
    with (
        mock.patch("wrapperir.kernels.build_libraries", build_recorded),
        mock.patch("wrapperir.kernels.CppKernel", kernel),
    ):
        yield
