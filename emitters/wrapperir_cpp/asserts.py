"""Asserts in C++."""

from wrapperir.emit import Fragment, fragment
from wrapperir.ir import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    DType,
    TensorType,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_dtype, format_int, format_string
from wrapperir_cpp.memory import tensor_address, tensor_handle


def emit_assert_size_stride(context: Context, line: AssertSizeStrideLine) -> None:
    """Append ``num::assert_size_stride(c.t[x].get(), ints_8_8, ints_8_1, "%x", 3);``."""
    context.writer.emit_line(
        "num::assert_size_stride({}, {}, {}, {}, {});",
        *(tensor_handle(context, line.buffer), context.format_ints(line.size)),
        *(context.format_ints(line.stride), _message(line.message, f"%{line.buffer}")),
        context.line_number(),
    )


def emit_assert_alignment(context: Context, line: AssertAlignmentLine) -> None:
    """Append a check of an address."""
    found = f"%{line.buffer} is not aligned to {line.bytes} bytes"
    context.writer.emit_line(
        "num::assert_alignment({}, {}, {}, {});",
        *(tensor_address(context, line.buffer), format_int(line.bytes)),
        *(_message(line.message, found), context.line_number()),
    )


def emit_assert_scalar(context: Context, line: AssertScalarLine) -> None:
    """Append a check of a condition, unless it is known to hold."""
    if context.expressions.constant(line.condition):
        return
    context.writer.emit_line(
        'if (!({})) fail({}, "%s", {});',
        *(context.expressions.format_condition(line.condition), context.line_number()),
        _message(line.message, "the condition does not hold"),
    )


def emit_assert_not_nan(context: Context, line: AssertNotNanLine) -> None:
    """Append a check of every element; ints have no NaN."""
    type = context.facts.types[line.buffer]
    assert isinstance(type, TensorType)  # verified
    dtype = type.dtype
    if not (dtype.is_float or dtype.value.startswith("c")):
        return
    what = _message(line.message, f"%{line.buffer} holds NaN or infinity")
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


def _message(message: str, found: str) -> Fragment:
    return format_string(f"{message}: {found}" if message else found)
