"""Selections, sizes and workspaces of choices: how they are written, and what is not."""

import json
import textwrap

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.ir import (
    Access,
    BufferParameter,
    ComputedChoice,
    DType,
    Expr,
    ForcedChoice,
    Hint,
    KernelChoice,
    KernelSize,
    MultiKernelLine,
    NearestChoice,
    Parameter,
    Program,
    RecordedChoice,
    ScalarParameter,
    Selection,
    Symbol,
    WorkspaceNeed,
    ZeroMode,
)
from wrapperir.testing.arbitrary import selections
from wrapperir.text import (
    format_json,
    format_line,
    format_program,
    format_with_positions,
    parse_json,
    parse_program,
)

from .samples import SELECTIONS

PARAMETERS: tuple[Parameter, ...] = (
    BufferParameter("a", DType.F32, Access.READ),
    BufferParameter("ws", DType.U8, Access.READ_WRITE),
    ScalarParameter("n", DType.I64),
)
LINE = MultiKernelLine(
    name="mm",
    parameters=PARAMETERS,
    sizes=(KernelSize("M", 0, 0), KernelSize("N", 0, 1)),
    choices=(
        KernelChoice("small", (0, 2)),
        KernelChoice(
            "two",
            (0, 1, 0),
            (
                WorkspaceNeed(1, Symbol("n") * 4096, ZeroMode.ZERO_ON_CALL),
                WorkspaceNeed(2, 16, ZeroMode.UNINITIALIZED),
            ),
        ),
    ),
    selection=NearestChoice((Hint(0, (64, 64)), Hint(1, (4096, 0)))),
)
TEXT = """\
multi_kernel @mm(a: read f32*, ws: read_write u8*, n: i64) {
  size M = size(a, 0)
  size N = size(a, 1)
  choice @small(0, 2)
  choice @two(0, 1, 0) workspace(ws, n * 4096, zero_on_call) workspace(n, 16, uninitialized)
  select nearest_shape(0: (64, 64), 1: (4096, 0))
}"""


def of(line: MultiKernelLine) -> Program:
    return Program(
        name="main",
        inputs=(),
        symbols=(),
        constants=(),
        definitions=(line,),
        lines=(),
        outputs=(),
    )


def selected(selection: Selection) -> MultiKernelLine:
    return attrs.evolve(LINE, selection=selection)


def test_a_multi_kernel_is_written_line_by_line() -> None:
    assert format_line(LINE).rstrip("\n") == TEXT
    (read,) = parse_program(format_program(of(LINE))).definitions
    assert repr(read) == repr(LINE)


@pytest.mark.parametrize(
    ("selection", "text"),
    list(
        zip(
            SELECTIONS,
            (
                "first",
                "forced(1)",
                "benchmark",
                "recorded(1)",
                'recorded(1) microseconds(12.5, none, 3) on "a \\"GPU\\", torch 2.11"',
                "recorded(0) microseconds(1e-05)",
                "nearest_shape(0: (64, 64), 1: (4096, 0))",
                "computed(0)",
                'computed(where(M * N <= 65536, 0, 1)) on "a \\"GPU\\", torch 2.11"',
            ),
            strict=True,
        )
    ),
)
def test_each_policy_has_its_spelling(selection: Selection, text: str) -> None:
    line = selected(selection)
    assert format_line(line).split("\n")[-2] == f"  select {text}"
    (read,) = parse_program(format_program(of(line))).definitions
    assert repr(read) == repr(line)


@given(selections)
def test_selections_survive_both_forms(selection: Selection) -> None:
    program = of(selected(selection))
    assert repr(parse_program(format_program(program))) == repr(program)
    assert repr(parse_json(format_json(program))) == repr(program)


SIZES = st.lists(
    st.builds(KernelSize, st.sampled_from("MN"), st.integers(-1, 4), st.just(0)), max_size=5
)


@given(st.lists(st.sampled_from("abn"), max_size=4), SIZES)
def test_a_parameter_is_named_where_its_name_means_it(
    names: list[str], sizes: list[KernelSize]
) -> None:
    parameters = tuple(ScalarParameter(name, DType.I64) for name in names)
    line = attrs.evolve(LINE, parameters=parameters, sizes=tuple(sizes), choices=())
    lines = format_line(line).split("\n")[1 : 1 + len(sizes)]
    for size, text in zip(sizes, lines, strict=True):
        at = size.parameter
        named = 0 <= at < len(names) and names.index(names[at]) == at
        shown = names[at] if named else str(at)
        assert text == f"  size {size.name} = size({shown}, 0)"
    assert parse_program(format_program(of(line))).definitions == (line,)


