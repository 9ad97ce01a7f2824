"""Phases of a start are of functions that exist, and are counted when they are called."""

import subprocess
import sys

import pytest

from bench.gpu import start_phases

SCRIPT = """
import sys
from bench.gpu.start_phases import Clock, StepTimer
assert "wrapperir.emit.pipeline" not in sys.modules
clock = Clock()
sys.meta_path.insert(0, StepTimer(clock))
from wrapperir.emit import compile_program
from wrapperir.ir.builder import ProgramBuilder
compile_program(ProgramBuilder().build())
phases = clock.phases
assert {"verify and passes", "emit", "load new"} == phases.keys(), phases
assert all(phase.count == 1 for phase in phases.values())
"""


@pytest.mark.parametrize("place", start_phases.STEPS.values())
def test_a_step_is_a_function(place: str) -> None:
    owner, name = start_phases.find_owner(place)
    assert callable(getattr(owner, name))


def test_steps_are_timed_once_their_modules_are_imported() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
