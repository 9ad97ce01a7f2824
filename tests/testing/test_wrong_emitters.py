"""Each emitter that is wrong on purpose is found by the checks of plugins."""

import pytest
from attrs import evolve

from tests.emit.partition.partial_emitter import HOSTED, HostedEmitter
from tests.testing.wrong_emitters import WRONG, Wrong
from wrapperir.testing.suite import CheckSelection, Status, check_emitter
from wrapperir_python.emitter import PythonEmitter


def selected(wrong: Wrong) -> CheckSelection:
    features, cases = frozenset({wrong.feature}), frozenset({wrong.case})
    return CheckSelection(
        features=features,
        cases=cases,
        devices=frozenset({wrong.device}),
        seconds=wrong.seconds,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_it_is_found(name: str) -> None:
    wrong = WRONG[name]
    report = check_emitter(wrong.emitter, selected(wrong))
    assert report.of(Status.FAILED), [result.reason for result in report.results]


@pytest.mark.slow
def test_the_emitter_that_is_not_wrong_passes() -> None:
    selection = CheckSelection(
        features=frozenset(wrong.feature for wrong in WRONG.values()),
        cases=frozenset(wrong.case for wrong in WRONG.values()),
        devices=frozenset({"cpu"}),
    )
    assert check_emitter(PythonEmitter(), selection).holds


def test_the_emitter_of_a_device_that_is_not_wrong_passes() -> None:
    devices = frozenset({HOSTED})
    support = evolve(PythonEmitter.support, devices=devices, hosted=devices)
    selection = CheckSelection(
        cases=frozenset(w.case for w in WRONG.values() if w.device == HOSTED),
        devices=devices,
    )
    assert check_emitter(HostedEmitter(support=support), selection).holds


def test_there_are_enough() -> None:
    assert len(WRONG) >= 20
