"""Checks of names in programs in memory and in JSON; the grammar checks those in text."""

from wrapperir.diagnostics import Code
from wrapperir.ir import RESERVED_SYMBOLS, is_identifier, is_operator
from wrapperir.text.limits import MAX_DEVICE_INDEX
from wrapperir.text.malformed import Malformed, quoted


def device_index(index: int) -> int:
    """Return the index of a device after a check.

    Raises:
        Malformed: text cannot spell it.
    """
    if not 0 <= index <= MAX_DEVICE_INDEX:
        raise Malformed(
            Code.BAD_NUMBER, f"a device's index is not within 0..{MAX_DEVICE_INDEX}"
        )
    return index


class Names:
    """Checks each name once per program.  Every method returns its argument.

    Raises:
        Malformed: text cannot spell the name.
    """

    def __init__(self) -> None:
        """Start without checked names."""
        self._identifiers: set[str] = set()
        self._symbols: set[str] = set()
        self._dotted: set[str] = set()

    def identifier(self, name: str) -> str:
        """Check the name of a value, kernel or parameter."""
        if name not in self._identifiers:
            if not is_identifier(name):
                raise Malformed(
                    Code.BAD_NAME,
                    f"{quoted(name)} is not an identifier",
                    hint="names are ASCII letters, digits and `_`, 255 at most",
                )
            self._identifiers.add(name)
        return name

    def symbol(self, name: str) -> str:
        """Check the name of a symbol."""
        if name not in self._symbols:
            if name in RESERVED_SYMBOLS:
                raise Malformed(
                    Code.BAD_NAME, f"{quoted(name)} is a reserved word, not a symbol"
                )
            self._symbols.add(self.identifier(name))
        return name

    def dotted(self, name: str) -> str:
        """Check a name of two or more identifiers joined by dots."""
        if name not in self._dotted:
            if not is_operator(name):
                raise Malformed(
                    Code.BAD_NAME, f"{quoted(name)} is not a name such as `aten.mm.out`"
                )
            self._dotted.add(name)
        return name
