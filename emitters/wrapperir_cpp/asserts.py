"""Asserts in C++."""

from wrapperir.emit import fragment
from wrapperir.emit.assert_messages import (
    alignment_message,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.ir import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    DType,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_dtype, format_int, format_string
from wrapperir_cpp.memory import tensor_address, tensor_handle


def emit_assert_size_stride(context: Context, line: AssertSizeStrideLine) -> None:
    """Append ``num::assert_size_stride(c.t[x].get(), ints_8_8, ints_8_1, "%x", 3);``."""
    context.writer.emit_line(
        "num::assert_size_stride({}, {}, {}, {}, {});",
        *(tensor_handle(context, line.buffer), context.format_ints(line.size)),
        *(context.format_ints(line.stride), format_string(layout_subject(line))),
        context.line_number(),
    )


def emit_assert_alignment(context: Context, line: AssertAlignmentLine) -> None:
    """Append a check of an address."""
    context.writer.emit_line(
        "num::assert_alignment({}, {}, {}, {});",
        *(tensor_address(context, line.buffer), format_int(line.bytes)),
        *(format_string(alignment_message(line)), context.line_number()),
    )


def emit_assert_scalar(context: Context, line: AssertScalarLine) -> None:
    """Append a check of a condition, unless it is known to hold."""
    if context.expressions.constant(line.condition):
        return
    context.writer.emit_line(
        'if (!({})) fail({}, "%s", {});',
        *(context.expressions.format_condition(line.condition), context.line_number()),
        format_string(scalar_message(line)),
    )


def emit_assert_not_nan(context: Context, line: AssertNotNanLine) -> None:
    """Append a check of every element; ints have no NaN."""
    type = context.facts.tensor_type(line.buffer)
    dtype = type.dtype
    if not (dtype.is_float or dtype.value.startswith("c")):
        return
    what = format_string(not_nan_message(line))
    on_cpu = type.device.kind == "cpu"
    if dtype is DType.F4E2M1FN_X2 or (dtype.value.startswith("f8") and not on_cpu):
        context.report(
            f"elements of {dtype} on {type.device} cannot be checked", line.buffer
        )
    elif on_cpu:
        context.writer.emit_line(
            "num::assert_finite({}, {}, {}, {}, {}, {});",
            *(tensor_address(context, line.buffer), format_dtype(dtype)),
            *(context.format_ints(type.size), context.format_ints(type.stride)),
            *(what, context.line_number()),
        )
    else:
        function = fragment("aoti_torch_check_inf_and_nan")
        context.module.declare(
            fragment("AOTITorchError {}(const char*, AtenTensorHandle)", function)
        )
        context.writer.emit_line(
            "check({}({}, {}), {});",
            *(function, what, tensor_handle(context, line.buffer), context.line_number()),
        )
