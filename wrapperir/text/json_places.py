"""Positions of values in a JSON text, for errors in a document that loaded."""

import re
from json import JSONDecoder

from wrapperir.diagnostics import LinePath, Position

_SPACE = re.compile(r"[ \t\n\r]*")
_decode = JSONDecoder().raw_decode


class JsonPlaces:
    """Positions in one text, which must be JSON; scanned arrays and objects are cached."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self._text = text
        self._inside: dict[int, dict[int | str, int]] = {}

    def find(self, path: LinePath) -> Position:
        """Return the position of the value at ``path``, or of the nearest one around it."""
        at = _skip_space(self._text, 0)
        for key in path:
            inside = self._items(at)
            if key not in inside:
                break
            at = inside[key]
        line = self._text.count("\n", 0, at)
        start = self._text.rfind("\n", 0, at) + 1
        end = _decode(self._text, at)[1]
        newline = self._text.find("\n", at, end)
        length = (end if newline < 0 else newline) - at
        return Position(line + 1, at - start + 1, max(1, length))

    def _items(self, at: int) -> dict[int | str, int]:
        """Return where each item of the array or object at ``at`` begins."""
        if at not in self._inside:
            self._inside[at] = self._scan(at)
        return self._inside[at]

    def _scan(self, at: int) -> dict[int | str, int]:
        text = self._text
        found: dict[int | str, int] = {}
        opening = text[at]
        if opening not in "[{":
            return found
        at = _skip_space(text, at + 1)
        while text[at] not in "]}":
            key: int | str = len(found)
            if opening == "{":
                key, at = _decode(text, at)
                at = _skip_space(text, _skip_space(text, at) + 1)
            found[key] = at
            at = _skip_space(text, _decode(text, at)[1])
            if text[at] == ",":
                at = _skip_space(text, at + 1)
        return found


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
