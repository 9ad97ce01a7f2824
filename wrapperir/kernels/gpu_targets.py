# torch says nothing of what its properties of devices are.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""The GPUs that Triton kernels are compiled for."""

import re
from collections.abc import Iterable

from attrs import frozen

from wrapperir.diagnostics import Code

_CUDA = re.compile(r"sm_(\d+)")
_HIP = re.compile(r"gfx[0-9a-f]+")
_FIRST_EXACT = 90
_LANES = {"cuda": 32, "hip": 64}
_HIP_WITH_32_LANES = re.compile(r"gfx1\d{3}")


@frozen
class Target:
    """An architecture: ``sm_90`` of CUDA, by its capability, or ``gfx942`` of HIP."""

    name: str

    @property
    def backend(self) -> str:
        """What Triton calls the vendor's interface."""
        return "hip" if _HIP.fullmatch(self.name) else "cuda"

    @property
    def capability(self) -> int:
        """The compute capability of CUDA: 90 for 9.0; 0 for HIP."""
        found = _CUDA.fullmatch(self.name)
        return int(found[1]) if found else 0

    @property
    def architecture(self) -> int | str:
        """What Triton is told."""
        return self.capability or self.name

    @property
    def lanes(self) -> int:
        """Threads of a warp."""
        return 32 if _HIP_WITH_32_LANES.fullmatch(self.name) else _LANES[self.backend]

    @property
    def suffix(self) -> str:
        """How a compiled kernel's file ends."""
        return "hsaco" if self.backend == "hip" else "cubin"

    @property
    def is_exact(self) -> bool:
        """Whether code for it runs on no later GPU; Triton uses all of what is new."""
        return self.backend == "hip" or self.capability >= _FIRST_EXACT


DEFAULT_TARGETS = tuple(map(Target, ("sm_80", "sm_90", "sm_100", "gfx942")))
"""What a program that is built to be kept has kernels for."""


def parse_targets(names: Iterable[str]) -> tuple[Target, ...]:
    """Return the targets of these names, each once.

    Raises:
        DiagnosticError: WIR709, a name is of no known form.
    """
    targets: dict[Target, None] = {}
    for name in names:
        if not (_CUDA.fullmatch(name) or _HIP.fullmatch(name)):
            raise Code.KERNEL_BUILD_FAILED.error(
                f"{name[:80]!a} is no target for kernels",
                hint="targets are such as sm_90 and gfx942",
            )
        targets[Target(name)] = None
    return tuple(targets)


def present_targets() -> tuple[Target, ...]:
    """Return the targets of this machine's GPUs, each once; none where there are none."""
    import torch  # loaded late: naming targets needs none

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
    """Return the targets of a program that is built to be kept: the default, and these."""
    return tuple(dict.fromkeys((*DEFAULT_TARGETS, *present_targets())))


def targets_to_run() -> tuple[Target, ...]:
    """Return the targets of a program that runs here: the default without a GPU."""
    return present_targets() or DEFAULT_TARGETS
