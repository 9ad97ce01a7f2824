"""The C++ emitter with the simulated accelerator, and the renderer of its kernels."""

from pathlib import Path
from typing import ClassVar

from attrs import evolve

from wrapperir.ir import Language
from wrapperir.lowering.cpp import CppRenderer
from wrapperir_cpp.device_table import CPU_TABLE, DeviceTable, privateuse1_table
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.kernels import KernelLanguages, launched_kernels
from wrapperir_cpp.lines import CppLines

_FOLDER = Path(__file__).parent


class SimRenderer(CppRenderer):
    """Writes C++ kernels for the simulated accelerator."""

    device_kinds: ClassVar[frozenset[str]] = frozenset({"sim"})


class SimLines(CppLines):
    """C++ kernels run on the device, too."""

    languages: ClassVar[KernelLanguages] = {
        **CppLines.languages,
        ("sim", Language.CPP): launched_kernels("sim::launch"),
    }


class SimEmitter(CppEmitter):
    """Emits C++ for the CPU and the simulated accelerator."""

    name = "sim"
    devices: ClassVar[tuple[DeviceTable, ...]] = (
        CPU_TABLE,
        privateuse1_table(
            "sim",
            ("sim_launch.h",),
            (_FOLDER / "sim_launch.h",),
            ("sim",),
        ),
    )
    support = evolve(
        CppEmitter.support,
        languages=frozenset({Language.CPP}),
        devices=frozenset({"cpu", "sim"}),
        streams=frozenset({"cpu", "sim"}),
        descriptors=False,
        graphs=frozenset({"sim"}),
        recorded=frozenset(),
    )

    def live_bytes(self, device: str) -> int | None:
        """Return the bytes in use on the device ``sim``; ``None`` for others."""
        import torch

        return torch.ops.sim.live_bytes() if device == "sim" else None

    def peak_bytes(self, device: str) -> int | None:
        """Return the most bytes in use on the device ``sim`` since this was asked last."""
        import torch

        return torch.ops.sim.peak_bytes() if device == "sim" else None

    def lines_class(self) -> type[CppLines]:
        """Return the class that emits lines."""
        return SimLines
