"""The reference says which tests show what Inductor's multi-kernels do."""

import ast
import re
from pathlib import Path

_TESTS = Path(__file__).parents[1]
_PAGE = _TESTS.parent / "docs" / "reference" / "multi-kernels.md"


def test_every_test_that_the_reference_names_is_there() -> None:
    _, _, listed = _PAGE.read_text().partition("## Tested behaviours\n")
    named = [
        (file, test)
        for part in re.split(r"[;|]", listed)
        if (match := re.match(r" `(\w+/\w+\.py)`", part)) is not None
        for file in match.groups()
        for test in re.findall(r"`(test_\w+)`", part)
    ]
    rows = [line for line in listed.splitlines() if line.startswith("| ")]
    assert len(named) >= len(rows) - 1 > 0
    assert [name for name in named if name[1] not in _tests(name[0])] == []


def _tests(file: str) -> set[str]:
    module = ast.parse((_TESTS / file).read_text())
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
