"""Copies that kernels declare are told with what is copied, to which layout, for whom."""

import json

import pytest

from tests.report.test_explanation import explained
from wrapperir.ir import KernelCopy, KernelDefinitionLine
from wrapperir.report import (
    copy_reasons,
    format_explanation,
    format_explanation_json,
    line_flow,
)
from wrapperir.text import parse_program
from wrapperir.verify import verify

FUSED_COPY = """\
wrapperir 1

kernel_definition @fused cpp(x: read f32*, w: read f32*, \
y: write f32*, v: write f32*, c: write f32*) {
  entry = fused
  metadata "copies.v.w" = "all"
  metadata "copies.c.y" = 64
  source {
    | extern "C" void fused(const float*, const float*, float*, float*, float*) {}
  }
}

program @main(%x: f32[1, 4, 4, 4], %w: f32[2, 4, 3, 3]) {
  %y = allocate f32[1, 4, 4, 4; stride 64, 1, 16, 4] from(sin)
  %v = allocate f32[2, 4, 3, 3; stride 36, 1, 12, 4] from(conv)
  %c = allocate f32[1, 8, 4, 4] from(cat)
  kernel_call @fused(%x, %w, %y, %v, %c) from(sin, cat)
  %z = extern_kernel aten.convolution.default(%y, %v) : f32[1, 2, 2, 2] from(conv)
  free %y
  free %v
  return %z, %c
}

origins {
  sin: aten.sin.default
  conv: aten.convolution.default
  cat: aten.cat.default
}
"""


def test_a_copy_for_a_call_that_is_fused_is_told_with_its_layouts() -> None:
    program = parse_program(FUSED_COPY)
    assert verify(program) == ()
    (laid_out, joined) = explained("@fused", FUSED_COPY).lines[0].copies
    assert laid_out.sources == ("w",)
    assert laid_out.layouts == ("contiguous", "channels last")
    shown = format_explanation(explained("@fused", FUSED_COPY))
    assert (
        "copies %w to %v, from contiguous to channels last, 288 bytes, for conv, read by "
        "line 17; fused with sin, cat\n" in shown
    )
    assert (
        "copies %y to a part of %c, 256 bytes, for cat, returned; fused with sin\n" in shown
    )
    assert joined.part_of == "c"
    document = json.loads(format_explanation_json(explained("@fused", FUSED_COPY)))
    assert document["lines"][0]["copies"][0]["fused_with"] == ["sin", "cat"]


def test_what_is_copied_through_views_has_their_layout() -> None:
    text = FUSED_COPY.replace("%w: f32[2, 4, 3, 3]", "%w: f32[24, 6]").replace(
        '"copies.v.w" = "all"',
        '"copies.v.w" = "all"\n  metadata "copies.v.w.axes" = "2 36 72, 9 4 4, 4 1 1"',
    )
    assert verify(parse_program(text)) == ()
    (laid_out, _) = explained("@fused", text).lines[0].copies
    assert laid_out.layouts == ("stride 72, 1, 12, 4", "channels last")
    partial = text.replace('"copies.v.w" = "all"', '"copies.v.w" = 4')
    assert explained("@fused", partial).lines[0].copies[0].layouts == ()


def test_what_is_computed_and_stored_twice_is_not_read_again() -> None:
    text = FUSED_COPY.replace(
        '"copies.c.y" = 64', '"copies.c.y" = 64\n  metadata "copies.c.y.computed" = true'
    )
    (_, joined) = explained("@fused", text).lines[0].copies
    assert (joined.whole, joined.sources) == (False, ("y",))
    assert (
        "writes what it computes for %y to a part of %c too, without reading it again, "
        "256 bytes, for cat, returned; fused with sin\n"
    ) in format_explanation(explained("@fused", text))


def _with_views(*changes: tuple[str, str]) -> str:
    """Return the program with its text changed, and three views among its nodes."""
    text = FUSED_COPY
    for old, new in (
        *changes,
        ("from(sin, cat)", "from(sin, cat, expand, permute, split)"),
    ):
        assert old in text
        text = text.replace(old, new)
    views = [f"  {name}: aten.{name}.default\n" for name in ("expand", "permute", "split")]
    return "".join([text.removesuffix("}\n"), *views, "}\n"])


def test_views_that_computed_what_is_copied_are_not_those_of_the_copy() -> None:
    changes = (
        ("from(sin)", "from(sin, expand)"),
        ("from(cat)", "from(cat, expand, permute)"),
    )
    program = parse_program(_with_views(*changes))
    ((_, joined),) = copy_reasons(program, line_flow(program)).values()
    assert joined.sources == ("y",)
    assert joined.views == ("permute",)


def test_a_copy_of_a_view_is_for_the_call_that_reads_it() -> None:
    change = "36, 1, 12, 4] from(conv)", "36, 1, 12, 4] from(split)"
    program = parse_program(_with_views(change))
    ((laid_out, _),) = copy_reasons(program, line_flow(program)).values()
    assert (laid_out.nodes, laid_out.views) == (("conv",), ("split",))


