"""Escapes for text of a program that could pass for other text."""

import re

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return text with control characters, and those that reorder text, as escapes."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
