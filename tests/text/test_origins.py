"""The section `origins`: its canonical text, and the errors of malformed ones."""

import json

import pytest
from attrs import evolve

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import CommentLine, NodeOrigin, Program, Provenance
from wrapperir.text import (
    format_json,
    format_line,
    format_program,
    parse_json,
    parse_program,
)

TEXT = """\
wrapperir 1

program @main(%x: f32[4] from(neg), %w: f32[4] from "w" tied "v" from(fused 0)) {
  symbol s0: int = 3 from(size)

  %y = extern_kernel aten.neg.default(%x) : f32[4] from(neg, block_1.b) by(fuse, plan)
  %z = extern_kernel aten.neg.default(%x) : f32[4] from(fused 0)
  free %x by(insert_frees)
  comment "same" from(fused 0) by(fuse)
  return %y, %z
}

origins {
  place 0: "a.py" 3 "forward"
  place 1: "a \\"b\\".py" 5 from 0
  fused 0: a, block_1.b, neg, fused, place
  neg, a: aten.neg.default in "layers.0" at 1
  block_1.b:
  fused: "an operator" at 0
  place: in ""
}
"""


def test_the_text_of_origins_is_canonical() -> None:
    program = parse_program(TEXT)
    assert format_program(program) == TEXT
    assert parse_json(format_json(program)) == program


def test_long_lists_are_numbered_as_they_are_met_and_shared() -> None:
    names = [tuple(f"{letter}{number}" for number in range(5)) for letter in "ab"]
    lines = [
        CommentLine(text="", provenance=Provenance(origins=each))
        for each in (names[0][:4], names[1], names[0], names[1])
    ]
    text = format_program(Program(lines=tuple(lines)))
    assert [line.partition('"" ')[2] for line in text.splitlines()[3:7]] == [
        "from(a0, a1, a2, a3)",
        "from(fused 0)",
        "from(fused 1)",
        "from(fused 0)",
    ]
    assert "  fused 0: b0, b1, b2, b3, b4\n  fused 1: a0, a1, a2, a3, a4\n" in text
    assert parse_program(text) == Program(lines=tuple(lines))


def test_a_line_alone_lists_its_origins() -> None:
    (_, _, _, line) = parse_program(TEXT).lines
    assert format_line(line) == (
        'comment "same" from(a, block_1.b, neg, fused, place) by(fuse)'
    )


def test_documents_without_origins_are_read() -> None:
    program = evolve(parse_program(TEXT), places=(), origins=())
    document = json.loads(format_json(program))
    assert not {"places", "origins"} & set(document)
    assert parse_json(json.dumps(document)) == program


@pytest.mark.parametrize(
    ("old", "new", "line", "code"),
    [
        ("from(fused 0)\n  free", "from(fused 1)\n  free", 7, Code.UNKNOWN_WORD),
        ("from(fused 0)\n  free", "from(fused 0, neg)\n  free", 7, Code.UNEXPECTED),
        ("from(neg, ", "from(neg ", 6, Code.UNEXPECTED),
        ("from(neg, ", "from(%neg, ", 6, Code.UNEXPECTED),
        ("from(neg, ", f"from({'n' * 256}, ", 6, Code.BAD_NAME),
        ("from(size)", 'from(nodes("size"))', 4, Code.UNEXPECTED),
        ("by(insert_frees)", "by()", 8, Code.UNEXPECTED),
        ("by(insert_frees)", "by(a.b)", 8, Code.BAD_NAME),
        ("origins {", "origins", 13, Code.UNEXPECTED),
        ("place 0:", "place 1:", 14, Code.MISPLACED_STATEMENT),
        ("place 1:", "place 01:", 15, Code.MISPLACED_STATEMENT),
        ('"a.py" 3', '"a.py"', 14, Code.UNEXPECTED),
        ("from 0\n", "from\n", 15, Code.UNEXPECTED),
        ("fused 0:", "fused 0", 16, Code.UNEXPECTED),
        ("neg, fused, place\n", "neg, fused, 7\n", 16, Code.UNEXPECTED),
        ("neg, a: ", "neg, a ", 17, Code.UNEXPECTED),
        ("  block_1.b:", "  block_1.b: at at", 18, Code.UNEXPECTED),
        ("  block_1.b:", "  %b:", 18, Code.UNEXPECTED),
        ("  block_1.b:", "  block_1.b,:", 18, Code.UNEXPECTED),
        ("  block_1.b:", "  block_1.b: neg", 18, Code.UNEXPECTED),
        ('in ""\n}\n', 'in ""\n', 20, Code.UNCLOSED_BLOCK),
        ('in ""\n}\n', 'in ""\n}\norigins {\n}\n', 13, Code.MISPLACED_STATEMENT),
    ],
)
def test_a_malformed_part_is_reported_where_it_is(
    old: str, new: str, line: int, code: Code
) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(DiagnosticError) as raised:
        parse_program(TEXT.replace(old, new))
    found = raised.value.diagnostics
    places = [d.position.line for d in found if d.position is not None]
    assert places == sorted(places)
    assert (line, code) in [(d.position.line, d.code) for d in found if d.position]


def test_errors_in_the_program_and_after_it_are_all_reported() -> None:
    text = TEXT.replace("free %x", "fee %x").replace("place 0:", "place 0")
    with pytest.raises(DiagnosticError) as raised:
        parse_program(text)
    found = [(d.position.line, d.code) for d in raised.value.diagnostics if d.position]
    assert found == [(8, Code.UNKNOWN_STATEMENT), (14, Code.UNEXPECTED)]


def test_origins_before_the_program_are_misplaced() -> None:
    text = "wrapperir 1\norigins {\n  a:\n}\nprogram @main() {\n  return\n}\n"
    with pytest.raises(DiagnosticError) as raised:
        parse_program(text)
    assert [d.code for d in raised.value.diagnostics] == [Code.UNKNOWN_STATEMENT]


def test_a_name_that_text_cannot_spell_is_refused_with_its_place() -> None:
    program = Program(origins=(NodeOrigin(name="a"), NodeOrigin(name="b c")))
    for write in (format_program, format_json):
        with pytest.raises(DiagnosticError) as raised:
            write(program)
        (found,) = raised.value.diagnostics
        assert found.code is Code.BAD_NAME
        assert found.path is not None
        assert found.path[:2] == ("origins", 1)
