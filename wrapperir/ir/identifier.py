"""Names of values, symbols and kernels."""

import re
from functools import lru_cache

_OPERATOR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")

RESERVED_SYMBOLS = frozenset({"true", "false", "none", "inf", "nan", "and", "or", "not"})
"""Words that text reads as literals or operators, so no symbol may be named so."""


def is_identifier(text: str) -> bool:
    """Say whether ``text`` may name a value, symbol or kernel: ASCII, 255 at most."""
    return text.isidentifier() and text.isascii() and len(text) <= 255


@lru_cache(1024)
def is_operator(text: str) -> bool:
    """Say whether ``text`` is an operator's name: dotted identifiers, at least two."""
    return len(text) <= 1000 and _OPERATOR.fullmatch(text) is not None
