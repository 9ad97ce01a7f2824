"""The verifier's warnings about origins and places."""

from attrs import evolve

from wrapperir.diagnostics import Code, Severity
from wrapperir.ir import (
    CommentLine,
    NodeOrigin,
    Program,
    Provenance,
    SourcePlace,
    SymbolDefinitionLine,
)
from wrapperir.text import parse_program
from wrapperir.verify import verify

NAMED = Provenance(origins=("mm", "relu"))
LISTED = Program(
    lines=(CommentLine(text="", provenance=NAMED),),
    places=(SourcePlace(file="a.py", line=1), SourcePlace(file="b.py", line=2, caller=0)),
    origins=(NodeOrigin(name="mm", place=1), NodeOrigin(name="relu")),
)


def found_in(program: Program) -> list[tuple[Code, object]]:
    return [(each.code, each.path) for each in verify(program)]


def test_what_is_listed_is_accepted() -> None:
    assert verify(LISTED) == ()


def test_an_unlisted_name_is_a_warning_once() -> None:
    program = evolve(
        LISTED,
        symbols=(SymbolDefinitionLine(symbol="s", source=1, provenance=NAMED),),
        lines=(*LISTED.lines, CommentLine(text="", provenance=NAMED)),
        origins=LISTED.origins[:1],
    )
    (warning,) = verify(program)
    assert warning.code is Code.UNKNOWN_ORIGIN
    assert warning.severity is Severity.WARNING
    assert warning.path == ("symbols", 0)
    assert "relu" in warning.message


def test_names_of_inputs_are_checked() -> None:
    text = "wrapperir 1\n\nprogram @main(%x: f32[4] from(sin)) {\n  return %x\n}\n"
    assert found_in(parse_program(text)) == [(Code.UNKNOWN_ORIGIN, ("inputs", 0))]


def test_names_in_blocks_are_checked() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[4]) {
  subgraph_call @f (%x) {
    body (%p: f32[4]) {
      comment "" from(inner)
      return
    }
  }
  free %x
  return
}
""")
    path = ("lines", 0, "body", "lines", 0)
    assert found_in(program) == [(Code.UNKNOWN_ORIGIN, path)]


def test_a_place_of_nothing_is_a_warning() -> None:
    (first, second), (origin, _) = LISTED.places, LISTED.origins
    for number in (2, -1):
        program = evolve(LISTED, origins=(evolve(origin, place=number), LISTED.origins[1]))
        assert found_in(program) == [(Code.UNKNOWN_ORIGIN, ("origins", 0))]
    for number in (1, 2, -1):
        program = evolve(LISTED, places=(first, evolve(second, caller=number)))
        assert found_in(program) == [(Code.UNKNOWN_ORIGIN, ("places", 1))]


def test_a_name_listed_twice_is_a_warning() -> None:
    program = evolve(LISTED, origins=(*LISTED.origins, NodeOrigin(name="mm")))
    (warning,) = verify(program)
    assert (warning.code, warning.path) == (Code.DUPLICATE_ORIGIN, ("origins", 2))
    assert [note.path for note in warning.notes] == [("origins", 0)]


def test_names_that_text_cannot_spell_are_errors() -> None:
    for provenance in (Provenance(origins=("a b",)), Provenance(passes=("a.b",))):
        program = Program(lines=(CommentLine(text="", provenance=provenance),))
        assert (Code.INVALID_IDENTIFIER, ("lines", 0)) in found_in(program)
    program = Program(origins=(NodeOrigin(name="a b"),))
    assert found_in(program) == [(Code.INVALID_IDENTIFIER, ("origins", 0))]
