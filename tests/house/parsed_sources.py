"""The import statements of source files, each read once for all tests."""

import ast
from functools import cache
from pathlib import Path

ImportStatement = tuple[str | None, tuple[str, ...]]
"""A module and the names imported from it; no module where modules are imported."""


def import_statements(text: str) -> list[ImportStatement]:
    """Return the imports of a text: late ones, and those for type checkers alone, too."""
    found: list[ImportStatement] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            module = node.module or "" if isinstance(node, ast.ImportFrom) else None
            found.append((module, names))
    return found


@cache
def imports_of(path: Path) -> list[ImportStatement]:
    """Return the imports of a file."""
    return import_statements(path.read_text())
