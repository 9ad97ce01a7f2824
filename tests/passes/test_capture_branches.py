"""Capture of graph regions: conditionals between lines."""

import pytest

from tests.passes.captured_regions import cuda, mm, regions
from wrapperir.ir import ConditionalLine
from wrapperir.passes import Captured, capture_graphs, capture_regions
from wrapperir.passes.capture_reasons import Reason
from wrapperir.passes.replay_cost import count_calls, replay_gain
from wrapperir.verify import verify

BRANCH = """\
  %b = conditional {predicate} (%a) : f32[8, 8]@cuda {{
    true (%p: f32[8, 8]@cuda) {{
      {true}
      return %o
    }}
    false (%q: f32[8, 8]@cuda) {{
      %r = extern_kernel aten.neg.default(%q) @cuda : f32[8, 8]@cuda
      extern_kernel aten.relu_.default(%r) writes(%r) @cuda
      return %r
    }}
  }}"""


MADE = "%o = extern_kernel aten.neg.default(%p) @cuda : f32[8, 8]@cuda"


def branched(predicate: str, true: str = MADE, symbols: str = "") -> Captured:
    """Capture a conditional between products."""
    entry = "%x: f32[8, 8]@cuda, %n: i64, %f: f32[1]"
    branch = BRANCH.format(predicate=predicate, true=true)
    lines = f"""\
{symbols}
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
{mm("%x", "%a")}
{branch}
  free %a
  %c = allocate f32[8, 8]@cuda
{mm("%x", "%b")}
{mm("%b", "%c")}
  free %b
  free %x
  free %f"""
    found = capture_regions(cuda(lines, outputs="%c", entry=entry))
    assert verify(found.program) == ()
    return found


NUMBER = "  symbol_definition n: int = value(%n)"


@pytest.mark.parametrize(
    "true",
    [
        MADE,
        "%o = allocate f32[8, 8]@cuda\n"
        "      extern_kernel aten.neg.out(%p, out = %o) writes(%o) @cuda",
        f"{MADE}\n      assert_size_stride %o (8, 8) (8, 1)",
        "%o = subgraph_call @f (%p) : f32[8, 8]@cuda {\nbody (%i: f32[8, 8]@cuda) {\n"
        "%j = extern_kernel aten.neg.default(%i) @cuda : f32[8, 8]@cuda\nreturn %j\n}\n}",
    ],
)
def test_a_branch_on_a_number_is_in_the_region(true: str) -> None:
    found = branched("n < 4", true, NUMBER)
    (region,) = regions(found.program)
    assert any(isinstance(line, ConditionalLine) for line in region.body.lines)
    assert count_calls(region) == 6  # two in the longer branch
    assert capture_graphs(found.program) == found.program
    # Of the branch, the one call with an operand that is not of the region's own.
    plain = branched("n < 4", MADE, NUMBER).report.regions[0].line
    assert replay_gain(region) == replay_gain(plain)


@pytest.mark.parametrize(
    ("predicate", "true", "symbols", "reason"),
    [
        ("m < 4.0", MADE, "  symbol_definition m: float = item(%f)", Reason.DATA),
        (
            "n < 4",
            f"%w = allocate f32[8, 8]@cuda {{space = comm}}\n      free %w\n      {MADE}",
            NUMBER,
            Reason.BLOCKS,
        ),
        (
            "n < 4",
            "symbol_definition u: int = size(%p, 0)\n      assert_scalar u > 2\n      "
            + MADE,
            NUMBER,
            Reason.SYMBOL,
        ),
        ("n < 4", f"assert_alignment %p 16\n      {MADE}", NUMBER, Reason.ADDRESS),
        ("n < 4", f"assert_not_nan %p\n      {MADE}", NUMBER, Reason.HOST_READ),
        (
            "n < 4",
            "%o = extern_kernel aten.bernoulli.default(%p) @cuda : f32[8, 8]@cuda",
            NUMBER,
            Reason.OPERATOR,
        ),
    ],
)
def test_a_branch_is_outside(
    predicate: str, true: str, symbols: str, reason: Reason
) -> None:
    found = branched(predicate, true, symbols)
    assert len(regions(found.program)) == 2
    assert not any(
        isinstance(line, ConditionalLine)
        for region in regions(found.program)
        for line in region.body.lines
    )
    assert reason in {why.reason for why in found.report.outside.values()}
