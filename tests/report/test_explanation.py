"""What source places, modules, nodes, kernels and buffers became, or came from."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Program
from wrapperir.report import (
    Explanation,
    explain,
    format_explanation,
    format_explanation_json,
)
from wrapperir.report.explanation import SubjectKind
from wrapperir.testing.programs import programs
from wrapperir.text import format_with_positions, parse_with_positions

TEXT = """\
wrapperir 1

kernel_definition @fused cpp(x: read f32*, y: write f32*) {
  entry = fused
  source {
    | extern "C" void fused(const float* x, float* y) {}
  }
}

program @main(%x: f32[8, 8], %w: f32[8, 8]) {
  %y = extern_kernel aten.mm.default(%x, %w) : f32[8, 8] from(mm)
  free %x by(insert_frees)
  free %w by(insert_frees)
  %z = allocate f32[8, 8] from(fused 0) by(plan_memory)
  kernel_call @fused(%y, %z) from(fused 0)
  free %y
  return %z
}

origins {
  place 0: "/home/me/main.py" 40 "<module>"
  place 1: "/home/me/model.py" 12 "forward" from 0
  place 2: "/home/me/model.py" 13 "forward" from 0
  place 3: "/home/me/act.py" 3 "gelu" from 2
  fused 0: mul, erf, add, mul_1, neg
  mm: aten.mm.default in "layers.0.fc" at 1
  mul, erf, add, mul_1: aten.gelu.default in "layers.0" at 3
  neg: aten.neg.default at 2
}
"""


def explained(subject: str | None, text: str = TEXT) -> Explanation:
    parsed = parse_with_positions(text)
    return explain(parsed.program, parsed.positions, subject)


def numbers(explanation: Explanation) -> list[int | None]:
    return [line.number for line in explanation.lines]


@pytest.mark.parametrize(
    ("subject", "kind", "lines", "nodes"),
    [
        ("model.py:12", SubjectKind.PLACE, [11], ["mm"]),
        ("me/model.py:13", SubjectKind.PLACE, [14, 15], None),
        ("/home/me/act.py:3", SubjectKind.PLACE, [14, 15], ["mul", "erf", "add", "mul_1"]),
        ("act.py", SubjectKind.PLACE, [14, 15], ["mul", "erf", "add", "mul_1"]),
        ("main.py:40", SubjectKind.PLACE, [11, 14, 15], None),
        ("layers.0", SubjectKind.MODULE, [11, 14, 15], None),
        ("layers.0.fc", SubjectKind.MODULE, [11], ["mm"]),
        ("erf", SubjectKind.NODE, [14, 15], ["erf"]),
        ("@fused", SubjectKind.KERNEL, [15], ["mul", "erf", "add", "mul_1", "neg"]),
        ("%z", SubjectKind.BUFFER, [14, 15], ["mul", "erf", "add", "mul_1", "neg"]),
        ("%y", SubjectKind.BUFFER, [11, 15, 16], ["mm"]),
        ("%x", SubjectKind.BUFFER, [11, 12], []),
        (None, SubjectKind.PROGRAM, [11, 15], None),
    ],
)
def test_a_subject_has_its_lines_and_nodes(
    subject: str | None, kind: SubjectKind, lines: list[int], nodes: list[str] | None
) -> None:
    found = explained(subject)
    assert found.kind is kind
    assert numbers(found) == lines
    if nodes is not None:
        assert [node.origin.name for node in found.nodes] == nodes


def test_a_line_says_what_it_is_fused_with_and_what_it_does() -> None:
    (_, call) = explained("act.py:3").lines
    assert (call.nodes, call.others) == (("mul", "erf", "add", "mul_1"), ("neg",))
    assert call.kernel == "fused"
    assert [line.does for line in explained("%y").lines] == [
        ("makes", "writes"),
        ("reads",),
        ("drops",),
    ]


@pytest.mark.parametrize("subject", ["model.py:99", "layer.0", "@fuse", "%q", "er", ""])
def test_what_is_not_there_is_refused(subject: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        explained(subject)
    (found,) = raised.value.diagnostics
    assert found.code is Code.NOTHING_TO_EXPLAIN
    assert found.hint


def test_the_text_has_lines_and_a_tree_of_places() -> None:
    assert (
        format_explanation(explained("@fused"))
        == """\
where kernel @fused came from
1 line, 1 kernel, 5 nodes

lines:
  15: kernel_call @fused(%y, %z)
      from mul, erf, add, mul_1, neg

source:
  /home/me/main.py:40, in <module>
    /home/me/model.py:13, in forward
      neg (aten.neg.default)
      /home/me/act.py:3, in gelu
        mul, erf, add, mul_1 (aten.gelu.default) in layers.0
"""
    )
    text = format_explanation(explained("layers.0"))
    assert "      fused with neg\n      by plan_memory\n" in text


def test_json_has_everything() -> None:
    document = json.loads(format_explanation_json(explained("act.py:3")))
    assert document["kind"] == "place"
    assert document["kernels"] == ["fused"]
    assert document["lines"][1]["fused_with"] == ["neg"]
    assert document["lines"][1]["values"] == ["z"]
    assert document["nodes"][0]["stack"][-1] == {
        "file": "/home/me/act.py",
        "line": 3,
        "function": "gelu",
    }


def test_a_deep_stack_is_shown() -> None:
    places = [f'  place {n}: "a.py" {n} from {n - 1}' for n in range(1, 3000)]
    section = "\n".join(['  place 0: "a.py" 0', *places, "  fused 0: mm", "  mm: at 2999"])
    text = f"{TEXT[: TEXT.index('origins {')]}origins {{\n{section}\n}}\n"
    assert format_explanation(explained("mm", text)).count("a.py:") == 3000


@settings(max_examples=draws(40, fuzz=500))
@given(programs(), st.data())
def test_any_part_is_explained(program: Program, data: st.DataObject) -> None:
    _, positions = format_with_positions(program)
    subjects = [
        None,
        *(origin.name for origin in program.origins),
        *(f"{place.file}:{place.line}" for place in program.places),
        *(f"@{line.name}" for line in program.definitions),
        *(f"%{each.name}" for each in program.inputs),
    ]
    found = explain(program, positions, data.draw(st.sampled_from(subjects)))
    assert format_explanation(found)
    assert json.loads(format_explanation_json(found))["program"] == program.name
    listed = {origin.name for origin in program.origins}
    for line in found.lines:
        assert listed.issuperset((*line.nodes, *line.others))
        assert not {*line.nodes} & {*line.others}
