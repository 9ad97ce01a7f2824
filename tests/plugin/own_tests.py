"""A distribution, such as one in ``plugins/``, is built, installed, and tests itself."""

import os
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer

PLUGINS = Path(__file__).parents[2] / "plugins"
_PIP_OPTIONS = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")


def install(distribution: str | Path, target: Path) -> str:
    """Install a distribution in a folder, and return a PYTHONPATH with it."""
    command = [sys.executable, "-m", "pip", "install", *_PIP_OPTIONS, f"--target={target}"]
    subprocess.run([*command, str(PLUGINS / distribution)], check=True)
    return os.pathsep.join(filter(None, (str(target), os.environ.get("PYTHONPATH", ""))))


def run_own_tests(server: ProcessServer, folder: Path, path: str, *options: str) -> str:
    """Run the tests of a distribution in a forked process, and return what they print.

    ``path`` is the PYTHONPATH with the installed distribution.
    """
    arguments = ["-q", "-p", "no:cacheprovider", *options, "tests"]
    code = (
        f"import pytest, sys; sys.path[:0] = {path.split(os.pathsep)!r}\n"
        f"sys.exit(pytest.main({arguments!r}))"
    )
    with chdir(folder):
        done = server.run("-c", code, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stdout
    return done.stdout


def check_own_tests(server: ProcessServer, name: str, target: Path) -> None:
    """Install a distribution in a folder beside the library, and run its tests.

    The test is skipped, with the first reason, if any of them is.
    """
    path = install(name, target)
    printed = run_own_tests(server, PLUGINS / name, path, "-rs", "-p", "no:randomly")
    skipped = re.search(r"^SKIPPED \[\d+\] \S+ (.*)$", printed, re.MULTILINE)
    if skipped:
        pytest.skip(skipped[1])
    assert re.search(r"^\d+ passed", printed, re.MULTILINE), printed
