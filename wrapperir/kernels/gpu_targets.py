# torch gives the properties of devices no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""The GPUs that Triton kernels are compiled for."""

import re

from attrs import field, frozen
from attrs.validators import matches_re

_HIP_WITH_32_LANES = re.compile(r"gfx1\d{3}")


@frozen
class Target:
    """An architecture: ``sm_90`` of CUDA, by its capability, or ``gfx942`` of HIP."""

    name: str = field(validator=matches_re(r"sm_\d+|gfx[0-9a-f]+"))

    @property
    def backend(self) -> str:
        """Triton's name of the vendor's interface."""
        return "hip" if self.name.startswith("gfx") else "cuda"

    @property
    def capability(self) -> int:
        """The compute capability of CUDA: 90 for 9.0; 0 for HIP."""
        return int(self.name.removeprefix("sm_")) if self.backend == "cuda" else 0

    @property
    def architecture(self) -> int | str:
        """The architecture as Triton takes it."""
        return self.capability or self.name

    @property
    def lanes(self) -> int:
        """Threads of a warp."""
        is_wide = self.backend == "hip" and not _HIP_WITH_32_LANES.fullmatch(self.name)
        return 64 if is_wide else 32

    @property
    def suffix(self) -> str:
        """The ending of a compiled kernel's file."""
        return "hsaco" if self.backend == "hip" else "cubin"

    @property
    def is_exact(self) -> bool:
        """Whether later GPUs cannot run its code; Triton uses features that they lack."""
        return self.backend == "hip" or self.capability >= 90


DEFAULT_TARGETS = tuple(map(Target, ("sm_80", "sm_90", "sm_100", "gfx942")))
"""Targets of programs that are built to be kept."""


def present_targets() -> tuple[Target, ...]:
    """Return the targets of this machine's GPUs, each once."""
    import torch  # loaded late: a target's name needs no torch

    if not torch.cuda.is_available():
        return ()
    found: dict[Target, None] = {}
    for index in range(torch.cuda.device_count()):
        if torch.version.hip is None:
            major, minor = torch.cuda.get_device_capability(index)
            found[Target(f"sm_{major}{minor}")] = None
        else:
            properties = torch.cuda.get_device_properties(index)
            found[Target(properties.gcnArchName.partition(":")[0])] = None
    return tuple(found)


def targets_to_keep() -> tuple[Target, ...]:
    """Return the targets of a program that is kept: the default and present ones."""
    return tuple(dict.fromkeys((*DEFAULT_TARGETS, *present_targets())))


def targets_to_run() -> tuple[Target, ...]:
    """Return the targets of a program that runs here; the default without a GPU."""
    return present_targets() or DEFAULT_TARGETS
