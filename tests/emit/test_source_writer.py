import ast
import keyword
import re
import subprocess
from pathlib import Path
from typing import LiteralString

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import (
    Fragment,
    Namespace,
    NameTable,
    SourceWriter,
    escape_comment,
    fragment,
    joined,
)

HOSTILE = [
    "two\nlines",
    "carriage\rreturn",
    "line\u2028separator and paragraph\u2029separator, next\u0085line",
    "vertical\x0btab, form\x0cfeed, nul\x00",
    "ends in a backslash\\",
    "a trigraph ends the line??/",
    "*/ int main() {} /*",
    "'''\"\"\"",
    "héllo \U0001f600 \u202eright to left",
    "a lone surrogate \udc80",
    "-*- coding: utf-7 -*-",
    "**//??//??//",
]


def test_lines_are_indented_and_parts_put_in_place() -> None:
    writer = SourceWriter()
    writer.emit_line("def {}({}):", Fragment("f"), joined(", ", map(Fragment, "ab")))
    with writer.indented():
        writer.emit_line("if a:")
        with writer.indented():
            writer.emit_line("return {{{}: b}}", Fragment("a"))
        writer.emit_comment("done")
    writer.emit_blank()
    assert writer.format_text() == (
        "def f(a, b):\n    if a:\n        return {a: b}\n    # done\n\n"
    )
    assert writer.line_count == 5


def test_braces_in_a_part_are_kept() -> None:
    assert fragment("{}", Fragment("{0} {x}")) == "{0} {x}"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("struct {} {", "struct p {"),
        ("}} // {}", "} // p"),
        ("} // {}", "} // p"),
        ("int a[] = {1, {}};", "int a[] = {1, p};"),
        ("{{}} {}", "{} p"),
        ("{{{}}}", "{p}"),
        ("{0} {name} {}", "{0} {name} p"),
    ],
)
def test_braces_in_a_template_stand_for_themselves(
    template: LiteralString, text: str
) -> None:
    assert fragment(template, Fragment("p")) == text
    writer = SourceWriter()
    writer.emit_line(template, Fragment("p"))
    assert writer.format_text() == f"{text}\n"


@given(st.text("{}a", max_size=12))
def test_a_template_takes_as_many_parts_as_it_has_places(template: str) -> None:
    taken: list[str] = []
    for count in range(len(template) + 1):
        try:
            taken.append(fragment(template, *[Fragment("p")] * count))
        except ValueError as error:
            assert f"and {count} parts" in str(error)  # noqa: PT017 - each other count
    (text,) = taken
    assert text.count("p") == template.count("{}") or "{{" in template or "}}" in template


def test_a_writer_is_put_into_another_at_its_margin() -> None:
    inner = SourceWriter()
    inner.emit_line("b = 1")
    outer = SourceWriter()
    outer.emit_line("if a:")
    with outer.indented():
        outer.emit_writer(inner)
    assert outer.format_text() == "if a:\n    b = 1\n"


def test_the_margin_is_restored_after_an_error() -> None:
    writer = SourceWriter()
    with pytest.raises(ValueError, match="stop"), writer.indented():
        raise ValueError("stop")
    writer.emit_line("left")
    assert writer.format_text() == "left\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_comment_stays_a_comment(text: str) -> None:
    check_comment(text)


@given(st.text())
def test_any_comment_stays_a_comment(text: str) -> None:
    check_comment(text)


def check_comment(text: str) -> None:
    escaped = escape_comment(text)
    assert escaped.isascii()
    assert escaped.isprintable() or escaped == ""
    assert not escaped.rstrip().endswith("\\")
    for ends in ("*/", "/*", "??"):
        assert ends not in escaped
    writer = SourceWriter()
    writer.emit_line("first = 1")
    writer.emit_comment(text)
    writer.emit_line("last = 2")
    tree = ast.parse(writer.format_text())
    assert [type(node) for node in tree.body] == [ast.Assign, ast.Assign]


def test_hostile_comments_stay_comments_in_cpp(tmp_path: Path) -> None:
    writer = SourceWriter(comment_prefix="// ")
    for text in [*HOSTILE, "backslash and space\\ ", "\\"]:
        writer.emit_comment(text)
        writer.emit_line("COUNT")
    source = tmp_path / "comments.cpp"
    source.write_text(writer.format_text())
    command = ["g++", "-E", "-P", "-trigraphs", "-std=c++11", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["COUNT"] * (len(HOSTILE) + 2)


IDENTIFIERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@given(
    st.lists(
        st.tuples(st.sampled_from("vsk"), IDENTIFIERS | st.sampled_from(keyword.kwlist))
    )
)
def test_names_are_valid_and_never_collide(names: list[tuple[str, str]]) -> None:
    table = NameTable(keyword.kwlist)
    spaces = {kind: Namespace(table) for kind in "vsk"}
    made = {(kind, name): spaces[kind][name] for kind, name in names}
    assert len(set(made.values())) == len(made)
    for (kind, name), identifier in made.items():
        assert identifier.isidentifier()
        assert not keyword.iskeyword(identifier)
        assert re.fullmatch(rf"{name}_*", identifier)
        assert spaces[kind][name] == identifier


def test_names_are_the_same_on_every_run() -> None:
    def run() -> list[str]:
        values = Namespace(NameTable(keyword.kwlist))
        return [values[name] for name in ("class", "class_", "x", "class__", "if")]

    assert run() == run() == ["class_", "class__", "x", "class___", "if_"]


@pytest.mark.parametrize("name", ["", "a b", "a;b", "1a", "é", "a\n", "x" * 300, "a.b"])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        NameTable(()).claim(name)
    assert caught.value.diagnostics[0].code is Code.NAME_NOT_EMITTABLE
