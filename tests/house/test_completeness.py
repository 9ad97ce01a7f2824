"""Nothing is left out of the documentation, and no module has grown too long."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from wrapperir.diagnostics import Code
from wrapperir.ir import LINES, DType, ExprOp, keyword
from wrapperir.passes import PASSES

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "wrapperir").rglob("*.py"), *(ROOT / "emitters").rglob("*.py")])
DIAGNOSTICS = ROOT / "docs" / "reference" / "diagnostics"
PAGE_OF_DIGIT = {
    "0": "reading.md",
    **dict.fromkeys("12345", "verify.md"),
    "6": "frontends.md",
    "7": "plugins.md",
    "8": "running.md",
    "9": "cli.md",
}


@pytest.mark.parametrize("code", list(Code), ids=lambda code: code.value)
def test_every_code_has_an_entry_on_its_page(code: Code) -> None:
    page = (DIAGNOSTICS / PAGE_OF_DIGIT[code.value[3]]).read_text()
    (entry,) = re.findall(
        rf"^## {code.value} .+\n([\s\S]*?)(?=^## |\Z)", page, re.MULTILINE
    )
    assert "```" in entry, f"{code.value} has no example"


def test_every_entry_is_of_a_code() -> None:
    headings = {
        code
        for page in DIAGNOSTICS.glob("*.md")
        for code in re.findall(r"^## (WIR\d{3})", page.read_text(), re.MULTILINE)
    }
    assert headings == {code.value for code in Code}


def test_every_code_is_reported_somewhere() -> None:
    text = "\n".join(path.read_text() for path in SOURCES if path.name != "codes.py")
    used = set(re.findall(r"\bCode\.([A-Z0-9_]+)", text))
    assert {code.name for code in Code} <= used


@pytest.mark.parametrize("line", LINES, ids=keyword)
def test_every_line_kind_is_in_the_reference(line: type) -> None:
    word = re.compile(rf"\b{keyword(line)}\b")
    for page in ("text.md", "semantics.md"):
        assert word.search((ROOT / "docs/reference" / page).read_text()), page


def test_the_grammar_has_every_word() -> None:
    files = [p for p in (ROOT / "docs/reference").rglob("*") if p.is_file()]
    grammar = "\n".join(path.read_text() for path in files)
    for word in [*(op.value for op in ExprOp), *(dtype.value for dtype in DType)]:
        assert re.search(rf"\b{word}\b", grammar), f"{word} is in no reference page"


def test_every_pass_is_documented() -> None:
    pages = "\n".join(p.read_text() for p in (ROOT / "docs").rglob("*.md"))
    for name in PASSES:
        assert f"`{name}`" in pages, f"pass {name} is in no page"


def test_no_module_is_long() -> None:
    lists = {"wrapperir/diagnostics/codes.py"}  # every code: one thing, whatever its length
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines())
        for path in SOURCES
    }
    long = {name: n for name, n in lengths.items() if n > 400 and name not in lists}
    assert not long


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not [path for path in SOURCES if path.stem in empty]


EXECUTING = {"eval", "exec", "sympify", "pickle", "marshal", "shelve"}


def executed_names(tree: ast.AST) -> Iterator[str]:
    """Yield what is called or imported by a name that could execute a file's text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.Call):
            yield ast.unparse(node.func).removeprefix("sympy.")


def test_nothing_executes_what_a_file_holds() -> None:
    for path in SOURCES:
        names = set(executed_names(ast.parse(path.read_text())))
        assert not names & EXECUTING, path


def test_every_make_target_is_phony_and_in_the_help() -> None:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    (phony,) = re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)
    assert set(phony.split()) == targets
    shown = set(re.findall(r"\bmake ([a-z-]+)", "".join(re.findall(r"@echo .*", text))))
    assert shown == targets - {"help"}
