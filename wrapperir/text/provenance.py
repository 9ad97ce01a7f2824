"""Parsing of the provenance at the end of a line, and of names of origins."""

from wrapperir.diagnostics import Code
from wrapperir.ir import Provenance, is_origin
from wrapperir.text.cursor import Cursor
from wrapperir.text.limits import quoted
from wrapperir.text.literals import parse_integer


def parse_ending(cursor: Cursor) -> Provenance | None:
    """Take the provenance, if any, and the end of the line."""
    if cursor.next not in _WORDS:
        cursor.expect_end()
        return None
    spelling = cursor.text[cursor.start :]
    provenances = cursor.memo.provenances
    provenance = provenances.get(spelling)
    if provenance is None:
        provenance = _parse_provenance(cursor)
        cursor.expect_end()
        provenances[spelling] = provenance
    return provenance


def parse_opening(cursor: Cursor) -> Provenance | None:
    """Take the provenance, if any, the brace of a block and the end of the line."""
    provenance = _parse_provenance(cursor) if cursor.next in _WORDS else None
    cursor.expect("{")
    cursor.expect_end()
    return provenance


def names_origins(cursor: Cursor) -> bool:
    """Return whether ``from`` and a parenthesis are next."""
    return cursor.next == "from" and cursor.text[cursor.end :].lstrip(" \t")[:1] == "("


def parse_given(cursor: Cursor) -> Provenance | None:
    """Take the provenance of an input, if any."""
    return _parse_provenance(cursor) if cursor.next in _WORDS else None


_WORDS = ("from", "by")


def _parse_provenance(cursor: Cursor) -> Provenance:
    """Take ``from(mm, relu) by(tile_products)``.  Either part may be missing."""
    origins: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    if cursor.accept("from"):
        cursor.expect("(")
        if is_numbered(cursor, "fused"):
            origins = _parse_fused(cursor)
            cursor.expect(")")
        else:
            origins = cursor.listed(parse_origin, ")")
    if cursor.accept("by"):
        cursor.expect("(")
        if cursor.next == ")":
            raise cursor.unexpected("the name of a pass")
        passes = cursor.listed(lambda cursor: cursor.name("the name of a pass"), ")")
    return Provenance(origins=origins, passes=passes)


def is_numbered(cursor: Cursor, word: str) -> bool:
    """Return whether ``word`` and a number are next."""
    return cursor.next == word and cursor.text[cursor.end :].lstrip(" \t")[:1].isdecimal()


def _parse_fused(cursor: Cursor) -> tuple[str, ...]:
    cursor.advance()
    start, end = cursor.start, cursor.end
    number = parse_integer(cursor)
    lists = cursor.memo.fused
    if not 0 <= number < len(lists):
        error = cursor.malformed(
            Code.UNKNOWN_WORD,
            f"`origins` has no list `fused {quoted(str(number))[1:-1]}`",
            "list it in the section `origins` after the program, or write its names here",
        )
        error.start, error.end = start, end
        raise error
    return lists[number]


def parse_origin(cursor: Cursor) -> str:
    """Take the name of an origin."""
    if cursor.kind != "name":
        raise cursor.unexpected("the name of an origin")
    name = cursor.next
    if not is_origin(name):
        raise cursor.malformed(Code.BAD_NAME, "the name of an origin is too long")
    if cursor.is_call() and name in _FORMER:
        raise cursor.malformed(
            Code.UNEXPECTED,
            f"expected the name of an origin, found {quoted(name + '(')}",
            "write `from(mm)`, and after the program `origins {`, `mm: aten.mm.default`",
        )
    cursor.advance()
    return name


_FORMER = ("nodes", "operator", "at")
"""The parts of provenance in the first form of the text."""
