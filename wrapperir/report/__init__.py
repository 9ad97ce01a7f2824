"""Reports on a program's memory: plain data, rendered as text, a page, or a trace."""

from wrapperir.report.html import format_html
from wrapperir.report.perfetto import format_perfetto
from wrapperir.report.text import format_report
from wrapperir.report.timeline import MemoryReport

__all__ = ["MemoryReport", "format_html", "format_perfetto", "format_report"]
