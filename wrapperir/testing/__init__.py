"""Tests of compilers and emitters: generated programs, faults, inputs, conformance.

It needs hypothesis (the ``testing`` extra) and, to run programs, torch.  Programs of any
content, valid or not, are in :mod:`wrapperir.testing.arbitrary`.
"""

from wrapperir.testing.conformance import (
    CASES,
    Case,
    ConformanceError,
    Outcome,
    check_case,
)
from wrapperir.testing.faults import FAULTS, Faulty, inject
from wrapperir.testing.inputs import example_constants, example_inputs, example_symbols
from wrapperir.testing.memory_check import MemoryConflict, memory_conflicts, peak_bytes
from wrapperir.testing.programs import programs

__all__ = [
    "CASES",
    "FAULTS",
    "Case",
    "ConformanceError",
    "Faulty",
    "MemoryConflict",
    "Outcome",
    "check_case",
    "example_constants",
    "example_inputs",
    "example_symbols",
    "inject",
    "memory_conflicts",
    "peak_bytes",
    "programs",
]
