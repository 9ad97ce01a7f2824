"""Asserts in Python."""

from typing import TYPE_CHECKING

from wrapperir.emit.fragment import fragment
from wrapperir.ir.line import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
)
from wrapperir.ir.types import DType, TensorType
from wrapperir_python.literals import format_int, format_string

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines

_NARROW_FLOATS = frozenset(dtype for dtype in DType if dtype.value.startswith("f8"))


def emit_assert_size_stride(lines: "PythonLines", line: AssertSizeStrideLine) -> None:
    """Append a check of a layout."""
    function = lines.module.bind(
        fragment("torch._C._dynamo.guards.assert_size_stride"), "assert_size_stride"
    )
    lines.writer.emit_line(
        "{}({}, {}, {}, {})",
        *(function, lines.values[line.buffer]),
        lines.expressions.format_tuple(line.size),
        lines.expressions.format_tuple(line.stride),
        format_string(line.message),
    )


def emit_assert_alignment(lines: "PythonLines", line: AssertAlignmentLine) -> None:
    """Append a check of an address."""
    # PyTorch's assert_alignment looks at the offset in the storage alone.
    count = format_int(line.bytes)
    message = line.message or f"{line.buffer} is not aligned to {line.bytes} bytes"
    lines.writer.emit_line(
        "if {}.data_ptr() % {}: raise AssertionError({})",
        *(lines.values[line.buffer], count, format_string(message)),
    )


def emit_assert_scalar(lines: "PythonLines", line: AssertScalarLine) -> None:
    """Append a check of a condition."""
    lines.writer.emit_line(
        "if not ({}): raise RuntimeError({})",
        lines.expressions.format_condition(line.condition),
        format_string(line.message or "a condition of the program does not hold"),
    )


def emit_assert_not_nan(lines: "PythonLines", line: AssertNotNanLine) -> None:
    """Append a check of every element."""
    lines.streams.emit_wait_for_all()
    buffer = lines.values[line.buffer]
    type = lines.types.get(line.buffer)
    if isinstance(type, TensorType) and type.dtype in _NARROW_FLOATS:
        buffer = fragment("{}.float()", buffer)  # isfinite takes no 8-bit floats
    message = line.message or f"{line.buffer} has a NaN or an infinity"
    lines.writer.emit_line(
        "if not torch.isfinite({}).all(): raise AssertionError({})",
        *(buffer, format_string(message)),
    )
