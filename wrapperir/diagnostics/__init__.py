"""Diagnostics: stable codes, positions, carets, notes and hints."""

from wrapperir.diagnostics.codes import Code
from wrapperir.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticError,
    LinePath,
    Note,
    Position,
    Severity,
)

__all__ = [
    "Code",
    "Diagnostic",
    "DiagnosticError",
    "LinePath",
    "Note",
    "Position",
    "Severity",
]
