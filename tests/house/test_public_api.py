"""What the last release promised still holds, or the changelog says that it does not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import public_api
from tests.house.test_public_names import public_names

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "docs" / "reference" / "public-api.txt"
CHANGELOG = ROOT / "CHANGELOG.md"


def untold(recorded: list[str], present: list[str], changelog: str) -> list[str]:
    """Return the recorded lines that hold no more and whose names no change tells.

    The changelog's first part is that of what is not released.  It tells a name in
    backquotes under ``Changed`` or ``Removed``; a class tells its members.
    """
    unreleased = changelog.split("\n## ")[1]
    sections = re.split(r"^### ", unreleased, flags=re.MULTILINE)
    told = "".join(each for each in sections if each.startswith(("Changed", "Removed")))
    names = set(re.findall(r"`([\w.]+)`", told))

    def is_told(line: str) -> bool:
        parts = line.partition(":")[0].split(".")
        return any(".".join(parts[:n]) in names for n in range(1, len(parts) + 1))

    kept = set(present)
    return [line for line in recorded if line not in kept and not is_told(line)]


def test_what_a_release_promised_holds_or_is_told() -> None:
    recorded = RECORDED.read_text().splitlines()
    assert len(recorded) > 1000
    broken = untold(recorded, public_api.api_lines(), CHANGELOG.read_text())
    assert not broken, (
        "name these in the changelog, in backquotes under Changed or Removed"
        f" (docs/reference/stability.md): {broken}"
    )


@pytest.mark.parametrize(
    ("present", "told", "expected"),
    [
        (["a.f: (x)", "a.C: class()", "a.C.g: (self)", "a.new: ()"], "", []),
        (["a.f: (x, y)", "a.C: class()", "a.C.g: (self)"], "", ["a.f: (x)"]),
        (["a.f: (x, y)", "a.C: class()", "a.C.g: (self)"], "`a.f` takes y.", []),
        (["a.f: (x)"], "`a.C` is gone.", []),
        (["a.f: (x)", "a.C: class()"], "`a.f` and a.C.g", ["a.C.g: (self)"]),
    ],
)
def test_changes_are_found(present: list[str], told: str, expected: list[str]) -> None:
    recorded = ["a.f: (x)", "a.C: class()", "a.C.g: (self)"]
    text = f"# Log\n\n## [Unreleased]\n\n### Added\n\n`a`\n\n### Changed\n\n{told}\n"
    released = "\n## [0.1]\n\n### Removed\n\n`a`\n"
    assert untold(recorded, present, text + released) == expected


@pytest.mark.parametrize("module", public_api.MODULES)
def test_public_names_are_those_that_python_sees(module: str) -> None:
    listed = public_api.public_names(module)
    assert listed
    __import__(module)
    assert all(hasattr(sys.modules[module], name) for name in listed)
    if hasattr(sys.modules[module], "__path__"):
        assert set(listed) == public_names(module)


def test_the_recorded_text_is_written_by_a_command() -> None:
    command = [sys.executable, str(ROOT / "docs" / "public_api.py")]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert written.splitlines() == public_api.api_lines()
    assert "wrapperir.ir.AllocateLine.result: str" in written.splitlines()
    assert "wrapperir.Emitter: wrapperir.emit.Emitter" in written.splitlines()
