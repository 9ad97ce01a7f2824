"""What frontends need of :mod:`wrapperir.symbolic`: sizes of torch as expressions."""

from wrapperir.symbolic import lower_size, lower_sympy, to_sympy

__all__ = ["lower_size", "lower_sympy", "to_sympy"]
