"""Reports on a program's memory: plain data, rendered as text, a page, or a trace."""

from wrapperir.report.build_timeline import build_timeline
from wrapperir.report.html import format_html
from wrapperir.report.perfetto import format_perfetto
from wrapperir.report.symbol_values import SymbolValueError, check_values, choose_values
from wrapperir.report.text import counted, format_report, visible
from wrapperir.report.timeline import MemoryReport

__all__ = [
    "MemoryReport",
    "SymbolValueError",
    "build_timeline",
    "check_values",
    "choose_values",
    "counted",
    "format_html",
    "format_perfetto",
    "format_report",
    "visible",
]
