"""Positions lead from a path of a program to its place in the text."""

from typing import Any

from attrs import evolve, fields_dict
from hypothesis import given, settings

from tests.draws import draws
from wrapperir.diagnostics import LinePath
from wrapperir.ir import Line, Program, keyword
from wrapperir.testing.arbitrary import programs
from wrapperir.text import format_line, format_with_positions, parse_with_positions
from wrapperir.text.arguments import parse_operand
from wrapperir.text.cursor import Cursor

from .samples import SAMPLE


def value_at(program: Program, path: LinePath) -> object:
    value: object = program
    for part in path:
        if isinstance(part, int):
            assert isinstance(value, tuple)
            value = value[part]
        else:
            value = getattr(value, part)
    return value


def assert_placed(program: Program) -> None:
    text, positions = format_with_positions(program)
    lines = text.split("\n")
    assert len(set(positions)) == len(positions)
    for path, position in positions.items():
        line = lines[position.line - 1]
        shown = line[position.column - 1 : position.column - 1 + position.length]
        assert shown
        assert shown == shown.strip(" ")
        value = value_at(program, path)
        if path[-2:-1] == ("lines",):
            # A line alone lists its origins, and a line of a program may number the list.
            assert isinstance(value, Line)
            without: Any = evolve(value, provenance=None)
            alone = format_line(without)
            assert shown.startswith(alone.split("\n")[0].strip(" ").removesuffix(" {"))
        elif path[-2:-1] in (("outputs",), ("results",)):
            assert repr(parse_operand(Cursor(shown))) == repr(value)
        elif path[-2:-1] in (("inputs",), ("parameters",)):
            assert shown.startswith(f"%{value.name}: ")  # type: ignore[attr-defined]
        elif path[-2:-1] == ("definitions",):
            assert shown.startswith(f"{keyword(value)} @")  # type: ignore[arg-type]
        elif path[:1] == ("places",):
            assert shown.startswith(f"place {path[1]}: ")
        elif path[:1] == ("origins",):
            assert shown == value.name  # type: ignore[attr-defined]
    for name in (field for field in fields_dict(Program) if field != "name"):
        for index in range(len(getattr(program, name))):
            assert (name, index) in positions


@settings(max_examples=draws(50, fuzz=100))
@given(programs)
def test_every_part_has_its_place(program: Program) -> None:
    assert_placed(program)


def test_places_of_the_sample() -> None:
    assert_placed(SAMPLE)
    text, positions = format_with_positions(SAMPLE)
    lines = text.split("\n")

    def line_at(*path: int | str) -> str:
        return lines[positions[path].line - 1].strip()

    assert line_at() == line_at("inputs", 0)
    assert line_at().startswith("program @sample(")
    assert line_at("definitions", 0, "grid").startswith("grid = ")
    assert line_at("definitions", 0, "constants", 1) == "constant SCALE = 0.5"
    assert line_at("definitions", 0, "configs", 1) == "config"
    assert line_at("definitions", 0, "source") == "source {"
    assert line_at("definitions", 1, "choices", 0) == "choice @add(0, 1, 2, 3)"
    assert line_at("definitions", 1, "selection") == "select forced(0)"
    assert line_at("lines", 15, "on_true") == "true (%p: f32[4]) {"
    assert line_at("lines", 15, "on_true", "lines", 0) == 'comment "inside"'
    assert line_at("lines", 15, "on_true", "results") == "return %p"
    assert line_at("lines", 16, "body", "parameters", 0) == "body (%p: f32[4]) {"
    assert line_at("outputs") == "return %x, s0, none"


def test_unknown_paths_have_no_place() -> None:
    _, positions = format_with_positions(SAMPLE)
    unknown: list[LinePath] = [
        ("lines",),
        ("lines", 99),
        ("lines", -1),
        ("lines", "x"),
        ("lines", 0, "type"),
        ("lines", 0, "on_true"),
        ("lines", 15, "on_true", "outputs"),
        ("inputs",),
        ("inputs", 0, "type"),
        ("definitions", 0, "nothing"),
        ("nothing", 0),
        (0,),
    ]
    for path in unknown:
        assert path not in positions
        assert positions.get(path) is None


def test_positions_count_the_lines_of_the_file() -> None:
    text = (
        "\n# a remark\nwrapperir 1\n\nprogram @main() {\n\n   free %a  # b\n  return\n}\n"
    )
    position = parse_with_positions(text).positions["lines", 0]
    assert (position.line, position.column) == (7, 4)
