"""The distribution of memory passes is built, installed, and passes its own tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer

PLUGIN = Path(__file__).parents[2] / "plugins" / "wrapperir-passes-memory"
PIP_OPTIONS = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")


def test_its_own_tests_pass(
    tmp_path: Path, process_server: ProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "pip", "install", *PIP_OPTIONS, f"--target={tmp_path}"]
    subprocess.run([*command, str(PLUGIN)], check=True)
    monkeypatch.chdir(PLUGIN)
    arguments = ["-q", "-p", "no:cacheprovider", "tests"]
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"import pytest; sys.exit(pytest.main({arguments!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = process_server.run("-c", code, env=environment)
    assert done.returncode == 0, done.stdout
    assert "17 passed" in done.stdout
