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
from wrapperir.diagnostics.rendering import format_diagnostics, format_diagnostics_json

__all__ = [
    "Code",
    "Diagnostic",
    "DiagnosticError",
    "LinePath",
    "Note",
    "Position",
    "Severity",
    "format_diagnostics",
    "format_diagnostics_json",
]
