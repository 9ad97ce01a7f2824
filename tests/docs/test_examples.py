"""Every example in the documentation works."""

from pathlib import Path

import pytest

from tests.docs.examples import SYBIL, parse_commands

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")],
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for example in SYBIL.parse(page).examples():
        example.evaluate()


def test_console_blocks_split_into_commands() -> None:
    commands = parse_commands("$ echo a\na\n$ echo \\\n> b\nb\n")
    assert [c.line for c in commands] == ["echo a\n", "echo \\\nb\n"]
    assert [c.expected for c in commands] == ["a\n", "b\n"]
