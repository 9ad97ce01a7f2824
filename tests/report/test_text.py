import json

import pytest

from tests.report.reports import HOSTILE, hostile_report, small_report
from tests.report.test_build_timeline import REUSED, SCALAR
from wrapperir.report import (
    MemoryReport,
    build_timeline,
    format_html,
    format_perfetto,
    format_report,
    visible,
)
from wrapperir.report.text import format_bytes
from wrapperir.text import parse_with_positions

GIVEN = """wrapperir 1

program @main(%x: donated f32[256], %y: donated f32[128]) {
  free %y
  %z = allocate f32[64]
  extern_kernel aten.sum.out(%x, out = %z) writes(%z)
  free %x
  return %z
}
"""


def test_a_report_reads_as_text() -> None:
    given, planned = format_report(small_report()).split("after plan_memory, ")
    assert (
        given
        == """\
memory of @main in small.wir
with s0 = 64 (given)

as given, cpu:
  peak           8 KiB (8,192 bytes) at line 5, 1.000 of the lower bound
  taken for      %c
  lower bound    8 KiB (8,192 bytes), the most that is live at a line
  allocations    3 pieces of memory from an allocator
  in pools       nothing, for there are none
  not counted    4 KiB (4,096 bytes) of inputs, constants and kept workspaces

  the 2 largest buffers of 2 live at line 5:
  6 KiB  %c  f32[1536]  lines 5-6
           line 5: %c = ...
  2 KiB  %b  f32[512]   lines 4-6
           line 4: %b = extern_kernel aten.f(%a)
           from m.py:7

"""
    )
    assert "peak           10 KiB (10,240 bytes) at line 5, 1.250 of" in planned
    assert "allocations    2 pieces of memory from an allocator\n" in planned
    assert "pools          8 KiB (8,192 bytes) at most, in 1 pool\n" in planned
    assert (
        "in pools       2 of 3 buffers, with 77.8% of their bytes; at the peak 75.0%\n"
        in planned
    )


def test_a_small_last_piece_of_the_peak_is_told_from_most_of_it() -> None:
    parsed = parse_with_positions(f"wrapperir 1\n\n{SCALAR}")
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="scalar.wir", versions=(version,))
    assert (
        "peak           16.3 KiB (16,704 bytes) at line 8, 1.000 of the lower bound\n"
        "  took most      16 KiB (16,384 bytes) at line 7, since memory last fell\n"
        "  taken for      %c\n"
    ) in format_report(report)


def test_memory_at_the_peak_is_said_to_be_from_the_value_that_it_has_there() -> None:
    parsed = parse_with_positions(f"wrapperir 1\n\n{REUSED}")
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="reused.wir", versions=(version,))
    assert "  taken for      %c, from m.py:8, aten.exp.default, exp\n" in format_report(
        report
    )
    assert format_report(report).endswith("""\
  256 bytes  %b  f32[8, 8]  lines 4-11
               line 6: %b = reuse %a as f32[8, 8]
               line 7: extern_kernel aten.cos.out(%x, out = %b) writes(%b)
               from m.py:8, aten.cos.default, cos
  256 bytes  %c  f32[8, 8]  lines 8-11
               line 8: %c = extern_kernel aten.exp.default(%b) : f32[8, 8]
               from m.py:8, aten.exp.default, exp
""")
    arguments = json.loads(format_perfetto(report))["traceEvents"]
    (own,) = (x["args"] for x in arguments if x["name"] == "%a" and "bytes" in x["args"])
    assert (own["from"], own["from, reuse 2"]) == (
        "m.py:7, aten.sin.default, sin",
        "m.py:8, aten.tan.default, tan",
    )


def test_what_is_alive_names_the_module_that_called_its_operator() -> None:
    text = REUSED.replace("exp: aten.exp.default", 'exp: aten.exp.default in "layers.1"')
    parsed = parse_with_positions(f"wrapperir 1\n\n{text}")
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="reused.wir", versions=(version,))
    made = "from m.py:8, aten.exp.default in layers.1, exp\n"
    assert f"  taken for      %c, {made}" in format_report(report)
    assert format_report(report).endswith(f"               {made}")


def test_a_donated_input_at_the_peak_is_said_to_be_one() -> None:
    text = REUSED.replace("%x: f32[64]", "%x: donated f32[64]")
    parsed = parse_with_positions(f"wrapperir 1\n\n{text}")
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="reused.wir", versions=(version,))
    (_, row) = format_report(report).split("  256 bytes  %x  ")
    assert row.split("\n")[1].strip() == "donated input"


def test_of_a_donated_input_with_gaps_the_elements_count() -> None:
    text = REUSED.replace("%x: f32[64]", "%x: donated f32[64; stride 2]")
    parsed = parse_with_positions(f"wrapperir 1\n\n{text}")
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="reused.wir", versions=(version,))
    (_, row) = format_report(report).split("  256 bytes  %x  ")
    assert row.split("\n")[1].strip() == "elements of a donated input"


def test_halves_are_rounded_up_as_on_the_page() -> None:
    assert format_bytes(1012224) == "989 KiB"
    assert format_bytes(1536) == "1.5 KiB"


def test_a_peak_of_what_the_call_is_given_says_so() -> None:
    text = GIVEN
    parsed = parse_with_positions(text)
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="given.wir", versions=(version,))
    lines = format_report(report).split("\n")
    (row,) = [line for line in lines if "most of it" in line]
    given = "1.5 KiB (1,536 bytes) given to the call, which frees it"
    assert row == f"  most of it     {given}; the largest is %x"
    assert not any("taken for" in line for line in lines)


def test_what_the_call_is_given_has_the_node_that_made_it() -> None:
    text = GIVEN.replace("%x: donated f32[256]", "%x: donated f32[256] from(sin)")
    text += 'origins {\n  place 0: "m.py" 7\n  sin: aten.sin.default in "fc" at 0\n}\n'
    parsed = parse_with_positions(text)
    version = build_timeline(parsed.program, parsed.positions, {}, "as given")
    report = MemoryReport(program="main", source="given.wir", versions=(version,))
    made = "from m.py:7, aten.sin.default in fc, sin"
    assert f"; the largest is %x, {made}\n" in format_report(report)
    (_, rows) = format_report(report).split("  1 KiB  ")
    assert [row.strip() for row in rows.split("\n")[1:3]] == ["donated input", made]


def test_text_of_a_program_makes_no_lines_and_moves_no_cursor() -> None:
    text = format_report(hostile_report())
    assert visible(HOSTILE) in text
    assert "\x07" not in text
    assert "\u202e" not in text
    page, trace = format_html(hostile_report()), format_perfetto(hostile_report())
    for rendered in (page, trace):
        assert "\x07" not in rendered
        assert "\u202e" not in rendered
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert json.loads(trace)["otherData"][visible(HOSTILE)].startswith("1 (")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (723_968, "707 KiB"),
        (1_048_576, "1 MiB"),
        (1_298_432, "1.24 MiB"),
        (200 << 30, "200 GiB"),
        (5 << 60, "5120 PiB"),
    ],
)
def test_bytes_are_written_in_units_of_1024(count: int, text: str) -> None:
    assert format_bytes(count) == text
