"""Each entry of the reference raises its code, and no other."""

import re
from pathlib import Path
from typing import Any

import pytest

from wrapperir.diagnostics import Code, DiagnosticError

PAGE = Path(__file__).parents[2] / "docs/reference/diagnostics/running.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^## (WIR\d{3}) [^\n]+\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ENTRIES: dict[str, str] = dict(ENTRY.findall(PAGE.read_text()))


def test_every_code_of_the_interpreter_has_an_entry() -> None:
    assert set(ENTRIES) == {code.value for code in Code if code.value[3] == "8"}


@pytest.mark.parametrize("code", ENTRIES)
def test_example_raises_its_code_with_a_place(code: str) -> None:
    preamble = BLOCK.search(PAGE.read_text())
    (example,) = BLOCK.findall(ENTRIES[code])
    assert preamble is not None
    namespace: dict[str, Any] = {}
    exec(preamble[1], namespace)
    with pytest.raises(DiagnosticError) as caught:
        exec(example, namespace)
    assert {d.code.value for d in caught.value.diagnostics} == {code}
    assert all(d.path for d in caught.value.diagnostics)
