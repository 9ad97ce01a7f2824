"""Rules of graph regions beyond the examples of the reference, and their streams."""

import pytest
import torch

from tests.interp.running import run
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.text import parse_program
from wrapperir.verify import verify


def text_of(body: str, before: str = "", after: str = "", on: str = "") -> str:
    """Return a program with a region whose body is given, and lines around it."""
    body = body.replace("{ ", "{\n").replace(" }", "\n}")
    return f"""
program @main(%x: mutated f32[8], %y: mutated f32[8], %flag: bool[], %n: i64) {{
  constant %w: f32[8] = "w"
  constant %far: f32[8]@cuda:0 = "far"

{before}
  graph_region @region (%x, %flag, %n){on} {{
    body (%p: f32[8], %q: bool[], %m: i64) {{
{body}
      return
    }}
  }}
{after}
  return
}}
"""


def codes(text: str) -> list[Code]:
    return [found.code for found in verify(parse_program("wrapperir 1\n" + text))]


@pytest.mark.parametrize(
    "body",
    [
        "symbol_definition u0: int = size(%p, 0)\nassert_scalar u0 > 2",
        "symbol_definition u0: int = value(%m)\nassert_scalar u0 > 2",
        "assert_size_stride %p (8) (1)",
        "conditional 1 < 2 (%p) { true (%a: f32[8]) { return }\n"
        "false (%b: f32[8]) { return } }",
        "subgraph_call @inner (%p) { body (%a: f32[8]) { return } }",
        "%pool = allocate_pool pool[64]\n%a = place f32[8] in %pool at 0\nfree %a\n"
        "free %pool",
        "%a = allocate f32[8] workspace(zero_on_call)\nfree %a",
        "%a = reinterpret %p as f32[4]\nfree %a",
        "%a = extern_kernel aten.relu.default(%p) : f32[8]\n%b = reinterpret %a as f32[4]\n"
        "assert_alignment %a 16\nassert_alignment %b 16\nfree %a\nfree %b",
        "%a = conditional 1 < 2 (%p) : f32[8] {\n"
        "true (%b: f32[8]) { %c = allocate f32[8]\nreturn %c }\n"
        "false (%d: f32[8]) { %e = extern_kernel aten.relu.default(%d) : f32[8]\n"
        "return %e } }\nassert_alignment %a 16\nfree %a",
        "extern_kernel aten.add_.Tensor(%p, %w) writes(%p)",
        "extern_kernel mylib.anything.default(%p)",
    ],
)
def test_lines_that_a_region_may_have(body: str) -> None:
    assert codes(text_of(body)) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            "%a = extern_kernel aten.relu.default(%p) : f32[8]\n"
            "symbol_definition u0: int = size(%a, 0)\nfree %a",
            Code.GRAPH_HOST_READ,
        ),
        ("assert_alignment %p 16", Code.GRAPH_HOST_READ),
        (
            "%a = extern_kernel aten.reshape.default(%p, [8]) aliases(%p) : f32[8]\n"
            "assert_alignment %a 16\nfree %a",
            Code.GRAPH_HOST_READ,
        ),
        (
            "conditional 1 < 2 (%p) { true (%a: f32[8]) {\nassert_alignment %a 16\n"
            "return }\nfalse (%b: f32[8]) { return } }",
            Code.GRAPH_HOST_READ,
        ),
        (
            "conditional %q (%p) { true (%a: f32[8]) { return }\n"
            "false (%b: f32[8]) { return } }",
            Code.GRAPH_HOST_READ,
        ),
        (
            "conditional 1 < 2 (%p) { true (%a: f32[8]) { assert_not_nan %a\nreturn }\n"
            "false (%b: f32[8]) { return } }",
            Code.GRAPH_HOST_READ,
        ),
        ("extern_kernel aten.add_.Tensor(%p, %far) writes(%p)", Code.GRAPH_DEVICE),
        (
            "%a = extern_kernel aten._to_copy.default(%p) : f32[8]@cuda:0\nfree %a",
            Code.GRAPH_DEVICE,
        ),
        ("%a = allocate f32[8]@cuda:0\nfree %a", Code.GRAPH_DEVICE),
        ("free %p", Code.PARAMETER_DROPPED),
        ("wait_event %outer", Code.OUTER_NAME),
        (
            "subgraph_call @inner () { body () {\n"
            "extern_kernel aten.full.default([8], 1) stream(2)\nreturn } }",
            Code.NESTED_STREAM,
        ),
    ],
)
def test_lines_that_a_region_may_not_have(body: str, code: Code) -> None:
    assert codes(text_of(body, "%outer = record_event")) == [code]


