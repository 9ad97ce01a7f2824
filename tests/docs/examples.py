"""Reads the examples of a documentation page and runs them.

``python`` blocks run, in order, in one namespace a page; ``console`` blocks run each
``$`` command and compare what it prints; ``wir`` blocks that hold a whole program are
read.  A block after ``<!-- file: NAME -->``, also one of ``cpp`` or ``toml``, is written
to that file for the commands after it, and the paragraph above names it.  ``sh`` blocks
(installing, cloning) are not run.
"""

import doctest
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser, SkipParser

from wrapperir.diagnostics import DiagnosticError
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

_CODE_HEADING = re.compile(r"^#+ .*?\b(WIR\d{3})\b.*$|^#+ .*$", re.MULTILINE)
_FILE_COMMENT = re.compile(r"<!-- file: (\S+) -->\s*\Z")
_MATCH = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_COMMAND_SECONDS = 240
_PYTHON = PythonEvaluator()


def documented_code(document: Document, start: int) -> str | None:
    """Return the diagnostic code in the heading above an offset of a page."""
    code = None
    for heading in _CODE_HEADING.finditer(document.text, 0, start):
        code = heading[1]
    return code


def named_file(page: str, start: int) -> str | None:
    """Return the file that the block at an offset of a page becomes, if it is one.

    Raises:
        AssertionError: readers do not see its name in the paragraph above.
    """
    comment = _FILE_COMMENT.search(page, 0, start)
    if comment is None:
        return None
    above = page[: comment.start()].rstrip().rpartition("\n\n")[2]
    assert f"`{comment[1]}`" in above, f"the text above does not name {comment[1]}"
    return comment[1]


class _PythonParser:
    """Python blocks; one in a section about a code raises it, or compares it itself."""

    def __call__(self, document: Document) -> Iterable[Region]:
        for region in PythonCodeBlockParser()(document):
            if named_file(document.text, region.start) is not None:
                region.evaluator = _write_file
            elif isinstance(region.evaluator, PythonEvaluator):
                region.evaluator = _run_python
            yield region


def _write_file(example: Example) -> None:
    name = named_file(example.document.text, example.region.start)
    assert name is not None
    Path(name).write_text(example.parsed)


def _run_python(example: Example) -> None:
    code = documented_code(example.document, example.region.start)
    if code is None:
        _PYTHON(example)
        return
    # Comparing the code is up to an example that names it, which need not raise.
    found = {code} if f'"{code}"' in example.parsed else set()
    try:
        _PYTHON(example)
    except DiagnosticError as error:
        found = {d.code.value for d in error.diagnostics}
    assert code in found, f"expected {code}, found {found}"


@frozen
class Command:
    """A shell command of a console block and what the page says it prints."""

    line: str
    expected: str


def parse_commands(block: str) -> list[Command]:
    """Return the commands of a console block: ``$`` begins one, ``>`` continues it."""
    commands: list[Command] = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append(Command(line[2:], ""))
        elif line.startswith("> ") and commands and not commands[-1].expected:
            commands[-1] = Command(commands[-1].line + line[2:], "")
        elif commands:
            commands[-1] = Command(commands[-1].line, commands[-1].expected + line)
    return commands


def _run_console(example: Example) -> None:
    plain = {"NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    environment = {**os.environ, **plain, "COLUMNS": "92"}
    for command in parse_commands(example.parsed):
        done = subprocess.run(
            ["bash", "-c", command.line],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_SECONDS,
        )
        if not command.expected.strip():
            assert done.returncode == 0, f"$ {command.line}{done.stdout}"
            continue
        matches = doctest.OutputChecker().check_output(
            command.expected.strip() + "\n", done.stdout.strip() + "\n", _MATCH
        )
        assert matches, (
            f"$ {command.line}expected:\n{command.expected}\ngot:\n{done.stdout}"
        )


def _write_if_named(example: Example) -> None:
    if named_file(example.document.text, example.region.start) is not None:
        _write_file(example)


def _read_program(example: Example) -> None:
    if named_file(example.document.text, example.region.start) is not None:
        _write_file(example)
    if not str(example.parsed).startswith("wrapperir "):
        return  # a few lines of a program, shown out of context
    code = documented_code(example.document, example.region.start)
    found: set[str] = set()
    try:
        program = parse_program(example.parsed)
        assert parse_program(format_program(program)) == program
        found = {d.code.value for d in verify(program)}
    except DiagnosticError as error:
        found = {d.code.value for d in error.diagnostics}
    expected = set() if code is None else {code}
    assert expected <= found, f"expected {expected}, found {found}"
    if code is None:
        assert not found, found


SYBIL = Sybil(
    parsers=[
        _PythonParser(),
        CodeBlockParser("console", _run_console),
        CodeBlockParser("wir", _read_program),
        CodeBlockParser("cpp", _write_if_named),
        CodeBlockParser("toml", _write_if_named),
        SkipParser(),
    ]
)
