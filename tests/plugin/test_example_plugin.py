"""The example distribution is built, installed, and passes its own tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer
from tests.plugin.own_tests import PLUGINS, install, run_own_tests

EXAMPLE = PLUGINS / "wrapperir-emitter-acme"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install the plugin beside the library, in a folder of its own; return PYTHONPATH."""
    return install(EXAMPLE, tmp_path_factory.mktemp("installed"))


@pytest.mark.slow
def test_its_own_tests_pass(path: str, process_server: ProcessServer) -> None:
    assert "13 passed" in run_own_tests(process_server, EXAMPLE, path)


def test_the_command_line_lists_it(path: str) -> None:
    command = [str(Path(sys.executable).with_name("wrapperir")), "plugins"]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    assert "wrapperir-emitter-acme" in done.stdout
    assert "acme" in done.stdout


def test_an_emitter_takes_tens_of_lines() -> None:
    source = (EXAMPLE / "wrapperir_acme" / "plugin.py").read_text()
    assert len(source.splitlines()) < 60
