"""The messages of failed asserts and checks of symbols.

They are the same in every emitter and in the interpreter.
"""

from collections.abc import Sequence

from wrapperir.ir import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    Number,
)


def alignment_message(line: AssertAlignmentLine) -> str:
    """Return the message where a buffer's address is not aligned."""
    return _joined(line.message, f"%{line.buffer} is not aligned to {line.bytes} bytes")


def scalar_message(line: AssertScalarLine) -> str:
    """Return the message where a condition does not hold: the program's own, if any.

    Code that Inductor emits says no more either.
    """
    return line.message or "the condition does not hold"


def not_nan_message(line: AssertNotNanLine) -> str:
    """Return the message where an element is NaN or infinite."""
    return _joined(line.message, f"%{line.buffer} holds NaN or infinity")


def layout_subject(line: AssertSizeStrideLine) -> str:
    """Return the start of the message where a buffer has another layout.

    Emitted code adds `` has size [4] and stride [1], not [8] and [1]``.
    """
    return _joined(line.message, f"%{line.buffer}")


def format_layout_mismatch(
    subject: str,
    found: tuple[Sequence[int], Sequence[int]],
    wanted: tuple[Sequence[int], Sequence[int]],
) -> str:
    """Return the message of a layout that differs, after its ``subject``."""
    size, stride = map(list, found)
    wanted_size, wanted_stride = map(list, wanted)
    return (
        f"{subject} has size {size} and stride {stride},"
        f" not {wanted_size} and {wanted_stride}"
    )


def format_range(name: str, lower: int | None, upper: int | None) -> str:
    """Return ``u0 >= 2 and u0 <= 10``; a bound that is ``None`` is left out."""
    bounds = (">=", lower), ("<=", upper)
    return " and ".join(f"{name} {sign} {end}" for sign, end in bounds if end is not None)


def format_range_mismatch(
    name: str, value: Number, lower: int | None, upper: int | None
) -> str:
    """Return the message of a symbol whose value is outside its range.

    The words are those of PyTorch's compiled C++: ``Expected u0 <= 5 but received 10``.
    """
    return f"Expected {format_range(name, lower, upper)} but received {value}"


def _joined(message: str, found: str) -> str:
    return f"{message}: {found}" if message else found
