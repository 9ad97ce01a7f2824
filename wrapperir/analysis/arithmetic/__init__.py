"""Arithmetic over sizes: intervals, polynomials of symbols and ranges of bytes."""
