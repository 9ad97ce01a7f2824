"""The two spellings of a program: text and JSON.

Both hold the whole program and read back as an equal program.  The grammar of text is
``docs/reference/text.md``, the schema of JSON ``docs/reference/json.md``.  Reading and
printing execute nothing that a file says.
"""

from typing import TYPE_CHECKING

from wrapperir.text.printer import (
    format_expr,
    format_line,
    format_program,
    format_type,
    format_with_positions,
)
from wrapperir.text.reader import (
    ParsedText,
    parse_expr,
    parse_program,
    parse_type,
    parse_with_positions,
)

if TYPE_CHECKING:
    from wrapperir.text.json_codec import format_json, parse_json

__all__ = [
    "ParsedText",
    "format_expr",
    "format_json",
    "format_line",
    "format_program",
    "format_type",
    "format_with_positions",
    "parse_expr",
    "parse_json",
    "parse_program",
    "parse_type",
    "parse_with_positions",
]


def __getattr__(name: str) -> object:
    # Many readers need only the text form, and the JSON codec takes time to import.
    if name in ("format_json", "parse_json"):
        from wrapperir.text import json_codec

        return getattr(json_codec, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
