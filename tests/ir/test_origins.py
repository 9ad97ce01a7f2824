"""Looking up origins, and dropping those that no line has."""

from attrs import evolve
from hypothesis import given, settings

from tests.draws import draws
from wrapperir.ir import (
    CommentLine,
    NodeOrigin,
    OriginTable,
    Program,
    Provenance,
    SourcePlace,
    trim_origins,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.ir.origins import all_lines
from wrapperir.testing import programs
from wrapperir.verify import verify


def built() -> Program:
    b = ProgramBuilder()
    main = ("main.py", 3, "<module>")
    b.at(b.origin("unused", stack=[("other.py", 1, None)]))
    b.at(b.origin("mm", operator="aten.mm.default", stack=[main, ("a.py", 1, "f")]))
    b.comment("first")
    b.at(b.origin("relu", module="layers.0", stack=[main, ("b.py", 2, "g")]))
    b.comment("second")
    return b.build()


def test_a_builder_lists_places_once() -> None:
    program = built()
    assert [place.file for place in program.places] == [
        *("other.py", "main.py", "a.py", "b.py"),
    ]
    assert [place.caller for place in program.places] == [None, None, 1, 1]
    assert verify(program) == ()


def test_a_table_finds_origins_and_stacks() -> None:
    program = built()
    table = OriginTable(program)
    (relu,) = table.of(program.lines[1].provenance)
    assert relu.module == "layers.0"
    assert [place.file for place in table.stack(relu)] == ["main.py", "b.py"]
    place = table.place(relu)
    assert place is not None
    assert place.function == "g"
    assert table.of(None) == table.of(Provenance(origins=("nothing",))) == []


def test_a_malformed_table_has_an_end() -> None:
    program = Program(
        places=(SourcePlace(file="a", line=1, caller=1), SourcePlace(file="b", line=1)),
        origins=(NodeOrigin(name="a", place=0), NodeOrigin(name="b", place=7)),
    )
    table = OriginTable(program)
    assert [len(table.stack(each)) for each in program.origins] == [1, 0]


def test_what_no_line_has_is_dropped() -> None:
    trimmed = trim_origins(built())
    assert [origin.name for origin in trimmed.origins] == ["mm", "relu"]
    assert [place.file for place in trimmed.places] == ["main.py", "a.py", "b.py"]
    assert [place.caller for place in trimmed.places] == [None, 0, 0]
    assert [origin.place for origin in trimmed.origins] == [1, 2]
    assert trim_origins(trimmed) is trimmed


@settings(max_examples=draws(50, fuzz=500))
@given(programs())
def test_lines_have_the_same_stacks_after_trimming(program: Program) -> None:
    extended = evolve(
        program,
        places=(*program.places, SourcePlace(file="new", line=1)),
        origins=(NodeOrigin(name="new", place=len(program.places)), *program.origins),
        lines=(*program.lines[:-1], CommentLine(text=""), *program.lines[-1:]),
    )
    trimmed = trim_origins(extended)
    before, after = OriginTable(extended), OriginTable(trimmed)

    def stacks(table: OriginTable, provenance: Provenance | None) -> list[object]:
        return [
            (each.name, [evolve(place, caller=None) for place in table.stack(each)])
            for each in table.of(provenance)
        ]

    for line in all_lines(trimmed):
        assert stacks(before, line.provenance) == stacks(after, line.provenance)
    assert "new" not in {origin.name for origin in trimmed.origins}
