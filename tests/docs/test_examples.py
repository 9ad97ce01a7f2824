"""Every example in the documentation works."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import SYBIL, parse_commands

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")],
)


@pytest.fixture
def page_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty folder, whose modules can be imported and are forgotten after."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.usefixtures("page_folder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_work(page: Path) -> None:
    for example in SYBIL.parse(page).examples():
        example.evaluate()


def test_console_blocks_split_into_commands() -> None:
    commands = parse_commands("$ echo a\na\n$ echo \\\n> b\nb\n")
    assert [c.line for c in commands] == ["echo a\n", "echo \\\nb\n"]
    assert [c.expected for c in commands] == ["a\n", "b\n"]
