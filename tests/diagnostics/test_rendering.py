"""Diagnostics are shown where they are, whatever the file holds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.diagnostics import (
    Code,
    Diagnostic,
    DiagnosticError,
    Note,
    Position,
    Severity,
    format_diagnostics,
    format_diagnostics_json,
)
from wrapperir.text import parse_with_positions

TEXT = """wrapperir 1
program @main(%x: f32[4]) {
  free %x
  free %x
  return %buf10, %buf1
}
"""
POSITIONS = parse_with_positions(TEXT).positions


def shown(*diagnostics: Diagnostic, text: str = TEXT) -> str:
    return format_diagnostics(diagnostics, text, POSITIONS, "add.wir")


def test_subject_note_and_hint() -> None:
    diagnostic = Diagnostic(
        code=Code.BAD_NAME,
        message="`%x` is dropped twice",
        path=("lines", 1),
        subject="%x",
        notes=(Note(message="dropped here", path=("lines", 0)),),
        hint="drop it once",
    )
    assert shown(diagnostic) == (
        "add.wir:4:8: error WIR010: `%x` is dropped twice\n"
        "   4 |   free %x\n"
        "     |        ^~\n"
        "add.wir:3:3: note: dropped here\n"
        "   3 |   free %x\n"
        "     |   ^~~~~~~\n"
        "  = hint: drop it once\n"
    )


def test_own_position_and_severity() -> None:
    diagnostic = Diagnostic(
        code=Code.BAD_NAME,
        message="m",
        severity=Severity.WARNING,
        position=Position(2, 9, 5),
    )
    assert shown(diagnostic) == (
        "add.wir:2:9: warning WIR010: m\n"
        "   2 | program @main(%x: f32[4]) {\n"
        "     |         ^~~~~\n"
    )


def test_subject_is_a_whole_word() -> None:
    diagnostic = Diagnostic(
        code=Code.BAD_NAME, message="m", path=("outputs",), subject="%buf1"
    )
    assert "add.wir:5:18:" in shown(diagnostic)


def test_path_without_a_place_is_shown_at_what_is_around_it() -> None:
    inner = Diagnostic(code=Code.BAD_NAME, message="m", path=("lines", 0, "type", "size"))
    unknown = Diagnostic(code=Code.BAD_NAME, message="m", path=("nothing", 9))
    nowhere = Diagnostic(code=Code.BAD_NAME, message="m")
    assert shown(inner).startswith("add.wir:3:3: error")
    assert shown(unknown).startswith("add.wir:2:1: error")
    assert shown(nowhere) == "add.wir: error WIR010: m\n"


def test_no_diagnostics() -> None:
    assert shown() == ""
    assert json.loads(format_diagnostics_json((), TEXT, POSITIONS, "f")) == []


@pytest.mark.parametrize(
    ("line", "column", "length", "excerpt", "caret"),
    [
        ("\tfree %x", 7, 2, " free %x", "      ^~"),
        ("a\x1b[31mb", 2, 1, "a\\u001b[31mb", " ^~~~~~"),
        ("日本 x", 4, 1, "日本 x", "     ^"),
        ("e\u0301 x", 4, 1, "e\u0301 x", "  ^"),
        ("short", 6, 1, "short", "     ^"),
        ("short", 99, 5, "short", "     ^"),
        ("short", 4, 99, "short", "   ^~"),
        ("", 1, 1, "", "^"),
    ],
)
def test_caret_is_under_its_text(
    line: str, column: int, length: int, excerpt: str, caret: str
) -> None:
    diagnostic = Diagnostic(
        code=Code.BAD_NAME, message="m", position=Position(1, column, length)
    )
    _, first, second = shown(diagnostic, text=line).splitlines()
    assert first == f"   1 | {excerpt}".rstrip()
    assert second == f"     | {caret}"


@given(st.integers(0, 999), st.integers(1, 40))
def test_long_lines_are_cut_around_the_caret(start: int, length: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(1000))
    diagnostic = Diagnostic(
        code=Code.BAD_NAME, message="m", position=Position(1, start + 1, length)
    )
    _, excerpt, caret = shown(diagnostic, text=line).splitlines()
    assert len(excerpt) <= 7 + 3 + 100 + 3
    under = excerpt[caret.index("^") : len(caret)]
    assert line[start : start + len(under)] == under


@given(st.text(), st.text(), st.text(), st.integers(-2, 5), st.integers(-2, 30))
def test_nothing_writes_to_the_terminal(
    text: str, message: str, file: str, line: int, column: int
) -> None:
    diagnostic = Diagnostic(
        code=Code.BAD_NAME,
        message=message,
        position=Position(line, column, 3),
        notes=(Note(message=message, position=Position(line, column)),),
        hint=message,
    )
    out = format_diagnostics((diagnostic,), text, {}, file)
    assert out.endswith("\n")
    assert all(c.isprintable() or ord(c) > 0x9F or c == "\n" for c in out)
    assert "\u202e" not in out
    out.encode()
    assert json.loads(format_diagnostics_json((diagnostic,), text, {}, file))


def test_an_error_as_a_string_has_places_and_hints() -> None:
    error = DiagnosticError(
        Diagnostic(code=Code.BAD_NAME, message="m", path=("lines", 3, "on_true", 0)),
        Diagnostic(code=Code.BAD_NAME, message="n", position=Position(2, 5), hint="h"),
        Diagnostic(code=Code.BAD_NAME, message="o", path=()),
    )
    assert str(error).splitlines() == [
        "WIR010: m, at lines[3].on_true[0]",
        "WIR010: n, at line 2, column 5 (h)",
        "WIR010: o",
    ]


def test_json() -> None:
    diagnostic = Diagnostic(
        code=Code.BAD_NAME,
        message="m",
        path=("lines", 1),
        subject="%x",
        notes=(Note(message="n"),),
    )
    (found,) = json.loads(format_diagnostics_json((diagnostic,), TEXT, POSITIONS, "f"))
    assert found == {
        "file": "f",
        "code": "WIR010",
        "severity": "error",
        "message": "m",
        "path": ["lines", 1],
        "position": {"line": 4, "column": 8, "length": 2},
        "notes": [{"file": "f", "message": "n", "path": None, "position": None}],
        "hint": None,
        "origin": None,
    }
