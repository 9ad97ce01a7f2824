"""Commands in an installation without PyTorch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.files import write_files

WITHOUT_TORCH = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
from wrapperir.cli.main import main
main()
"""


def run_without_torch(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        "run add.wir",
        "run --emitter python add.wir",
        "emit --emitter cpp add.wir",
        "emit --emitter fx add.wir",
        "compile model.py:Model -o compiled",
        "compile add.wir -o compiled",
        "tune sums.wir",
    ],
)
def test_a_command_that_needs_it_says_how_to_install_it(
    command: str, tmp_path: Path
) -> None:
    write_files(tmp_path)
    ended = run_without_torch(tmp_path, *command.split())
    assert ended.returncode == 1
    assert ended.stdout == ""
    error, hint = ended.stderr.splitlines()
    assert error.endswith("error WIR909: this needs PyTorch, which is not installed")
    assert hint == "  = hint: pip install 'wrapperir[torch]'"


def test_the_error_as_json(tmp_path: Path) -> None:
    write_files(tmp_path)
    ended = run_without_torch(tmp_path, "tune", "--format", "json", "sums.wir")
    (found,) = json.loads(ended.stderr or ended.stdout)
    assert found["code"] == "WIR909"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["print", "verify", "opt", "emit", "memory", "graphs", "overlap", "plugins"]
)
def test_other_commands_work(command: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    file = [] if command == "plugins" else ["add.wir"]
    ended = run_without_torch(tmp_path, command, *file)
    assert ended.returncode == 0
    assert "torch" not in ended.stderr
