"""Conversion between our expressions and sympy's; sympy and torch are loaded late."""

from wrapperir.symbolic.lower_sympy import lower_size, lower_sympy
from wrapperir.symbolic.to_sympy import to_sympy

__all__ = [
    "lower_size",
    "lower_sympy",
    "to_sympy",
]
