"""Diagnostics: stable codes, positions, carets, notes and hints."""

from wrapperir.diagnostics.codes import Code
from wrapperir.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticError,
    FaultError,
    LinePath,
    Note,
    Position,
    Severity,
    first_line,
)
from wrapperir.diagnostics.rendering import format_diagnostics, format_diagnostics_json

__all__ = [
    "Code",
    "Diagnostic",
    "DiagnosticError",
    "FaultError",
    "LinePath",
    "Note",
    "Position",
    "Severity",
    "first_line",
    "format_diagnostics",
    "format_diagnostics_json",
]
