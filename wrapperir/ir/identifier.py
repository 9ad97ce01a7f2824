"""Names of values, symbols and kernels."""

import re

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_OPERATOR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")

RESERVED_SYMBOLS = frozenset({"true", "false", "none", "inf", "nan", "and", "or", "not"})
"""Words that text reads as literals or operators, so no symbol may be named so."""


def is_identifier(text: str) -> bool:
    """Say whether ``text`` may name a value, symbol or kernel: ASCII, 255 at most."""
    return _IDENTIFIER.fullmatch(text) is not None


def is_operator(text: str) -> bool:
    """Say whether ``text`` is an operator's name: dotted identifiers, at least two."""
    return len(text) <= 1000 and _OPERATOR.fullmatch(text) is not None
