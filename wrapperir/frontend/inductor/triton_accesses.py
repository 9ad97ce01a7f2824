# PyTorch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
"""What Triton kernels do with their tensors, as PyTorch finds in their code."""

from collections.abc import Mapping
from typing import Any
from unittest import mock

from torch._higher_order_ops import triton_kernel_wrap
from torch._inductor import config
from torch.utils import _triton

from wrapperir.frontend.inductor.cpu_triton import triton_for_cpu
from wrapperir.ir.kernel import Access

_FIND_ACCESSES: Any = getattr(triton_kernel_wrap, "identify_accessed_tensors", None)
_FIND_WRITTEN = "identify_mutated_tensors"  # what torch 2.11 has instead


def written_tensors(
    kernel: Any, arguments: Mapping[str, Any], descriptors: Any
) -> dict[str, Access]:
    """Return the access mode of each parameter that a kernel writes.

    ``arguments`` are what a call gives it, with fake tensors; ``descriptors`` is what the
    call says of tensor descriptors.  No GPU is needed.  Where PyTorch cannot tell, all
    tensors are read and written.
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
