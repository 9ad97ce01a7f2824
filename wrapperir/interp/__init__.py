"""The reference interpreter, with shadow memory."""

from wrapperir.interp.entry import check_inputs
from wrapperir.interp.interpreter import Interpreter, interpret

__all__ = ["Interpreter", "check_inputs", "interpret"]
