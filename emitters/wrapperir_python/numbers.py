"""Numbers of a declared type: they become it where they enter a program or a block."""

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.ir.line import SymbolKind
from wrapperir_python.module_text import ModuleText


def format_converted(
    module: ModuleText, value: Fragment, old: SymbolKind | None, new: SymbolKind
) -> Fragment:
    """Return a number of kind ``old`` (``None`` is any) as one of kind ``new``.

    The Python raises where an int is wanted and the number is not whole.
    """
    if old is new:
        return value
    if new is SymbolKind.FLOAT:
        return fragment("float({})", value)
    if new is SymbolKind.BOOL:
        return fragment("bool({})", value)
    if old is SymbolKind.BOOL:
        return fragment("int({})", value)
    return fragment("{}({})", module.need("whole"), value)


def format_given(module: ModuleText, value: Fragment, kind: SymbolKind) -> Fragment:
    """Return a number that the caller gave as one of a kind; a float is never an int."""
    if kind is SymbolKind.FLOAT:
        return fragment("float({})", value)
    whole = fragment("{}({})", module.import_from("operator", "index"), value)
    return fragment("bool({})", whole) if kind is SymbolKind.BOOL else whole
