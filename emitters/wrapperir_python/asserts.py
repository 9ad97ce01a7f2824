"""Asserts in Python."""

from wrapperir.emit import fragment
from wrapperir.emit.assert_messages import (
    alignment_message,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.emit.python.expressions import format_int, format_string
from wrapperir.ir import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
)
from wrapperir_python.context import PythonContext
from wrapperir_python.streams import emit_actions


def emit_assert_size_stride(context: PythonContext, line: AssertSizeStrideLine) -> None:
    """Append a check of a layout."""
    check = fragment("torch._C._dynamo.guards.assert_size_stride")
    buffer = context.values[line.buffer]
    size = context.expressions.format_tuple(line.size)
    stride = context.expressions.format_tuple(line.stride)
    context.writer.emit_line(
        "try: {}({}, {}, {})",
        *(context.module.bind(check, "assert_size_stride"), buffer, size, stride),
    )
    context.writer.emit_line(
        "except AssertionError: {}({}, {}, {}, {})",
        *(context.module.need("refuse_layout"), buffer, size, stride),
        format_string(layout_subject(line)),
    )


def emit_assert_alignment(context: PythonContext, line: AssertAlignmentLine) -> None:
    """Append a check of an address."""
    # PyTorch's assert_alignment looks at the offset in the storage alone.
    context.writer.emit_line(
        "if {}.data_ptr() % {}: raise AssertionError({})",
        *(context.values[line.buffer], format_int(line.bytes)),
        format_string(alignment_message(line)),
    )


def emit_assert_scalar(context: PythonContext, line: AssertScalarLine) -> None:
    """Append a check of a condition."""
    context.writer.emit_line(
        "if not ({}): raise RuntimeError({})",
        context.expressions.format_condition(line.condition),
        format_string(scalar_message(line)),
    )


def emit_assert_not_nan(context: PythonContext, line: AssertNotNanLine) -> None:
    """Append a check of every element."""
    emit_actions(context, context.streams.join())
    buffer = context.values[line.buffer]
    if context.facts.tensor_type(line.buffer).dtype.value.startswith("f8"):
        buffer = fragment("{}.float()", buffer)  # isfinite takes no 8-bit floats
    context.writer.emit_line(
        "if not torch.isfinite({}).all(): raise AssertionError({})",
        *(buffer, format_string(not_nan_message(line))),
    )