def test_parts_have_positions() -> None:
    text, positions = format_with_positions(of(LINE))
    lines = text.split("\n")
    for part, begins in (
        (("sizes", 1), "size N"),
        (("choices", 1), "choice @two"),
        (("selection",), "select nearest_shape"),
    ):
        position = positions[("definitions", 0, *part)]
        assert lines[position.line - 1][position.column - 1 :].startswith(begins)


def diagnostic(lines: str) -> tuple[Diagnostic, str]:
    """Return the one error in a multi-kernel, and the text that its caret is under."""
    text = (
        "wrapperir 1\nmulti_kernel @m(left: read f32*, n: i64) {\n"
        + textwrap.indent(lines, "  ")
        + "\n}\nprogram @main() {\n  return\n}\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        parse_program(text)
    (found,) = caught.value.diagnostics
    position = found.position
    assert position is not None
    line = text.split("\n")[position.line - 1]
    return found, line[position.column - 1 : position.column - 1 + position.length]


@pytest.mark.parametrize(
    ("lines", "code", "caret", "hint"),
    [
        ("select fastest", Code.UNKNOWN_WORD, "fastest", "one of `first`, `forced`, "),
        ("select nearest", Code.UNKNOWN_WORD, "nearest", "did you mean `nearest_shape`?"),
        ("select record(1)", Code.UNKNOWN_WORD, "record", "did you mean `recorded`?"),
        ("select forced(x)", Code.UNEXPECTED, "x", None),
        ("select", Code.UNEXPECTED, "", None),
        ("select recorded(0) microseconds(1, -2.5)", Code.BAD_NUMBER, "-2.5", "times are"),
        ("select recorded(0) microseconds(inf)", Code.BAD_NUMBER, "inf", "times are"),
        ("select recorded(0) microseconds(- inf)", Code.BAD_NUMBER, "- inf", "times are"),
        ("select recorded(0) microseconds(nan)", Code.BAD_NUMBER, "nan", "times are"),
        ("select recorded(0) microseconds(-0.0)", Code.BAD_NUMBER, "-0.0", "times are"),
        ("select recorded(0) microseconds(1e999)", Code.BAD_NUMBER, "1e999", None),
        ("select recorded(0) microseconds(true)", Code.UNEXPECTED, "true", None),
        ("select recorded(0) on here", Code.UNEXPECTED, "here", None),
        ("select nearest_shape(0: 64)", Code.UNEXPECTED, "64", None),
        ("select nearest_shape(0: (1.5))", Code.UNEXPECTED, "1.5", None),
        (
            "select computed(wher(n, 0, 1))",
            Code.UNKNOWN_WORD,
            "wher",
            "did you mean `where`",
        ),
        ("size M = size(lft, 0)", Code.UNKNOWN_WORD, "lft", "did you mean `left`?"),
        ("size M = sizes(left, 0)", Code.UNEXPECTED, "sizes", None),
        ("size M = size(a.b, 0)", Code.BAD_NAME, "a.b", None),
        ("size M = size(%left, 0)", Code.UNEXPECTED, "%left", None),
        ("choice @k(0) workspace(ws, 4, zeroed)", Code.UNKNOWN_WORD, "ws", "`left`, `n`"),
        (
            "choice @k(0) workspace(n, 4, zeroed)",
            Code.UNKNOWN_WORD,
            "zeroed",
            "zero_on_call",
        ),
        (
            "select first\nsize M = size(left, 0)",
            Code.MISPLACED_STATEMENT,
            "size",
            "order is",
        ),
        ("choice @k()\nsize M = size(n, 0)", Code.MISPLACED_STATEMENT, "size", "order is"),
        ("select first\nselect first", Code.MISPLACED_STATEMENT, "select", None),
    ],
)
def test_errors_say_where_and_what_to_do(
    lines: str, code: Code, caret: str, hint: str | None
) -> None:
    found, shown = diagnostic(lines)
    assert (found.code, shown) == (code, caret)
    assert (hint or "") in (found.hint or "")


def test_a_broken_first_line_makes_no_errors_of_names() -> None:
    text = (
        "wrapperir 1\nmulti_kernel @m(left: reads f32*) {\n"
        "  size M = size(left, 0)\n"
        "  choice @k(0) workspace(left, 4, zero_on_call)\n"
        "  select fist\n}\nprogram @main() {\n  return\n}\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        parse_program(text)
    assert [d.position.line for d in caught.value.diagnostics if d.position] == [2, 5]


BAD_TIMES = [float("inf"), float("nan"), -1.0, -3, -0.0]


@pytest.mark.parametrize("time", BAD_TIMES, ids=repr)
def test_a_time_that_is_none_is_not_written(time: float) -> None:
    program = of(selected(RecordedChoice(0, (1.0, time))))
    for write in (format_program, format_json):
        with pytest.raises(DiagnosticError) as caught:
            write(program)
        (found,) = caught.value.diagnostics
        assert found.code is Code.BAD_NUMBER
        assert found.path is not None
        assert found.path[:2] == ("definitions", 0)


@pytest.mark.parametrize(
    "selection",
    [
        RecordedChoice(0, (True,)),
        RecordedChoice(0, ("1",)),  # type: ignore[arg-type]
        RecordedChoice("0"),  # type: ignore[arg-type]
        NearestChoice((Hint(0, ("64",)),)),  # type: ignore[arg-type]
        NearestChoice((0,)),  # type: ignore[arg-type]
        ComputedChoice("0"),  # type: ignore[arg-type]
        ForcedChoice(None),  # type: ignore[arg-type]
        "first",
        None,
    ],
    ids=repr,
)
def test_what_is_no_selection_is_not_written(selection: Selection) -> None:
    for write in (format_program, format_json):
        with pytest.raises(DiagnosticError) as caught:
            write(of(selected(selection)))
        (found,) = caught.value.diagnostics
        assert found.code is Code.UNWRITABLE_VALUE


def document(selection: object) -> str:
    text = format_json(of(LINE))
    loaded = json.loads(text)
    loaded["definitions"][0]["selection"] = selection
    return json.dumps(loaded)


def test_json_has_the_same_data() -> None:
    loaded = json.loads(format_json(of(LINE)))["definitions"][0]
    assert loaded["sizes"][1] == {"name": "N", "parameter": 0, "dim": 1}
    assert loaded["choices"][0] == {"kernel": "small", "arguments": [0, 2]}
    assert loaded["choices"][1]["workspaces"][1] == {
        "parameter": 2,
        "count": 16,
        "mode": "uninitialized",
    }
    assert loaded["selection"] == {
        "kind": "nearest_shape",
        "hints": [{"choice": 0, "sizes": [64, 64]}, {"choice": 1, "sizes": [4096, 0]}],
    }


@pytest.mark.parametrize(
    ("selection", "code", "path"),
    [
        ({"kind": "fastest"}, Code.UNKNOWN_WORD, ("kind",)),
        ({"kind": "recorded"}, Code.MISSING_FIELD, ()),
        (
            {"kind": "recorded", "index": 0, "microseconds": [None, -1.0]},
            Code.BAD_NUMBER,
            ("microseconds", 1),
        ),
        (
            {"kind": "recorded", "index": 0, "microseconds": [{"float": "nan"}]},
            Code.BAD_NUMBER,
            ("microseconds", 0),
        ),
        (
            {"kind": "recorded", "index": 0, "microseconds": [True]},
            Code.WRONG_TYPE,
            ("microseconds", 0),
        ),
        (
            {"kind": "nearest_shape", "hints": [{"choice": 0}]},
            Code.MISSING_FIELD,
            ("hints", 0),
        ),
        (
            {"kind": "nearest_shape", "hints": [{"choice": 0, "sizes": [1.0]}]},
            Code.WRONG_TYPE,
            ("hints", 0, "sizes", 0),
        ),
        ({"kind": "computed", "index": "0"}, Code.WRONG_TYPE, ("index",)),
        ({"kind": "benchmark", "index": 0}, Code.UNKNOWN_FIELD, ()),
    ],
)
def test_json_errors_say_where(
    selection: object, code: Code, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_json(document(selection))
    (found,) = caught.value.diagnostics
    assert found.code is code
    assert found.path == ("definitions", 0, "selection", *path)


def test_a_computed_choice_may_be_any_expression() -> None:
    index: Expr = Symbol("M") // 3
    program = of(selected(ComputedChoice(index, "line\nbreak # {")))
    assert parse_program(format_program(program)) == program
    assert parse_json(format_json(program)) == program
