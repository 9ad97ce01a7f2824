"""Reports on a program: its memory, and where its lines came from; data and renderings."""

from wrapperir.report.build_timeline import build_timeline
from wrapperir.report.copies import CopyReason, copy_reasons
from wrapperir.report.equal_lines import equal_lines, line_modules
from wrapperir.report.explained_parts import Explanation
from wrapperir.report.explanation import explain
from wrapperir.report.explanation_text import format_explanation, format_explanation_json
from wrapperir.report.graphviz import format_dot
from wrapperir.report.line_flow import LineFlow, line_flow
from wrapperir.report.memory_changes import (
    FRONTEND,
    MemoryChange,
    format_memory_changes,
    frontend_reuse,
    is_frontend_reuse,
    memory_changes,
)
from wrapperir.report.memory_page import buffer_kinds, format_html, kind_data, version_data
from wrapperir.report.model_parameters import ModelParameter, model_parameters
from wrapperir.report.offline_page import PageData, PagePart, format_page
from wrapperir.report.perfetto import format_perfetto
from wrapperir.report.profile import KernelProfile, LineProfile, MemoryPeak, Profile, Slice
from wrapperir.report.profile_json import format_profile_json
from wrapperir.report.profile_text import format_profile
from wrapperir.report.profile_trace import format_profile_trace
from wrapperir.report.spans import line_head
from wrapperir.report.symbol_values import (
    SymbolValueError,
    check_values,
    choose_values,
    shown_symbols,
)
from wrapperir.report.text import counted, format_report, visible
from wrapperir.report.timeline import MemoryReport
from wrapperir.report.trace_explanation import (
    TraceExplanation,
    explain_trace,
    format_trace_explanation,
    format_trace_explanation_json,
)

__all__ = [
    "FRONTEND",
    "CopyReason",
    "Explanation",
    "KernelProfile",
    "LineFlow",
    "LineProfile",
    "MemoryChange",
    "MemoryPeak",
    "MemoryReport",
    "ModelParameter",
    "PageData",
    "PagePart",
    "Profile",
    "Slice",
    "SymbolValueError",
    "TraceExplanation",
    "buffer_kinds",
    "build_timeline",
    "check_values",
    "choose_values",
    "copy_reasons",
    "counted",
    "equal_lines",
    "explain",
    "explain_trace",
    "format_dot",
    "format_explanation",
    "format_explanation_json",
    "format_html",
    "format_memory_changes",
    "format_page",
    "format_perfetto",
    "format_profile",
    "format_profile_json",
    "format_profile_trace",
    "format_report",
    "format_trace_explanation",
    "format_trace_explanation_json",
    "frontend_reuse",
    "is_frontend_reuse",
    "kind_data",
    "line_flow",
    "line_head",
    "line_modules",
    "memory_changes",
    "model_parameters",
    "shown_symbols",
    "version_data",
    "visible",
]
