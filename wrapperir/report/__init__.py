"""Reports on a program: its memory, and where its lines came from; data and renderings."""

from wrapperir.report.build_timeline import build_timeline
from wrapperir.report.explanation import Explanation, explain
from wrapperir.report.explanation_text import format_explanation, format_explanation_json
from wrapperir.report.html import format_html
from wrapperir.report.perfetto import format_perfetto
from wrapperir.report.symbol_values import SymbolValueError, check_values, choose_values
from wrapperir.report.text import counted, format_report, visible
from wrapperir.report.timeline import MemoryReport

__all__ = [
    "Explanation",
    "MemoryReport",
    "SymbolValueError",
    "build_timeline",
    "check_values",
    "choose_values",
    "counted",
    "explain",
    "format_explanation",
    "format_explanation_json",
    "format_html",
    "format_perfetto",
    "format_report",
    "visible",
]
