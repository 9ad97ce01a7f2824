"""Asserts in C++."""

from typing import TYPE_CHECKING

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.ir.line import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
)
from wrapperir.ir.types import DType, TensorType
from wrapperir_cpp.literals import format_int, format_string
from wrapperir_cpp.memory import format_dtype

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines


def emit_assert_size_stride(lines: "CppLines", line: AssertSizeStrideLine) -> None:
    """Append ``num::assert_size_stride(c.t[x].get(), ints_8_8, ints_8_1, "%x", 3);``."""
    lines.writer.emit_line(
        "num::assert_size_stride({}, {}, {}, {}, {});",
        *(lines.handle(line.buffer), lines.memory.format_ints(line.size)),
        *(lines.memory.format_ints(line.stride), _message(line.message, f"%{line.buffer}")),
        lines.line_number(),
    )


def emit_assert_alignment(lines: "CppLines", line: AssertAlignmentLine) -> None:
    """Append a check of an address."""
    found = f"%{line.buffer} is not aligned to {line.bytes} bytes"
    lines.writer.emit_line(
        "num::assert_alignment({}, {}, {}, {});",
        *(lines.address(line.buffer), format_int(line.bytes)),
        *(_message(line.message, found), lines.line_number()),
    )


def emit_assert_scalar(lines: "CppLines", line: AssertScalarLine) -> None:
    """Append a check of a condition, unless it is known to hold."""
    if lines.expressions.constant(line.condition):
        return
    lines.writer.emit_line(
        'if (!({})) fail({}, "%s", {});',
        *(lines.expressions.format_condition(line.condition), lines.line_number()),
        _message(line.message, "the condition does not hold"),
    )


def emit_assert_not_nan(lines: "CppLines", line: AssertNotNanLine) -> None:
    """Append a check of every element; ints have no NaN."""
    type = lines.static_type(line.buffer)
    assert isinstance(type, TensorType)  # verified
    dtype = type.dtype
    if not (dtype.is_float or dtype.value.startswith("c")):
        return
    what = _message(line.message, f"%{line.buffer} holds NaN or infinity")
    on_cpu = type.device.kind == "cpu"
    if dtype is DType.F4E2M1FN_X2 or (dtype.value.startswith("f8") and not on_cpu):
        lines.report(f"elements of {dtype} on {type.device} cannot be checked", line.buffer)
    elif on_cpu:
        lines.writer.emit_line(
            "num::assert_finite({}, {}, {}, {}, {}, {});",
            *(lines.address(line.buffer), format_dtype(dtype)),
            *(lines.memory.format_ints(type.size), lines.memory.format_ints(type.stride)),
            *(what, lines.line_number()),
        )
    else:
        function = fragment("aoti_torch_check_inf_and_nan")
        lines.module.declare(
            fragment("AOTITorchError {}(const char*, AtenTensorHandle)", function)
        )
        lines.writer.emit_line(
            "check({}({}, {}), {});",
            *(function, what, lines.handle(line.buffer), lines.line_number()),
        )


def _message(message: str, found: str) -> Fragment:
    return format_string(f"{message}: {found}" if message else found)
