"""Host programs in C and C++: text, the run-time support that they include, and calls."""

from pathlib import Path

_NAMES = ("wir_program", "wir_numbers", "wir_run", "wir_memory", "wir_entry")
HEADERS = tuple(Path(__file__).with_name(f"{name}.h") for name in _NAMES)
"""The headers that programs in C include."""
