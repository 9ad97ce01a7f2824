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
from wrapperir.testing.nests import DrawnNest, nest_inputs, nests
from wrapperir.testing.pass_check import Behaviour, behaviour, pass_faults
from wrapperir.testing.programs import programs
from wrapperir.testing.rank_check import rank_codes
from wrapperir.testing.rank_faults import RANK_FAULTS, RankFault
from wrapperir.testing.rank_programs import rank_programs
from wrapperir.testing.value_facts import SIZE_VALUES, SIZES

__all__ = [
    "CASES",
    "FAULTS",
    "RANK_FAULTS",
    "SIZES",
    "SIZE_VALUES",
    "Behaviour",
    "Case",
    "ConformanceError",
    "DrawnNest",
    "Faulty",
    "MemoryConflict",
    "Outcome",
    "RankFault",
    "behaviour",
    "check_case",
    "example_constants",
    "example_inputs",
    "example_symbols",
    "inject",
    "memory_conflicts",
    "nest_inputs",
    "nests",
    "pass_faults",
    "peak_bytes",
    "programs",
    "rank_codes",
    "rank_programs",
]
