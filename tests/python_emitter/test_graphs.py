"""Recordings of graph regions of emitted Python, as a driver that is made up sees them."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.python_emitter.fake_graphs import CHECKS
from tests.python_emitter.fake_process import FakeProcess, fake_process


@pytest.fixture(scope="module")
def process(run_cache: Path) -> Generator[FakeProcess]:
    """Return a process with a driver that is made up."""
    with fake_process("fake_graphs", run_cache) as started:
        yield started


@pytest.mark.parametrize("name", CHECKS)
def test_on_a_driver_that_is_made_up(process: FakeProcess, name: str) -> None:
    process.check(name)
