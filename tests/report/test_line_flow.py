"""Which lines write the bytes that a line reads."""

from hypothesis import given, settings

from tests.draws import draws
from wrapperir.ir import Program
from wrapperir.report import copy_reasons, line_flow
from wrapperir.report.line_flow import origins_of
from wrapperir.testing import programs
from wrapperir.text import parse_program

TEXT = """\
wrapperir 1

program @main(%x: f32[8, 8]) {
  %a = allocate f32[8, 8]
  extern_kernel aten.sin.out(%x, out = %a) writes(%a)
  %v = reinterpret %a as f32[64]
  %b = reuse %a as f32[8, 8]
  %c = extern_kernel aten.cos.default(%v) : f32[64]
  extern_kernel aten.neg.out(%x, out = %b) writes(%b)
  %d = extern_kernel aten.cos.default(%b) : f32[8, 8]
  return %c, %d
}
"""


def test_views_and_reused_memory_are_of_the_line_that_last_wrote_them() -> None:
    flow = line_flow(parse_program(TEXT))
    assert flow.sources == ((), (), (), (), (1,), (), (5,))
    assert flow.views == ((), (), (), (), (2,), (), ())
    assert flow.readers()[1, "a"] == [4]


@settings(max_examples=draws(60, fuzz=600), deadline=None)
@given(programs())
def test_values_flow_from_earlier_lines_that_write(program: Program) -> None:
    flow = line_flow(program)
    for index, (sources, views) in enumerate(zip(flow.sources, flow.views, strict=True)):
        assert all(source < index for source in (*sources, *views))
        for source in sources:
            done = flow.effects[source]
            assert any(each.writes for each in done.accesses) or done.definitions
        assert list(dict.fromkeys(x for x, _ in flow.reads[index])) == [*sources]
        for source, memory in flow.reads[index]:
            assert index in flow.readers()[source, memory]
            assert memory in {value.memory for value in flow.writes[source]}
    for line, writes in zip(flow.lines, flow.writes, strict=True):
        assert all({*value.origins} <= {*origins_of(line)} for value in writes)
    for index, reasons in copy_reasons(program, flow).items():
        line = flow.lines[index]
        for reason in reasons:
            assert {*reason.nodes} <= {*origins_of(line)}
            assert reason.nodes
            assert {*reason.values} <= {value.name for value in flow.writes[index]}
