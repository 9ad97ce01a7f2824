"""Numbers of a declared type: they become it where they enter a program or a block."""

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.ir.line import SymbolKind


def format_converted(value: Fragment, old: SymbolKind, new: SymbolKind) -> Fragment:
    """Return a number of kind ``old`` as one of kind ``new``.

    The C++ throws where an int is wanted and the number is not whole.
    """
    if old is new:
        return value
    match new:
        case SymbolKind.FLOAT:
            return fragment("double({})", value)
        case SymbolKind.BOOL:
            return fragment("{} != 0", value)
        case SymbolKind.INT if old is SymbolKind.BOOL:
            return fragment("int64_t({})", value)
        case SymbolKind.INT:
            return fragment("num::whole({})", value)
