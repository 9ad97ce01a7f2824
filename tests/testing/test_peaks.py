"""The peak probe counts what calls hold, and compares it with what frees allow."""

import pytest

from wrapperir.emit import Loaded, Value
from wrapperir.ir import Language, Program
from wrapperir.testing.memory_check import peak_bytes
from wrapperir.testing.suite.peak_programs import (
    LARGE,
    PEAKS,
    SMALL,
    large_bytes,
    peak_programs,
)
from wrapperir.testing.suite.peaks import PeakMeter, peak_fault, peak_meter
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter


class Counting(PythonEmitter):
    name = "counting"
    most = 5

    def peak_bytes(self, device: str) -> int | None:
        return self.most if device == "acme" else None


def test_an_emitter_counts_the_peak_of_its_device() -> None:
    meter = peak_meter(Counting(), "acme")
    assert meter is not None
    assert (meter.ask(), meter.programs_count) == (5, False)
    assert peak_meter(Counting(), "other") is None


@pytest.mark.parametrize("language", [Language.CPP, Language.TRITON])
@pytest.mark.parametrize("name", PEAKS)
def test_programs_hold_a_few_of_many_buffers(name: str, language: Language) -> None:
    program = peak_programs(language, LARGE, counting=False)[name]
    assert verify(program) == ()
    buffers = peak_bytes(program, {}) / large_bytes(LARGE)
    assert 2 <= round(buffers) <= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("buffers", "is_fault"), [(0.9, True), (1.1, False), (3.4, False), (3.6, True)]
)
def test_what_is_held_beyond_what_frees_allow_is_a_fault(
    buffers: float, is_fault: bool
) -> None:
    """A call may hold its input, and two buffers; some bytes more are no fault.

    A count of less than one buffer is wrong.
    """
    first, second = (
        peak_programs(Language.CPP, rows, counting=False)["peak_buffers"]
        for rows in (SMALL, LARGE)
    )
    answers = iter([7, 100, 100 + int(buffers * large_bytes(LARGE))])

    def load(_: Program) -> Loaded:
        def run(given: list[Value]) -> tuple[Value, ...]:
            given.clear()
            return ()

        return run

    meter = PeakMeter(lambda: next(answers))
    fault = peak_fault((first, second), lambda program: program, load, meter)
    assert (fault is not None) == is_fault
