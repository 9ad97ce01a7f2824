"""What differs between the releases of Inductor that the adapter works on.

2.13 is what it is tested on.  2.11 writes checks of sizes as text, those of inputs before
everything else, and has no call that writes several outputs.
"""

from typing import Any

from torch._inductor import ir
from torch._inductor.codegen import wrapper

EXTERN_MULTI_OUT_LINE: type[Any] | None = getattr(wrapper, "ExternKernelMultiOutLine", None)
"""The line of a call that writes to several buffers, where there is one."""

DEFERS_INPUT_CHECKS = hasattr(
    wrapper.PythonWrapperCodegen, "codegen_deferred_input_asserts"
)
"""Whether the scheduler asks for an input's check before the input's first use."""

_SIZE_CHECK = "assert_size_stride("


def is_size_check(text: object, node: object) -> bool:
    """Say whether ``text`` is the check of a node's size and stride, as 2.11 writes it."""
    return (
        isinstance(text, str)
        and text.startswith(_SIZE_CHECK)
        and isinstance(node, ir.ExternKernel)
    )
