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
from wrapperir.report.copies import CopyReason
from wrapperir.report.explained_parts import SubjectKind
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

program @main(%x: f32[8, 8], %w: f32[8, 8] from "layers.0.fc.weight") {
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
        ("layers.0.fc.weight", SubjectKind.BUFFER, [11, 13], []),
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


HELD = """\
wrapperir 1

program @main(
    %x: f32[8], %w: f32[8] from "layers.0.fc.weight",
    %m: mutated f32[8] from "layers.0.mean", %v: f32[8] from "layers.1.fc.weight",
    %unused: f32[2] from "head.scale") {
  constant %b: f32[8] = "layers.1.fc.bias"

  %y = extern_kernel aten.mul.Tensor(%x, %w) : f32[8] from(mul)
  return %y
}

origins {
  mul: aten.mul.Tensor in "layers.0"
}
""".replace("\n    ", " ")


@pytest.mark.parametrize(
    ("subject", "names"),
    [
        ("layers.0", ["w", "m"]),
        ("layers.0.fc", ["w"]),
        ("layers", ["w", "m", "v", "b"]),
        ("layers.1", ["v", "b"]),
        ("head", ["unused"]),
        ("head.scale", ["unused"]),
        ("%b", ["b"]),
        ("%x", []),
        ("mul", []),
    ],
)
def test_a_module_has_its_parameters(subject: str, names: list[str]) -> None:
    found = explained(subject, HELD)
    assert [each.name for each in found.parameters] == names
    document = json.loads(format_explanation_json(found))
    assert [each["name"] for each in document["parameters"]] == names
    assert all(each["type"].startswith("f32[") for each in document["parameters"])


def test_equal_parameters_of_layers_are_one_row() -> None:
    text = format_explanation(explained("layers", HELD))
    assert text.startswith(
        """\
what became of module layers
1 line, 0 kernels, 1 node, 4 parameters

parameters:
  layers.0-1.fc.weight, 2 times: %w: f32[8]
  layers.0.mean: %m: mutated f32[8]
  layers.1.fc.bias: %b: f32[8]

lines:
"""
    )


TIED = HELD.replace('fc.bias"\n', 'fc.bias" tied "head.bias" tied "lm.bias"\n')


@pytest.mark.parametrize("subject", ["layers.1.fc.bias", "head.bias", "lm.bias"])
def test_tied_weights_are_one_by_each_of_their_paths(subject: str) -> None:
    found = explained(subject, TIED)
    assert found.subject == "%b"
    row = "layers.1.fc.bias, tied to head.bias, lm.bias: %b: f32[8]"
    assert row in format_explanation(found)
    assert row in format_explanation(explained(subject.rpartition(".")[0], TIED))
    (object_of,) = json.loads(format_explanation_json(found))["parameters"]
    assert object_of["tied"] == ["head.bias", "lm.bias"]


@pytest.mark.parametrize("subject", ["layer", "head.s", "layers.0.fc.weights", "fc"])
def test_a_path_that_is_not_there_is_refused(subject: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        explained(subject, HELD)
    assert raised.value.diagnostics[0].code is Code.NOTHING_TO_EXPLAIN


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
      reads 256 bytes, writes 256 bytes, of whole values

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


COPY = TEXT.replace(
    """  free %y
  return %z
""",
    """  %v = reinterpret %z as f32[8, 8; stride 1, 8] from(t)
  %c = extern_kernel aten.clone.default(%v) : f32[8, 8] from(clone)
  %p = extern_kernel aten.mm.default(%c, %y) : f32[8, 8] from(mm_1)
  free %y
  return %z, %p
""",
).replace(
    "  neg: aten",
    """  t: aten.t.default at 2
  clone: aten.clone.default at 2
  mm_1: aten.mm.default in "layers.1.fc" at 1
  neg: aten""",
)


def test_a_copy_names_the_views_that_it_copies_and_who_reads_it() -> None:
    (line,) = explained("clone", COPY).lines
    copy = CopyReason(
        values=("c",),
        views=("t",),
        readers=(18,),
        whole=True,
        nodes=("clone",),
        sources=("v",),
        layouts=("stride 1, 8", "contiguous"),
        bytes=256,
    )
    assert line.copies == (copy,)
    shown = format_explanation(explained("clone", COPY))
    words = (
        "copies %v through t to %c, from stride 1, 8 to contiguous, 256 bytes, for clone"
    )
    assert f"      {words}, read by line 18\n" in shown
    assert [line.copies for line in explained(None).lines] == [(), ()]


def test_a_buffer_is_explained_by_what_is_done_to_its_views() -> None:
    lines = explained("%z", COPY).lines
    done = [(line.text.split(" from")[0], line.does) for line in lines]
    assert ("%v = reinterpret %z as f32[8, 8; stride 1, 8]", ("views",)) in done
    clone = "%c = extern_kernel aten.clone.default(%v) : f32[8, 8]"
    assert (clone, ("reads a view",)) in done
    assert not [line for line in lines if "aten.mm" in line.text and "%c" in line.text]


def test_a_kernel_that_does_more_also_copies() -> None:
    text = COPY.replace(
        "kernel_call @fused(%y, %z) from(fused 0)",
        "kernel_call @fused(%y, %z) from(clone, neg, t)",
    )
    clone = "  clone: aten.clone.default at 2\n"
    before, neg, after = text.replace(clone, "").partition("  neg: ")
    rest, end, last = after.partition("\n")
    assert explained("clone", text).lines[0].copies == ()  # neg computes with the clone
    text = f"{before}{neg}{rest}{end}{clone}{last}"
    (line, _) = explained("clone", text).lines
    (copy,) = line.copies
    assert not copy.whole
    shown = format_explanation(explained("@fused", text))
    words = "writes what it computes as clone lays it out, without a copy"
    rest = ", and reads through t, 256 bytes, read by line 17, returned"
    assert f"      {words}{rest}\n" in shown


TWO_LOOPS = """\
wrapperir 1

kernel_definition @both cpp(x: read f32*, y: write f32*, z: write f32*) {
  entry = both
  source {
    | extern "C" void both(const float* x, float* y, float* z) {}
  }
}

program @main(%x: f32[8, 8]) {
  %y = allocate f32[8, 8] from(exp)
  %z = allocate f32[8, 8] from(clone, t)
  kernel_call @both(%x, %y, %z) from(exp, clone, t)
  %a = extern_kernel aten.neg.default(%y) : f32[8, 8] from(neg)
  %b = extern_kernel aten.neg.default(%z) : f32[8, 8] from(neg_1)
  kernel_call @both(%x, %b, %y) from(exp, clone, t)
  return %a, %b, %y, %z
}

origins {
  exp: aten.exp.default
  t: aten.t.default
  clone: aten.clone.default
  neg, neg_1: aten.neg.default
}
"""


def test_what_separate_loops_write_has_its_own_nodes_and_readers() -> None:
    (made, first, read, later) = explained("%y", TWO_LOOPS).lines
    assert (made.nodes, first.nodes, first.others) == (("exp",), ("exp",), ("clone", "t"))
    assert (read.does, later.others) == (("reads",), ())
    (kernel, *_) = explained("@both", TWO_LOOPS).lines
    (copy,) = kernel.copies
    assert copy == CopyReason(
        values=("z",),
        views=("t",),
        readers=(15,),
        whole=True,
        nodes=("clone",),
        bytes=256,
        returned=True,
    )
    shown = format_explanation(explained("@both", TWO_LOOPS))
    words = "copies what it reads through t to %z, 256 bytes, for clone"
    assert f"      {words}, read by line 15, returned\n" in shown
    nodes = [x.origin.name for x in explained("%z", TWO_LOOPS).nodes]
    assert nodes == ["clone", "t"]
    nodes = [x.origin.name for x in explained("%y", TWO_LOOPS).nodes]
    assert nodes == ["exp", "clone", "t"]  # either loop may have written it later


def test_equal_lines_and_nodes_of_equal_layers_are_shown_once() -> None:
    text = COPY.replace("aten.mm.default(%x, %w)", "aten.mm.default(%x, %x)")
    shown = format_explanation(explained("model.py:12", text))
    assert (
        "  11: %y = extern_kernel aten.mm.default(%x, %x) : f32[8, 8]\n"
        "      2 times, in layers.0-1.fc; also 18\n"
        "      from mm\n" in shown
    )
    assert "    mm (aten.mm.default) in layers.0-1.fc, 2 times\n" in shown
    document = json.loads(format_explanation_json(explained("model.py:12", text)))
    assert [line["equal_to"] for line in document["lines"]] == [11, 11]


def test_a_line_without_operators_is_told_from_an_unknown_file() -> None:
    with pytest.raises(DiagnosticError) as raised:
        explained("act.py:4")
    (found,) = raised.value.diagnostics
    assert found.message == "no operator of the program came from 'act.py:4'"
    assert "3 before" in (found.hint or "")
    with pytest.raises(DiagnosticError) as raised:
        explained("acts.py:4")
    assert raised.value.diagnostics[0].message.startswith("the program has nothing from")


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
        *(each.path for each in program.inputs if each.path is not None),
    ]
    found = explain(program, positions, data.draw(st.sampled_from(subjects)))
    assert format_explanation(found)
    assert json.loads(format_explanation_json(found))["program"] == program.name
    listed = {origin.name for origin in program.origins}
    for line in found.lines:
        assert listed.issuperset((*line.nodes, *line.others))
        assert not {*line.nodes} & {*line.others}
