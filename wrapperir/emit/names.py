"""Names in target code: valid, free of clashes, and the same on every run."""

from collections.abc import Iterable

from wrapperir.diagnostics import Code
from wrapperir.emit.fragment import Fragment
from wrapperir.ir import is_identifier


class Namespace(dict[str, Fragment]):
    """The target's identifier for each name of one kind, such as values or symbols.

    Looking a name up for the first time claims an identifier for it.
    """

    def __init__(self, table: "NameTable") -> None:
        """Start with no names; identifiers are claimed from ``table``."""
        super().__init__()
        self._table = table

    def __missing__(self, name: str) -> Fragment:
        """Claim an identifier.

        Raises:
            DiagnosticError: ``name`` is not an identifier.
        """
        identifier = self[name] = self._table.claim(name)
        return identifier


class NameTable:
    """The identifiers of one scope of target code.

    A name keeps its spelling unless that is reserved or taken; then underscores are
    added until it is free.  The outcome depends only on the order of the claims.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        """Start with the target language's keywords and the names its emitter uses."""
        self._taken = set(reserved)

    def claim(self, name: str) -> Fragment:
        """Return an identifier like ``name`` that nothing else in this table has.

        Raises:
            DiagnosticError: ``name`` is not an identifier.
        """
        if not is_identifier(name):
            raise Code.NAME_NOT_EMITTABLE.error(
                f"{name[:80]!a} is not an identifier",
                hint="names are ASCII letters, digits and _, and begin with no digit",
            )
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return Fragment(name)
