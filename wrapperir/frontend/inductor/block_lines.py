"""Lowering of lines with nested blocks."""
