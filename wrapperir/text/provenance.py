"""Parsers of the end of a line: its provenance, and the brace of a line with blocks."""

from wrapperir.ir import Provenance, SourceLocation
from wrapperir.text.cursor import Cursor
from wrapperir.text.literals import parse_integer, parse_string


def parse_provenance(cursor: Cursor) -> Provenance | None:
    """Take ``from(nodes("a"), operator("b"), at("file.py", 1))`` if it is next."""
    return _parse_parts(cursor) if cursor.accept("from") else None


def _parse_parts(cursor: Cursor) -> Provenance:
    nodes: tuple[str, ...] = ()
    operator: str | None = None
    location: SourceLocation | None = None
    cursor.expect("(")
    stage = 0
    while not (stage == 0 and cursor.next == ")"):
        if stage < 1 and cursor.accept("nodes"):
            stage = 1
            cursor.expect("(")
            nodes = cursor.listed(parse_string, ")")
        elif stage < 2 and cursor.accept("operator"):
            stage = 2
            cursor.expect("(")
            operator = parse_string(cursor)
            cursor.expect(")")
        elif stage < 3 and cursor.accept("at"):
            stage = 3
            location = _location(cursor)
        else:
            raise cursor.unexpected(" or ".join(_PARTS[stage:]) or "`)`")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return Provenance(nodes=nodes, operator=operator, location=location)


_PARTS = ("`nodes`", "`operator`", "`at`")


def _location(cursor: Cursor) -> SourceLocation:
    cursor.expect("(")
    file = parse_string(cursor)
    cursor.expect(",")
    line = parse_integer(cursor)
    cursor.expect(")")
    return SourceLocation(file, line)


def parse_ending(cursor: Cursor) -> Provenance | None:
    """Take the provenance, if any, and the end of the line."""
    if cursor.next != "from":
        cursor.expect_end()
        return None
    spelling = cursor.text[cursor.start :]
    provenances = cursor.memo.provenances
    provenance = provenances.get(spelling)
    if provenance is None:
        cursor.advance()
        provenance = _parse_parts(cursor)
        cursor.expect_end()
        provenances[spelling] = provenance
    return provenance


def parse_opening(cursor: Cursor) -> Provenance | None:
    """Take the provenance, if any, the brace of a block and the end of the line."""
    provenance = parse_provenance(cursor)
    cursor.expect("{")
    cursor.expect_end()
    return provenance
