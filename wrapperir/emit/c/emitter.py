"""The base of emitters whose programs are libraries in C or C++."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast
from weakref import WeakSet

from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.emit.artifact import write_artifact
from wrapperir.emit.c.lines import CLines
from wrapperir.emit.c.load_program import (
    LIBRARY,
    CompiledProgram,
    LoadError,
    MissingConstantError,
)
from wrapperir.emit.c.program_text import program_files
from wrapperir.emit.contract import Artifact, Emitter, Loaded
from wrapperir.ir import Program

if TYPE_CHECKING:
    import torch

_FLAGS = {"c": ("-xc", "-std=c11"), "cpp": ("-std=c++17",)}
_LOADED: dict[str, WeakSet[CompiledProgram]] = {}
"""The programs that this process has loaded and may still call, by emitter."""


class CEmitter(Emitter):
    """Emits a program in C or C++, with a loader that needs no PyTorch and no wrapperir.

    A subclass has ``name``, ``support`` and ``lines``.  The program is linked with
    ``libraries``, such as ``-lOpenCL``.
    """

    lines: ClassVar[type[CLines]]
    suffix: ClassVar[str] = "c"
    """The language that the program is compiled as: ``c`` or ``cpp``."""
    libraries: ClassVar[Sequence[str]] = ()

    def emit(self, program: Program) -> Artifact:
        """Return the program's text, its headers, kernels and signature, and the loader.

        Raises:
            DiagnosticError: WIR705, something has no C; all such places are named.
        """
        entry = f"program.{self.suffix}"
        files = program_files(program, self.lines, entry, self.name)
        return Artifact(self.name, files, entry)

    def build(
        self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]
    ) -> Artifact:
        """Return the artifact with the library of the program.

        Raises:
            DiagnosticError: WIR709, something does not compile.
        """
        from wrapperir.kernels import (
            build_kernels,
            compile_object,
            find_compiler,
            link_library,
        )

        files = {p: text for p, text in artifact.files.items() if isinstance(text, str)}
        headers = {path: text for path, text in files.items() if path.endswith(".h")}
        kernels = {
            path: text
            for path, text in files.items()
            if path.startswith("kernels/") and path.endswith(".cpp")
        }
        compiler, entry = find_compiler(), artifact.entry
        flags = (*_FLAGS[self.suffix], "-O2", "-fPIC", "-pthread")
        objects = [compile_object(compiler, entry, files[entry], headers, flags)]
        libraries = ["-Wl,--no-as-needed", *self.libraries, "-pthread"]
        if kernels:
            objects += build_kernels(kernels)
            libraries.append("-fopenmp")
        exported = ("wir_program_*",)
        path = link_library(compiler, self.name, objects, (), exported, libraries)
        return evolve(artifact, files={**artifact.files, LIBRARY: path.read_bytes()})

    def load(self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]) -> Loaded:
        """Return a callable over the library, which is compiled if it has to be.

        Raises:
            DiagnosticError: WIR709, something does not compile, or the driver cannot be
                opened; WIR707, a constant is missing.
        """
        from wrapperir.emit.c.torch_arrays import TorchArrays

        if LIBRARY not in artifact.files:
            artifact = self.build(artifact, constants)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "program"
            write_artifact(artifact, folder)  # a library stays mapped when its file is gone
            try:
                program = CompiledProgram(folder, constants, TorchArrays())
            except MissingConstantError as error:
                raise Code.MISSING_CONSTANT.error(str(error)) from None
            except LoadError as error:
                raise Code.KERNEL_BUILD_FAILED.error(str(error)) from None
        _LOADED.setdefault(self.name, WeakSet()).add(program)
        return cast(Loaded, program)

    def shown_files(self, artifact: Artifact) -> Sequence[str]:
        """Return the program, then the sources of kernels."""
        kernels = sorted(path for path in artifact.files if path.startswith("kernels/"))
        return (artifact.entry, *kernels)

    def live_bytes(self, device: str) -> int | None:
        """Return the bytes that loaded programs hold on the device; ``None`` elsewhere."""
        if device != self.lines.device or device == "cpu":
            return None
        return sum(program.live_bytes for program in _LOADED.get(self.name, ()))

    def peak_bytes(self, device: str) -> int | None:
        """Return the most bytes of the device since this was asked last."""
        if self.live_bytes(device) is None:
            return None
        return sum(program.take_peak() for program in _LOADED.get(self.name, ()))
