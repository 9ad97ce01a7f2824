"""The order of places in a program: that of its text."""

from wrapperir.diagnostics import Diagnostic

_ORDER = {
    name: rank
    for rank, name in enumerate(
        (
            "definitions",
            "name",
            "inputs",
            "symbols",
            "constants",
            "on_true",
            "on_false",
            "condition",
            "body",
            "parameters",
            "lines",
            "results",
            "grid",
            "configs",
            "entry",
            "metadata",
            "sizes",
            "choices",
            "selection",
            "outputs",
        )
    )
}


def sort_key(diagnostic: Diagnostic) -> tuple[int, ...]:
    """Return the key that sorts diagnostics by place; what has no place comes first."""
    path = diagnostic.path or ()
    return tuple(part if isinstance(part, int) else _ORDER.get(part, -1) for part in path)
