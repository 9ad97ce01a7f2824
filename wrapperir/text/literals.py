"""Parsing and formatting of literals: strings, integers and floats.

Strings are JSON strings.  A number with a fraction or exponent is a float, so ``1`` and
``1.0`` differ; ``inf`` and ``nan`` are floats too.  The sign and payload of a NaN are
lost.
"""

import json
import json.encoder
import math
import re
from collections.abc import Callable

from wrapperir.diagnostics import Code
from wrapperir.text.cursor import Cursor
from wrapperir.text.limits import MAX_DIGITS, MAX_INTEGER, Malformed, quoted

SPECIAL_FLOATS = {"inf": math.inf, "nan": math.nan}

# Characters that editors do not show as themselves: control characters, line separators
# and marks of text direction.
_HIDDEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]", re.UNICODE)
_PLAIN = re.compile(r'"[^"\\\x00-\x1f]*"')  # no escapes
_encode: Callable[[str], str] = json.encoder.encode_basestring
_SURROGATE = re.compile("[\ud800-\udfff]")


def format_string(text: str) -> str:
    """Return ``text`` as a string literal on one line.

    Raises:
        Malformed: as :func:`checked_text`.
    """
    literal = _encode(text)
    if literal.isascii():
        return literal.replace("\x7f", "\\u007f")
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", checked_text(literal))


def checked_text(text: str) -> str:
    """Return ``text`` after a check.

    Raises:
        Malformed: a lone surrogate, which no UTF-8 file can hold.
    """
    if not text.isascii() and _SURROGATE.search(text):
        raise Malformed(Code.BAD_STRING, "a string with a lone surrogate")
    return text


def parse_string(cursor: Cursor) -> str:
    """Take a string literal.

    Raises:
        Malformed: no string follows, or it has a wrong escape.
    """
    if cursor.kind != "string":
        raise cursor.unexpected("a string")
    if _PLAIN.fullmatch(cursor.next):
        text = cursor.next[1:-1]
        cursor.advance()
        return text
    try:
        text = json.loads(cursor.next)
    except json.JSONDecodeError as error:
        at = cursor.start + error.pos
        message = f"a wrong escape or character in a string: {error.msg.lower()}"
        raise Malformed(Code.BAD_STRING, message, at, at + 1) from None
    assert isinstance(text, str)
    if "\\u" in cursor.next and _SURROGATE.search(text):
        raise cursor.malformed(Code.BAD_STRING, "the string has a lone surrogate")
    cursor.advance()
    return text


def format_integer(value: int) -> str:
    """Return ``value`` in decimal.

    Raises:
        Malformed: it has more digits than readers accept.
    """
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise Malformed(
            Code.BAD_NUMBER,
            f"an integer of more than {MAX_DIGITS} digits cannot be written",
        )
    return int.__repr__(value)


def format_number(value: int | float) -> str:
    """Return a number or boolean as a literal."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return format_integer(value) if isinstance(value, int) else float.__repr__(value)


def parse_integer(cursor: Cursor) -> int:
    """Take an integer literal, with its sign."""
    negative = cursor.accept("-")
    if cursor.kind != "number" or not cursor.next.isdigit():
        raise cursor.unexpected("an integer")
    value = parse_number(cursor)
    assert isinstance(value, int)
    return -value if negative else value


def parse_number(cursor: Cursor) -> int | float:
    """Take a number literal without a sign.

    Raises:
        Malformed: it is too long, or a float too large.
    """
    special = SPECIAL_FLOATS.get(cursor.next)
    if special is not None:
        cursor.advance()
        return special
    if cursor.kind != "number":
        raise cursor.unexpected("a number")
    if len(cursor.next) > MAX_DIGITS:
        raise cursor.malformed(
            Code.BAD_NUMBER, f"a number of more than {MAX_DIGITS} characters"
        )
    if cursor.next.isdigit():
        value: int | float = int(cursor.next)
    else:
        value = float(cursor.next)
        if math.isinf(value):
            raise cursor.malformed(
                Code.BAD_NUMBER, "a float too large for 64 bits", "write `inf` for infinity"
            )
    cursor.advance()
    return value


def parse_signed_number(cursor: Cursor) -> int | float:
    """Take a number literal, with its sign."""
    if cursor.accept("-"):
        value = parse_number(cursor)
        return value if value != value else -value  # keep the one NaN
    return parse_number(cursor)


def checked_time(value: object) -> int | float:
    """Check the time of a choice, in microseconds.  Returns its argument.

    Raises:
        Malformed: it is not a number, or is negative (as ``-0.0`` is) or not finite.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Malformed(
            Code.UNWRITABLE_VALUE, f"{quoted(repr(value)[:200])} where a time belongs"
        )
    if value < 0 or (isinstance(value, float) and repr(value) in ("-0.0", "inf", "nan")):
        raise Malformed(
            Code.BAD_NUMBER,
            f"{quoted(repr(value)[:60])} is not a time of a choice",
            hint="times are finite and not negative; a choice that failed has none",
        )
    return value
