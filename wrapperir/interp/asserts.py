"""The four asserts of a running program."""

import torch
from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.emit.assert_messages import (
    alignment_message,
    layout_message,
    not_nan_message,
    scalar_message,
)
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
        given = actual.size, actual.stride
        message = layout_message(line, given, (size, stride))
        raise _failed(Code.RUN_ASSERT_SIZE_STRIDE, message, line.buffer)


def assert_alignment(line: AssertAlignmentLine, frame: Frame) -> None:
    """Raise a :class:`FaultError` unless the first element's address is aligned."""
    value = frame.tensor(line.buffer)
    if line.bytes <= 0 or value.tensor.data_ptr() % line.bytes:
        raise _failed(Code.RUN_ASSERT_ALIGNMENT, alignment_message(line), line.buffer)


def assert_scalar(line: AssertScalarLine, frame: Frame) -> None:
    """Raise a :class:`FaultError` where the condition is zero."""
    if not value_of(line.condition, frame.symbols):
        raise _failed(Code.RUN_ASSERT_SCALAR, scalar_message(line), None)


def assert_not_nan(line: AssertNotNanLine, frame: Frame) -> None:
    """Raise a :class:`FaultError` where an element is NaN, infinite or not written."""
    value = frame.tensor(line.buffer)
    value.require_written(line.buffer)
    tensor = value.tensor
    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()  # PyTorch tests no fp8
    if not bool(torch.isfinite(tensor).all()):
        raise _failed(Code.RUN_ASSERT_NOT_NAN, not_nan_message(line), line.buffer)


def _failed(code: Code, message: str, buffer: str | None) -> FaultError:
    return FaultError(code, message, subject=None if buffer is None else f"%{buffer}")
