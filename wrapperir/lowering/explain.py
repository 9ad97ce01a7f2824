"""Decisions of scheduling, as data and as text."""

from collections.abc import Iterable
from enum import StrEnum

from attrs import frozen


class DecisionKind(StrEnum):
    """What was decided about two items."""

    FUSE = "fuse"
    INLINE = "inline"
    KEEP = "keep"


@frozen(kw_only=True)
class FusionDecision:
    """A decision about two items that share memory.

    ``first`` and ``second`` are the nests that the items are fused of, and the buffers that
    were inlined into them; ``first`` of what is inlined is a buffer.  ``bytes`` is the
    memory traffic that putting them into one kernel saves, or would save; ``reason`` says
    why they stay apart.
    """

    kind: DecisionKind
    first: tuple[str, ...]
    second: tuple[str, ...]
    bytes: int
    reason: str = ""


_WORDS = {
    DecisionKind.FUSE: ("fused", "+"),
    DecisionKind.INLINE: ("inlined", "into"),
    DecisionKind.KEEP: ("not fused", "+"),
}


def format_decisions(decisions: Iterable[FusionDecision]) -> str:
    """Return a line for each decision."""
    lines: list[str] = []
    for decision in decisions:
        verb, word = _WORDS[decision.kind]
        names = f"{_format_names(decision.first)} {word} {_format_names(decision.second)}"
        line = f"{verb}: {names}, {format_bytes(decision.bytes)}"
        lines.append(f"{line}: {decision.reason}" if decision.reason else line)
    return "".join(f"{line}\n" for line in lines)


def _format_names(names: tuple[str, ...]) -> str:
    shown = " ".join(names[-3:])
    return f"… {shown}" if len(names) > 3 else shown


def format_bytes(count: int) -> str:
    """Return a number of bytes in the largest unit of which there is one at least."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
