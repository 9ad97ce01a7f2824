"""The four asserts of a running program."""

import torch
from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError
from wrapperir.interp.frame import Frame
from wrapperir.interp.layout import integer_of, same_elements, value_of
from wrapperir.ir import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
)


def assert_size_stride(line: AssertSizeStrideLine, frame: Frame) -> None:
    """Raise a :class:`FaultError` unless size, and strides that matter, are as stated."""
    actual = frame.tensor(line.buffer).layout
    size = tuple(integer_of(expr, frame.symbols) for expr in line.size)
    stride = tuple(integer_of(expr, frame.symbols) for expr in line.stride)
    wanted = evolve(actual, size=size, stride=stride)
    if len(size) != len(stride) or not same_elements(actual, wanted):
        found = f"%{line.buffer} is {actual}, not {wanted}"
        raise _failed(Code.RUN_ASSERT_SIZE_STRIDE, line.message, found, line.buffer)


def assert_alignment(line: AssertAlignmentLine, frame: Frame) -> None:
    """Raise a :class:`FaultError` unless the first element's address is aligned."""
    value = frame.tensor(line.buffer)
    if line.bytes <= 0 or value.tensor.data_ptr() % line.bytes:
        found = f"%{line.buffer} is not aligned to {line.bytes} bytes"
        raise _failed(Code.RUN_ASSERT_ALIGNMENT, line.message, found, line.buffer)


def assert_scalar(line: AssertScalarLine, frame: Frame) -> None:
    """Raise a :class:`FaultError` where the condition is zero."""
    if not value_of(line.condition, frame.symbols):
        found = "the condition does not hold"
        raise _failed(Code.RUN_ASSERT_SCALAR, line.message, found, None)


def assert_not_nan(line: AssertNotNanLine, frame: Frame) -> None:
    """Raise a :class:`FaultError` where an element is NaN, infinite or not written."""
    value = frame.tensor(line.buffer)
    value.require_written(line.buffer)
    tensor = value.tensor
    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()  # PyTorch tests no fp8
    if not bool(torch.isfinite(tensor).all()):
        found = f"%{line.buffer} holds NaN or infinity"
        raise _failed(Code.RUN_ASSERT_NOT_NAN, line.message, found, line.buffer)


def _failed(code: Code, message: str, found: str, buffer: str | None) -> FaultError:
    text = f"{message}: {found}" if message else found
    return FaultError(code, text, subject=None if buffer is None else f"%{buffer}")