def test_who_reads_a_copy_says_so() -> None:
    (*_, call) = explained("conv", FUSED_COPY).lines
    (read,) = call.read_copies
    assert (read.line, read.values, read.sources) == (16, ("v",), ("w",))
    shown = format_explanation(explained("conv", FUSED_COPY))
    assert "      reads a copy of %w in %v, made by line 16\n" in shown
    made, _ = explained("%v", FUSED_COPY).lines[:2]
    assert made.nodes == ("conv",)
    assert [x.origin.name for x in explained("%v", FUSED_COPY).nodes] == ["conv"]


def test_an_operator_that_moves_elements_does_not_copy() -> None:
    text = FUSED_COPY.replace("aten.cat.default", "aten.flip.default")
    program = parse_program(text)
    ((laid_out,),) = copy_reasons(program, line_flow(program)).values()
    assert laid_out.values == ("v",)


def test_metadata_that_names_no_parameter_is_left_out() -> None:
    text = FUSED_COPY.replace('"copies.v.w" = "all"', '"copies.v.other" = "all"')
    program = parse_program(text.replace('"copies.c.y" = 64', '"copies.c" = true'))
    assert verify(program) == ()
    assert copy_reasons(program, line_flow(program)) == {}
    (kernel,) = program.definitions
    assert isinstance(kernel, KernelDefinitionLine)
    assert kernel.copies == (KernelCopy("v", "other", whole=True),)


def test_an_operator_that_joins_copies_its_arguments() -> None:
    text = """\
wrapperir 1

program @main(%x: f32[4], %y: f32[4]) {
  %z = extern_kernel aten.cat.default([%x, %y]) : f32[8] from(cat)
  return %z
}

origins {
  cat: aten.cat.default
}
"""
    (line,) = explained("cat", text).lines
    (copy,) = line.copies
    assert (copy.nodes, copy.bytes, copy.returned) == (("cat",), 32, True)


FLAG = """\
wrapperir 1

kernel_definition @checked cpp(x: read f32*, y: write f32*, z: write f32*, \
fault: read_write i32*) {
  entry = checked
  metadata "copies.z.x" = 8
  source {
    | extern "C" void checked(const float*, float*, float*, int*) {}
  }
}

program @main(%x: f32[8]) {
  %y = allocate f32[8] from(index)
  %z = allocate f32[8] from(clone)
  %fault = allocate i32[1] workspace(zero_on_call) from(index)
  kernel_call @checked(%x, %y, %z, %fault) from(index, clone)
  free %fault
  return %y, %z
}

origins {
  index: aten.index.Tensor
  clone: aten.clone.default
}
"""


def test_the_flag_of_a_check_has_the_nodes_of_the_check() -> None:
    program = parse_program(FLAG)
    assert verify(program) == ()
    writes = line_flow(program).writes[3]
    assert {each.name: each.origins for each in writes} == {
        "y": ("index",),
        "z": ("clone",),
        "fault": ("index",),
    }


@pytest.mark.parametrize("nodes", ["index", "index, clone"])
def test_a_workspace_is_not_a_copy_or_in_place_of_one(nodes: str) -> None:
    text = FLAG.replace("(zero_on_call) from(index)", f"(zero_on_call) from({nodes})")
    program = parse_program(text)
    ((reason,),) = copy_reasons(program, line_flow(program)).values()
    assert (reason.values, reason.whole) == (("z",), True)


def test_results_of_several_shapes_are_not_told_to_be_one_clones() -> None:
    text = FLAG.replace('  metadata "copies.z.x" = 8\n', "")
    text = text.replace("f32[8] from(clone)", "f32[4]")
    text = text.replace("f32[8] from(index)", "f32[8]")
    program = parse_program(text)
    assert copy_reasons(program, line_flow(program)) == {}


SCATTERED = """\
wrapperir 1

kernel_definition @fill cpp(x: read f32*, y: write f32*, z: write f32*) {
  entry = fill
  metadata "copies.y.x" = 8
  source {
    | extern "C" void fill(const float*, float*, float*) {}
  }
}

program @main(%x: f32[8]) {
  %y = allocate f32[3, 8] from(select_scatter, full)
  %z = allocate f32[8, 3] from(clone, full, add)
  kernel_call @fill(%x, %y, %z) from(full, select_scatter, add, clone)
  free %y
  return %z
}

origins {
  full, select_scatter: aten.select_backward.default
  add: aten.add.Tensor
  clone: aten.clone.default
}
"""


@pytest.mark.parametrize(
    "operator", ["aten.select_backward.default", "aten.select_scatter.default"]
)
def test_what_is_scattered_to_a_part_is_a_copy(operator: str) -> None:
    program = parse_program(SCATTERED.replace("aten.select_backward.default", operator))
    assert verify(program) == ()
    ((copy, clone),) = copy_reasons(program, line_flow(program)).values()
    assert (copy.sources, copy.values, copy.part_of) == (("x",), ("y",), "y")
    assert (copy.nodes, copy.whole, copy.bytes) == (("select_scatter",), True, 32)
    assert (clone.values, clone.nodes, clone.whole) == (("z",), ("clone",), False)
