"""Each entry of the reference produces its code, and nothing else."""

import re
from pathlib import Path

import pytest

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Program
from wrapperir.text import parse_with_positions
from wrapperir.verify import verify

PAGE = Path(__file__).parents[2] / "docs/reference/diagnostics/verify.md"
ENTRY = re.compile(r"^## (WIR\d{3}) [^\n]+\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(wir|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENTRIES = dict(ENTRY.findall(PAGE.read_text()))


def test_every_code_of_the_verifier_has_an_entry() -> None:
    codes = {code.value for code in Code if code.value[3] in "12345"}
    assert set(ENTRIES) == codes


@pytest.mark.parametrize("code", [c for c, e in ENTRIES.items() if "```wir" in e])
def test_text_example_produces_its_code_alone(code: str) -> None:
    for _, text in BLOCK.findall(ENTRIES[code]):
        check_example(text, code)


def check_example(text: str, code: str) -> None:
    parsed = parse_with_positions(text)
    (diagnostic,) = verify(parsed.program)
    assert diagnostic.code.value == code
    assert diagnostic.path is not None
    position = parsed.positions[diagnostic.path]  # a place that the text has
    line = text.splitlines()[position.line - 1]
    if diagnostic.subject is not None:
        assert diagnostic.subject in line
    for note in diagnostic.notes:
        assert note.path is None or note.path in parsed.positions


def codes_of(source: str, namespace: dict[str, object]) -> list[str]:
    """Return the codes that an example raises, or that its program has."""
    try:
        exec(source, namespace)
    except DiagnosticError as error:  # of what `verify` does not check
        return [found.code.value for found in error.diagnostics]
    program = namespace.pop("program")
    assert isinstance(program, Program)
    return [found.code.value for found in verify(program)]


def test_python_examples_produce_their_codes_alone() -> None:
    namespace: dict[str, object] = {}
    for code, entry in ENTRIES.items():
        for language, source in BLOCK.findall(entry):
            if language == "python":
                assert codes_of(source, namespace) == [code]
