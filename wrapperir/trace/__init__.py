"""Traces of runs, what each line wrote; and the first line that differs in two runs."""

from wrapperir.trace.comparison import Comparison, compare
from wrapperir.trace.differences import Agreement, Difference, DifferenceKind, RunSide
from wrapperir.trace.nodes import diff_nodes
from wrapperir.trace.points import Point, PointRole, points_of
from wrapperir.trace.runs import RecordedValue, ValueTrace, trace_program
from wrapperir.trace.search import diff_runs
from wrapperir.trace.summary import ValueSummary, summarize

__all__ = [
    "Agreement",
    "Comparison",
    "Difference",
    "DifferenceKind",
    "Point",
    "PointRole",
    "RecordedValue",
    "RunSide",
    "ValueSummary",
    "ValueTrace",
    "compare",
    "diff_nodes",
    "diff_runs",
    "points_of",
    "summarize",
    "trace_program",
]