def test_a_region_takes_no_pool() -> None:
    text = """
program @main() {
  %pool = allocate_pool pool[64]
  graph_region @region (%pool) {
    body (%lent: pool[64]) {
      return
    }
  }
  free %pool
  return
}
"""
    assert codes(text) == [Code.GRAPH_VALUE]


def zero(name: str, stream: int) -> str:
    return f"extern_kernel aten.zero_.default(%{name}) writes(%{name}) stream({stream})\n"


def order(event: str, first: int, then: int) -> str:
    return f"%{event} = record_event stream({first})\nwait_event %{event} stream({then})\n"


@pytest.mark.parametrize(
    ("body", "is_fault"),
    [
        (zero("p", 1), False),
        (zero("p", 0), True),
        (order("a", 1, 2) + zero("p", 2) + order("b", 2, 1), False),
        (order("a", 1, 2) + zero("p", 2), True),
        (zero("p", 2) + order("b", 2, 1), True),
        (order("a", 1, 2) + zero("p", 2) + order("b", 2, 1) + zero("p", 2), True),
        # through another stream
        (
            order("a", 1, 2) + order("b", 2, 3) + zero("p", 3) + order("c", 3, 2)
            + order("d", 2, 1),
            False,
        ),
        # the event is recorded before the work
        (
            order("a", 1, 2) + "%b = record_event stream(2)\n" + zero("p", 2)
            + "wait_event %b stream(1)",
            True,
        ),
        # on stream 0: zeroed memory, and all work of blocks
        ("%a = allocate f32[8] workspace(zero_on_call)\nfree %a", True),
        ("subgraph_call @inner (%p) { body (%a: f32[8]) { return } }", True),
        (
            order("a", 1, 0) + "subgraph_call @inner () { body () { return } }\n"
            + order("b", 0, 1),
            False,
        ),
    ],
)  # fmt: skip
def test_streams_are_forked_and_joined(body: str, is_fault: bool) -> None:
    found = codes(text_of(body, on=" stream(1)"))
    assert set(found) == ({Code.GRAPH_STREAM} if is_fault else set())


FORKED = order("a", 0, 2) + zero("p", 2) + order("b", 2, 0)


@pytest.mark.parametrize(
    ("before", "body", "after", "on", "is_race"),
    [
        (zero("x", 0), FORKED, zero("x", 0), 0, False),
        # stream 2 of a region is not the program's stream 2
        (zero("x", 2), FORKED, "", 0, True),
        (zero("x", 2) + order("e", 2, 0), FORKED, "", 0, False),
        ("", FORKED, zero("x", 2), 0, True),
        ("", FORKED, order("e", 0, 2) + zero("x", 2), 0, False),
        # nor is it that of another region
        ("", zero("p", 1), zero("x", 0), 1, True),
        ("", zero("p", 1), order("e", 1, 0) + zero("x", 0), 1, False),
        ("", zero("p", 1), zero("x", 1), 1, False),
        # between streams of one region
        (
            "",
            order("a", 0, 2) + zero("p", 0) + zero("p", 2) + order("b", 2, 0),
            "",
            0,
            True,
        ),
        ("", zero("p", 0) + FORKED + zero("p", 0), "", 0, False),
    ],
)
def test_work_of_a_region_is_ordered_by_its_stream(
    before: str, body: str, after: str, on: int, is_race: bool
) -> None:
    text = text_of(body, before, after, f" stream({on})")
    assert codes(text) == ([Code.UNORDERED_USE] if is_race else [])
    inputs = (torch.ones(8), torch.ones(8), torch.tensor(True), 1)
    here = text.replace('  constant %far: f32[8]@cuda:0 = "far"\n', "")
    constants = {"w": torch.ones(8)}
    if not is_race:
        run(here, *inputs, constants=constants)
        return
    with pytest.raises(DiagnosticError) as caught:
        run(here, *inputs, constants=constants)
    assert [found.code for found in caught.value.diagnostics] == [Code.RUN_RACE]
