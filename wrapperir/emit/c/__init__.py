"""C and C++ text, and calls of programs in C through ctypes."""

from pathlib import Path

HEADERS = tuple(Path(__file__).with_name(n) for n in ("wir_program.h", "wir_numbers.h"))
"""The headers that programs in C include."""
