"""Limits of the text and JSON forms, the checks of names, and the error of this package."""

from collections.abc import Callable

from wrapperir.diagnostics import Code, Diagnostic, LinePath, Position
from wrapperir.ir import RESERVED_SYMBOLS, is_identifier, is_operator, is_origin

MAX_DIGITS = 300  # of an integer; Python's conversion is quadratic and stops at 4,300
MAX_INTEGER = 10**MAX_DIGITS - 1  # the largest magnitude
MAX_DEVICE_INDEX = 10**9 - 1
MAX_RANK = 64  # dimensions of a tensor, as in PyTorch
MAX_BLOCK_DEPTH = 64  # blocks within blocks, so that recursion over a program is safe
MAX_LIST_DEPTH = 32  # lists of arguments within lists, and tuple types within tuple types
MAX_DIAGNOSTICS = 100  # diagnostics reported for one file
MAX_NESTING = 210
"""Steps of recursion within a line.

An expression of height ``MAX_DEPTH`` takes at most two for each level, so only redundant
parentheses are refused.
"""


class Malformed(Exception):  # noqa: N818 - it becomes a Diagnostic before it leaves
    """A part of a program that cannot be read or written.

    ``start`` and ``end`` are character offsets in the line being read.  ``path`` grows
    from the inside out while the error passes through a program being written.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        start: int = 0,
        end: int = 1,
        hint: str | None = None,
    ) -> None:
        """Take the error and its characters in the line."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint
        self.path: LinePath = ()

    def within(self, *prefix: int | str) -> "Malformed":
        """Return the error with ``prefix`` put before its path."""
        self.path = (*prefix, *self.path)
        return self

    def read(self, line: int) -> Diagnostic:
        """Return the diagnostic for a line, counted from 0, of the file being read."""
        position = Position(line + 1, self.start + 1, max(1, self.end - self.start))
        return Diagnostic(self.code, self.message, position=position, hint=self.hint)

    def written(self, position: Position | None = None) -> Diagnostic:
        """Return the diagnostic for the part of a program or JSON document at ``path``."""
        path = self.path or None
        return Diagnostic(
            self.code, self.message, path=path, position=position, hint=self.hint
        )


WRITE_ERRORS = (
    Malformed,
    AssertionError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)
"""Errors raised when writing a program; all but the first mean a value of a wrong type."""


def placed(error: Exception, *prefix: int | str) -> Malformed:
    """Return one of :data:`WRITE_ERRORS` as an error with ``prefix`` before its path."""
    if not isinstance(error, Malformed):
        detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        message = f"an object of a type that does not belong there ({quoted(detail)})"
        error = Malformed(Code.UNWRITABLE_VALUE, message)
    return error.within(*prefix)


def unwritable(value: object, wanted: str) -> Malformed:
    """Return the error that a program holds ``value`` instead of what is wanted."""
    message = f"{quoted(repr(value)[:200])} where {wanted} belongs"
    return Malformed(Code.UNWRITABLE_VALUE, message)


def quoted(text: str) -> str:
    """Return ``text`` for a message: escaped, in backquotes, and not too long."""
    shown = text if len(text) <= 40 else text[:37] + "..."
    return "`" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown) + "`"


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


class Checked(dict[str, str]):
    """Names that were checked, each once; a look-up checks a new name and returns it."""

    def __init__(self, check: Callable[[str], None]) -> None:
        """Take a function that raises :class:`Malformed` if text cannot spell a name."""
        super().__init__()
        self._check = check

    def __missing__(self, name: str) -> str:
        """Check a name and return it."""
        self._check(name)
        return self.setdefault(name, name)


def _check_identifier(name: str) -> None:
    if not is_identifier(name):
        raise Malformed(
            Code.BAD_NAME,
            f"{quoted(name)} is not an identifier",
            hint="names are ASCII letters, digits and `_`, 255 at most",
        )


def _check_symbol(name: str) -> None:
    if name in RESERVED_SYMBOLS:
        message = f"{quoted(name)} is a reserved word, not a symbol"
        raise Malformed(Code.BAD_NAME, message)
    _check_identifier(name)


def _check_dotted(name: str) -> None:
    if not is_operator(name):
        message = f"{quoted(name)} is not a name such as `aten.mm.out`"
        raise Malformed(Code.BAD_NAME, message)


def _check_origin(name: str) -> None:
    if not is_origin(name):
        message = f"{quoted(name)} is not the name of an origin"
        hint = "names of origins are identifiers joined by dots"
        raise Malformed(Code.BAD_NAME, message, hint=hint)


class Names:
    """The names of one program in memory or in JSON; the grammar checks names in text."""

    def __init__(self) -> None:
        """Start without checked names."""
        self.identifiers = Checked(_check_identifier)
        self.symbols = Checked(_check_symbol)
        self.dotted = Checked(_check_dotted)
        self.origin_names = Checked(_check_origin)
