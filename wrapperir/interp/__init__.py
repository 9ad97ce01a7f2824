"""The reference interpreter, with shadow memory."""

from wrapperir.interp.entry import check_inputs
from wrapperir.interp.interpreter import Interpreter, interpret
from wrapperir.interp.torch_values import DTYPES, TORCH_DTYPES

__all__ = [
    "DTYPES",
    "TORCH_DTYPES",
    "Interpreter",
    "check_inputs",
    "interpret",
]
