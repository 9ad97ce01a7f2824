# Inductor says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false
"""Triton for CPU tensors on a machine without a GPU: a driver that names a target."""

import contextlib
from collections.abc import Generator
from typing import Any

import torch
from torch._inductor import config


class _TargetOnlyDriver:
    """Answers what Inductor asks while it writes Triton; it cannot launch anything."""

    def get_current_target(self) -> Any:
        """Return the target that Inductor itself has most tests for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        """Return the only device."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Return where the tensors are."""
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Return torch's interface of the CPU."""
        return torch.cpu


@contextlib.contextmanager
def triton_for_cpu() -> Generator[None]:
    """Let Inductor write Triton for CPU tensors, where it is configured to.

    Only where no GPU is there does it set a driver of Triton's, and then it puts the
    one that was active back.
    """
    if config.cpu_backend != "triton" or torch.cuda.is_available():
        yield
        return
    from triton.runtime import driver

    active = driver._active
    stand_in: Any = _TargetOnlyDriver()
    driver.set_active(stand_in)
    try:
        yield
    finally:
        driver._active = active
