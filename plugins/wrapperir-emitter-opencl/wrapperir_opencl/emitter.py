"""The emitter: a C host program over the OpenCL API, without PyTorch at run time."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast
from weakref import WeakSet

from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.emit import Artifact, Emitter, Loaded, Support, write_artifact
from wrapperir.emit.partial_lines import declared_lines
from wrapperir.ir import Language, Program
from wrapperir_opencl.context import ALIGNMENT, DEVICE
from wrapperir_opencl.expressions import RUNTIME
from wrapperir_opencl.launches import COPY
from wrapperir_opencl.lines import OpenclLines
from wrapperir_opencl.load import LIBRARY, SIGNATURE, SOURCE, LoadError, compile_library
from wrapperir_opencl.load import Program as LoadedProgram

if TYPE_CHECKING:
    import torch

_LOADER = Path(__file__).with_name("load.py")

_LOADED: WeakSet[LoadedProgram] = WeakSet()
"""The programs that this process has loaded and may still call."""


class OpenclEmitter(Emitter):
    """Emits ``program.c``, with kernels in OpenCL C, and a loader for it.

    Kernels run on the device ``opencl``.  Tensors are there or on ``cpu``, and
    ``aten.copy_.default`` copies between both.  Inputs and outputs that a program has on
    the device are copied from the host's memory and to it.
    """

    name = "opencl"
    support = Support(
        lines=declared_lines(OpenclLines),
        languages=frozenset({Language.OPAQUE}),
        devices=frozenset({"cpu", DEVICE}),
        streams=frozenset({"cpu", DEVICE}),
        operators=frozenset({COPY}),
        hosted=frozenset({DEVICE}),
        greatest_alignment=ALIGNMENT,
        limits=("loops that stack their values",),
    )

    def emit(self, program: Program) -> Artifact:
        """Return ``program.c``, its header, its signature and ``load.py``.

        Raises:
            DiagnosticError: WIR705, something has no C; all such places are named.
        """
        from wrapperir_opencl.program_text import emit_program

        text = emit_program(program)
        files: dict[str, str | bytes] = {
            SOURCE: text.code,
            SIGNATURE: text.signature,
            RUNTIME.name: RUNTIME.read_text("utf-8"),
            _LOADER.name: _LOADER.read_text("utf-8"),
        }
        return Artifact(self.name, files, SOURCE)

    def shown_files(self, artifact: Artifact) -> Sequence[str]:
        """Return ``program.c``, which has the kernels."""
        return (artifact.entry,)

    def build(
        self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]
    ) -> Artifact:
        """Return the artifact with the library of the program.

        Raises:
            DiagnosticError: WIR709, the program does not compile.
        """
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "program"
            write_artifact(artifact, folder)
            try:
                compile_library(folder, folder / LIBRARY)
            except LoadError as error:
                raise Code.KERNEL_BUILD_FAILED.error(str(error)) from None
            content = (folder / LIBRARY).read_bytes()
        return evolve(artifact, files={**artifact.files, LIBRARY: content})

    def live_bytes(self, device: str) -> int | None:
        """Return the bytes that loaded programs hold on the device; ``None`` elsewhere."""
        if device != DEVICE:
            return None
        return sum(program.live_bytes for program in _LOADED)

    def load(self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]) -> Loaded:
        """Compile the program and its kernels for the first OpenCL device.

        Raises:
            DiagnosticError: WIR709, something does not compile, or there is no device.
        """
        from wrapperir_opencl.tensors import TorchArrays

        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "program"
            write_artifact(artifact, folder)
            try:
                program = LoadedProgram(folder, constants, TorchArrays())
            except LoadError as error:
                raise Code.KERNEL_BUILD_FAILED.error(str(error)) from None
        _LOADED.add(program)
        return cast(Loaded, program)
