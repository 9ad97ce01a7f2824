"""The normal form of a text that keeps its remarks, and the blocks that can be folded."""

from collections.abc import Iterator, Mapping

from wrapperir.diagnostics import LinePath, Position
from wrapperir.text import format_with_positions, parse_with_positions
from wrapperir.text.cursor import Cursor
from wrapperir.text.line_source import opens_block


def format_text(text: str) -> str:
    """Return the program that a text spells in its normal form.

    A remark on a line of its own stays before the line that it precedes, and another one
    stays at the end of its line.

    Raises:
        DiagnosticError: the text is malformed.
    """
    parsed = parse_with_positions(text)
    made, positions = format_with_positions(parsed.program)
    remarks = _remarks(text)
    if not remarks:
        return made
    old_lines = _first_paths(parsed.positions)
    new_lines = {path: at.line - 1 for path, at in positions.items()}
    lines = made.rstrip("\n").split("\n")
    before: dict[int, list[str]] = {}
    for number, (remark, is_alone) in remarks.items():
        path = next((old_lines[n] for n in sorted(old_lines) if n >= number), None)
        if not is_alone and number in old_lines:
            lines[new_lines[old_lines[number]]] += f"  {remark}"
        elif path is None:
            before.setdefault(len(lines), []).append(remark)
        else:
            at = new_lines[path]
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            before.setdefault(at, []).append(indent + remark)
    kept: list[str] = []
    for number, line in enumerate([*lines, None]):
        kept += before.get(number, ())
        kept += [] if line is None else [line]
    return "\n".join(kept) + "\n"


def _remarks(text: str) -> dict[int, tuple[str, bool]]:
    """Return the remark of each line that has one, and whether it is alone there."""
    found: dict[int, tuple[str, bool]] = {}
    for number, line in enumerate(text.split("\n")):
        if "#" not in line or line.lstrip().startswith("|"):
            continue
        cursor = Cursor(line)
        end = 0
        while cursor.kind != "end":
            end = cursor.end
            cursor.advance()
        rest = line[end:].strip()
        if rest:
            found[number] = (rest, end == 0)
    return found


def _first_paths(positions: Mapping[LinePath, Position]) -> dict[int, LinePath]:
    """Return the part that each line of a text begins with."""
    first: dict[int, tuple[int, LinePath]] = {}
    for path, at in positions.items():
        known = first.get(at.line - 1)
        if known is None or at.column < known[0]:
            first[at.line - 1] = (at.column, path)
    return {number: path for number, (_, path) in first.items()}


def find_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last line, counted from 0, of each block of a text."""
    opened: list[int] = []
    for number, line in enumerate(text.split("\n")):
        code = line.strip()
        if code.startswith("|"):
            continue
        if code.startswith("}") and opened:
            yield opened.pop(), number
        if opens_block(code):
            opened.append(number)
