"""Checks of assert lines."""

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    TensorType,
)
from wrapperir.verify.comparison import certainly_differ
from wrapperir.verify.layouts import is_power_of_two
from wrapperir.verify.names import use_expression, use_tensor
from wrapperir.verify.state import State, defined_note
from wrapperir.verify.written_bytes import check_read


def check_assert_size_stride(state: State, line: AssertSizeStrideLine) -> None:
    """Check the ranks, and that the declared type does not make the assert fail."""
    for expr in (*line.size, *line.stride):
        use_expression(state, expr)
    value = use_tensor(state, line.buffer)
    if len(line.size) != len(line.stride):
        state.report(
            Code.RANK_MISMATCH,
            f"the assert's size has {len(line.size)} dimensions, its stride "
            f"{len(line.stride)}",
        )
        return
    if value is None or value.facts.faults:
        return
    type = value.type
    assert isinstance(type, TensorType)
    layouts = state.layouts
    if len(type.size) != len(line.size):
        found = f"%{line.buffer} has {len(type.size)} dimensions, not {len(line.size)}"
    elif any(
        certainly_differ(layouts, a, b) for a, b in zip(type.size, line.size, strict=True)
    ):
        found = f"%{line.buffer} has another size"
    elif not value.facts.empty and any(
        certainly_differ(layouts, size, 0)
        and certainly_differ(layouts, size, 1)
        and certainly_differ(layouts, a, b)
        for size, a, b in zip(type.size, type.stride, line.stride, strict=True)
    ):
        found = f"%{line.buffer} has another stride"
    else:
        return
    state.report(
        Code.FALSE_ASSERT,
        f"the assert contradicts the declared type: {found}",
        f"%{line.buffer}",
        notes=(defined_note(value),),
    )


def check_assert_alignment(state: State, line: AssertAlignmentLine) -> None:
    """Check the tensor, and that the alignment is a power of two."""
    use_tensor(state, line.buffer)
    if not is_power_of_two(line.bytes):
        state.report(
            Code.INVALID_ALIGNMENT,
            f"the alignment {line.bytes} is not a power of two",
            str(line.bytes),
        )


def check_assert_scalar(state: State, line: AssertScalarLine) -> None:
    """Check the condition's symbols."""
    use_expression(state, line.condition)


def check_assert_not_nan(state: State, line: AssertNotNanLine) -> None:
    """Check the tensor, whose elements the host reads."""
    value = use_tensor(state, line.buffer)
    if value is not None:
        check_read(state, value, "the assert reads")
