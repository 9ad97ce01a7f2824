"""The C++ emitter: a shared library without Python, and what it needs beside it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wrapperir.emit.contract import Artifact, Emitter, Loaded, Support
from wrapperir.ir.program import Program

if TYPE_CHECKING:
    import torch


class CppEmitter(Emitter):
    """Emits C++ against PyTorch's stable C interface."""

    name = "cpp"
    support = Support(
        devices=frozenset({"cpu", "cuda"}), streams=frozenset({"cpu", "cuda"})
    )

    def emit(self, program: Program) -> Artifact:
        """Return ``program.cpp`` and what it is compiled with."""
        raise NotImplementedError

    def build(
        self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]
    ) -> Artifact:
        """Return the artifact with its library, kernels and constants."""
        raise NotImplementedError

    def load(self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]) -> Loaded:
        """Build the library if the artifact has none, and return the program."""
        raise NotImplementedError
