"""What a kernel in OpenCL C is to this emitter, and its renderer."""

from wrapperir import ir as wir
from wrapperir.emit import Fragment
from wrapperir.emit.c.expressions import element_type

DEVICE = "opencl"
"""The kind of device that programs run on."""
LANGUAGE: tuple[str, wir.Constant] = ("opencl.language", "C 1.2")
"""Metadata of every kernel that this emitter takes: its source is OpenCL C."""
FAULT: tuple[str, wir.Constant] = ("opencl.fault", True)
"""Metadata of a kernel with two more arguments: where to write a number, and the number.

The kernel writes the number to a ``global int *`` if a check in it fails.
"""


def number_type(dtype: wir.DType) -> Fragment | None:
    """Return the C type of a number that kernels take, a byte for a bool."""
    return element_type(wir.DType.U8 if dtype is wir.DType.BOOL else dtype)
