"""The reference interpreter, with shadow memory."""

from wrapperir.interp.entry import check_inputs
from wrapperir.interp.executor import AfterLine
from wrapperir.interp.interpreter import Interpreter, interpret, interpret_ranks
from wrapperir.interp.line_names import LineNames, WrittenValue

__all__ = [
    "AfterLine",
    "Interpreter",
    "LineNames",
    "WrittenValue",
    "check_inputs",
    "interpret",
    "interpret_ranks",
]
