"""The distribution of memory passes is built, installed, and passes its own tests."""

from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer
from tests.plugin.own_tests import PLUGINS, install, run_own_tests


@pytest.mark.slow
def test_its_own_tests_pass(tmp_path: Path, process_server: ProcessServer) -> None:
    folder = PLUGINS / "wrapperir-passes-memory"
    path = install(folder, tmp_path)
    assert "17 passed" in run_own_tests(process_server, folder, path)
