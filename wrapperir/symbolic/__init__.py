"""Conversion between our expressions and sympy's; sympy and torch are loaded late."""

from wrapperir.symbolic.conversion import lower_size, lower_sympy, to_sympy

__all__ = ["lower_size", "lower_sympy", "to_sympy"]
