"""Triton kernels for CPU tensors on a machine without a GPU: driver and access modes."""

import contextlib
from collections.abc import Generator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._higher_order_ops import triton_kernel_wrap
from torch._inductor import config
from torch.utils import _triton

from wrapperir.ir import Access


@contextlib.contextmanager
def triton_for_cpu() -> Generator[None]:
    """Let Inductor write Triton for CPU tensors, where it is configured to.

    Without a GPU it sets a driver of Triton's, and restores the active one at the end.
    """
    if config.cpu_backend != "triton" or torch.cuda.is_available():
        yield
        return
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    active = driver._active
    # Enough for Inductor to write Triton kernels; it cannot launch them.
    stand_in: Any = SimpleNamespace(
        # The target that Inductor itself has most tests for.
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_active_torch_device=lambda: torch.device("cpu"),
        get_device_interface=lambda: torch.cpu,
    )
    driver.set_active(stand_in)
    try:
        yield
    finally:
        driver._active = active


_FIND_ACCESSES: Any = getattr(triton_kernel_wrap, "identify_accessed_tensors", None)
_FIND_WRITTEN = "identify_mutated_tensors"  # in torch 2.11


def written_tensors(
    kernel: Any, arguments: Mapping[str, Any], descriptors: Any
) -> dict[str, Access]:
    """Return the access mode of each parameter that a kernel writes.

    ``arguments`` are those of a call, with fake tensors; ``descriptors`` is the call's
    metadata of tensor descriptors.  No GPU is needed.  If PyTorch cannot tell, all tensors
    are read and written.
    """
    # Without a GPU, PyTorch would not know the descriptors among the arguments.
    knows_descriptors = mock.patch.object(
        _triton, "has_triton_tensor_descriptor_host_tma", return_value=bool(descriptors)
    )
    with config.patch("cpu_backend", "triton"), triton_for_cpu(), knows_descriptors:
        if _FIND_ACCESSES is None:
            names = getattr(triton_kernel_wrap, _FIND_WRITTEN)(
                kernel, dict(arguments), descriptors
            )
            return dict.fromkeys(names, Access.READ_WRITE)
        found = _FIND_ACCESSES(kernel, dict(arguments), descriptors)
    read = {access.name for access in found.read_writes.reads}
    return {
        access.name: Access.READ_WRITE if access.name in read else Access.WRITE
        for access in found.read_writes.writes
    }
