"""Expressions in C that report to a run, and the names that programs may not have."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.c.expressions import RESERVED, CExpressions, identifiers_in
from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.ir import Expr

RUNTIME = Path(__file__).with_name("wir_opencl.h")
"""The header that programs include."""
_OWN = frozenset({"r", "inputs", "outputs", "done", "ENTRIES", "SOURCES"})
"""Names of the program's function, and of what is around it."""


def reserved_names() -> frozenset[str]:
    """Return the names that no value of a program may have in C."""
    return (
        RESERVED
        | _OWN
        | {"typeof", "typeof_unqual"}
        | identifiers_in(RUNTIME.read_text("utf-8"))
    )


class RunExpressions(CExpressions):
    """Formats expressions whose text uses ``r``, the run, to which it reports faults."""

    def __init__(
        self,
        symbols: Mapping[str, Fragment],
        kinds: NumberKinds,
        report: Callable[[str], object],
    ) -> None:
        """Format over ``symbols``, the identifiers by name."""
        super().__init__(symbols, kinds, report, fragment("r"))

    def format_array(self, numbers: Sequence[Expr]) -> Fragment:
        """Return an array of whole numbers, with a last 0 so that it is never empty."""
        parts = [self.format_index(number) for number in numbers]
        return fragment("(const int64_t[]){{{}}}", joined(", ", [*parts, fragment("0")]))
