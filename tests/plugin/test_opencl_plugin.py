"""The OpenCL distribution is built, installed, and passes its own tests on a platform."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "plugins" / "wrapperir-emitter-opencl"
PIP_OPTIONS = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the plugin beside the library, in a folder of its own."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", *PIP_OPTIONS, f"--target={target}"]
    subprocess.run([*command, str(PLUGIN)], check=True)
    return {**os.environ, "PYTHONPATH": str(target)}


@pytest.mark.timeout(900)
def test_its_own_tests_pass(environment: dict[str, str]) -> None:
    options = ("-q", "-rs", "-p", "no:cacheprovider", "-p", "no:randomly")
    command = [sys.executable, "-m", "pytest", *options, str(PLUGIN / "tests")]
    done = subprocess.run(
        command, env=environment, cwd=PLUGIN, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    skipped = re.search(r"^SKIPPED \[\d+\] \S+ (.*)$", done.stdout, re.MULTILINE)
    if skipped:
        pytest.skip(skipped[1])
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), done.stdout
