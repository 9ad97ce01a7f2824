"""The reference interpreter, with shadow memory."""

from wrapperir.interp.interpreter import Interpreter, interpret

__all__ = ["Interpreter", "interpret"]
