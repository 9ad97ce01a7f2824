"""The example distribution is built, installed, and passes its own tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "plugins" / "wrapperir-emitter-acme"
PIP_OPTIONS = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the plugin beside the library, in a folder of its own."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", *PIP_OPTIONS, f"--target={target}"]
    subprocess.run([*command, str(EXAMPLE)], check=True)
    return {**os.environ, "PYTHONPATH": str(target)}


def test_its_own_tests_pass(
    environment: dict[str, str],
    process_server: ProcessServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(EXAMPLE)
    arguments = ["-q", "-p", "no:cacheprovider", "tests"]
    code = (
        f"import sys; sys.path.insert(0, {environment['PYTHONPATH']!r})\n"
        f"import pytest; sys.exit(pytest.main({arguments!r}))"
    )
    done = process_server.run("-c", code, env=environment)
    assert done.returncode == 0, done.stdout
    assert "13 passed" in done.stdout


def test_the_command_line_lists_it(environment: dict[str, str]) -> None:
    command = [str(Path(sys.executable).with_name("wrapperir")), "plugins"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    assert "wrapperir-emitter-acme" in done.stdout
    assert "acme" in done.stdout


def test_an_emitter_takes_tens_of_lines() -> None:
    source = (EXAMPLE / "wrapperir_acme" / "plugin.py").read_text()
    assert len(source.splitlines()) < 60
