"""Diagnostics: stable codes, positions, carets, notes and hints."""

from wrapperir.diagnostics.codes import Code
from wrapperir.diagnostics.diagnostic import (
    TRACEBACKS,
    Diagnostic,
    DiagnosticError,
    FaultError,
    LinePath,
    Note,
    Position,
    Severity,
    describe_failure,
    first_line,
    format_cause,
)
from wrapperir.diagnostics.near_names import did_you_mean
from wrapperir.diagnostics.rendering import (
    DiagnosticPlaces,
    diagnostic_objects,
    format_diagnostics,
    format_diagnostics_json,
)
from wrapperir.diagnostics.sarif import CheckedFile, format_diagnostics_sarif

__all__ = [
    "TRACEBACKS",
    "CheckedFile",
    "Code",
    "Diagnostic",
    "DiagnosticError",
    "DiagnosticPlaces",
    "FaultError",
    "LinePath",
    "Note",
    "Position",
    "Severity",
    "describe_failure",
    "diagnostic_objects",
    "did_you_mean",
    "first_line",
    "format_cause",
    "format_diagnostics",
    "format_diagnostics_json",
    "format_diagnostics_sarif",
]
