"""The C++ emitter: a shared library without Python, and what it needs beside it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from typing import TYPE_CHECKING, ClassVar, Self

from wrapperir.emit import (
    Artifact,
    ComingPrograms,
    DebugSource,
    Emitter,
    Loaded,
    Support,
)
from wrapperir.emit.line_record import active_record, recording_lines
from wrapperir.ir import Program
from wrapperir_cpp.device_table import CPU_TABLE, CUDA_TABLE, DeviceTable
from wrapperir_cpp.layout import LIBRARY, package_library

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from wrapperir_cpp.lines import CppLines


class CppEmitter(Emitter):
    """Emits C++ against PyTorch's stable C interface.

    An emitter for another device adds to ``devices`` and ``support``, and overrides
    :meth:`lines_class`.  With ``debug_info``, libraries are built with debug information.
    """

    devices: ClassVar[tuple[DeviceTable, ...]] = (CPU_TABLE, CUDA_TABLE)

    name = "cpp"
    support = Support(
        devices=frozenset({"cpu", "cuda"}),
        streams=frozenset({"cpu", "cuda"}),
        limits=("kernels in triton do not run on cpu", "kernels in cpp do not run on cuda"),
        descriptors=True,
        choosing=True,
        branching=True,
    )
    debug_info: DebugSource | None = None

    def debugging(self, source: DebugSource) -> Self:
        """Return this emitter, made to build libraries with debug information."""
        changed = copy(self)
        changed.debug_info = source
        return changed

    def cache_facts(self) -> str | None:
        """Return what debuggers step through."""
        return self.debug_info or ""

    def preparations(self, coming: ComingPrograms) -> Sequence[Callable[[], object]]:
        """Return the builds of the runtime, and the start of Triton's compiler."""
        from wrapperir_cpp.preparation import preparations  # it imports torch

        return preparations(self.devices, coming)

    def emit(self, program: Program) -> Artifact:
        """Return the artifact of :func:`~wrapperir_cpp.artifact_files.emit_artifact`."""
        # Imported late: finding any emitter imports this module.
        from wrapperir_cpp.artifact_files import emit_artifact

        if self.debug_info is None:
            return emit_artifact(program, self.name, self.devices, self.lines_class())
        from wrapperir_cpp.debug_information import add_debug_information

        outer = active_record()
        with recording_lines() if outer is None else nullcontext(outer) as record:
            artifact = emit_artifact(
                *(program, self.name, self.devices, self.lines_class()), debugged=True
            )
        return add_debug_information(artifact, program, self.debug_info, record)

    def lines_class(self) -> "type[CppLines]":
        """Return the class that emits lines; it is imported when it is needed."""
        from wrapperir_cpp.lines import CppLines

        return CppLines

    def build(
        self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]
    ) -> Artifact:
        """Return the artifact with its libraries, built as ``build_artifact`` does."""
        from wrapperir.kernels import targets_to_keep
        from wrapperir_cpp.build import build_artifact  # it imports torch

        return build_artifact(artifact, targets_to_keep(), self.emit)

    def package(self, directory: "Path", path: "Path") -> None:
        """Write a ``.pt2`` of PyTorch's, as ``package_library`` does."""
        package_library(directory, path)

    def load(self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]) -> Loaded:
        """Build the libraries if the artifact has none, and return the program.

        Raises:
            DiagnosticError: a constant is missing; WIR709, a source does not build; WIR710,
                the library does not load, or was built for another torch.
        """
        from wrapperir.kernels import targets_to_run
        from wrapperir_cpp import build, kept_builds  # they import torch
        from wrapperir_cpp.debug_information import with_shown_sources

        if LIBRARY in artifact.files:
            return build.load_library(artifact, constants)
        artifact = with_shown_sources(artifact)
        # A program of the CPU asks for no GPU, which a forked process may not use.
        targets = targets_to_run() if build.has_gpu_kernels(artifact.files) else ()
        key = kept_builds.build_key(artifact, targets, self)
        folder = None if key is None else kept_builds.kept_folder(key)
        if folder is not None:
            return build.load_folder(folder, constants)
        built = build.build_artifact(artifact, targets, self.emit)
        if key is None:
            return build.load_library(built, constants)
        folder = kept_builds.keep_folder(key, build.only_binaries(built))
        return build.load_folder(folder, constants)
