"""Shortcuts read what the full grammar reads, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.ir.line import BodyLine
from wrapperir.testing.arbitrary import body_lines
from wrapperir.text import format_line
from wrapperir.text.cursor import Cursor
from wrapperir.text.malformed import Malformed
from wrapperir.text.shortcuts import Shortcuts
from wrapperir.text.statements import parse_statement

from .test_grammar import PIECES


def shortcut(text: str) -> BodyLine | None:
    try:
        return Shortcuts().read(text)
    except Malformed:
        return None


def assert_same_as_full(text: str) -> None:
    line = shortcut(text)
    if line is not None:
        assert repr(parse_statement(Cursor(text))) == repr(line)


@settings(max_examples=draws(100, fuzz=250))
@given(body_lines, st.data())
def test_shortcuts_agree_with_the_full_grammar(line: BodyLine, data: st.DataObject) -> None:
    text = format_line(line).split("\n")[0]
    assert_same_as_full(text)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    assert_same_as_full(text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + cut :])


COMMON = [
    "  %a = allocate f32[4, 8]@cuda:0",
    "  %a = allocate f32[s0, s0 * (s1 + 1)] {pinned, align = 64} workspace(zero_on_call)",
    "  %p = allocate_pool pool[4096]@cuda:0 {align = 512}",
    '  %p = allocate_pool pool[s0 * 64] from(nodes("a"))',
    "  %a = place f32[4, 8]@cuda:0 in %p at 256",
    "  %a = place u8[8] in %p at 0 workspace(zero_on_call) from()",
    "  %q = place pool[64] in %p at ceildiv(s0, 2) * (s1 + 64)",
    "  %e = record_event @cuda:0 stream(1)",
    '  %e = record_event from(nodes("a"))',
    "  wait_event %e @cuda:0 stream(2)",
    "  wait_event %e",
    "  free %a",
    '  free %a from(nodes("a", "b"), operator("aten.mm.default"), at("f.py", 3))',
    "  %b = reuse %a as f32[32; stride 1; offset 8]",
    "  %b = reinterpret %a as bf16[8, 4]",
    "  kernel_call @k(%a, %b, s0 * 4, ceildiv(s0, 2), 1.5) @cuda:0 stream(1)",
    "  extern_kernel aten.mm.out(%a, %b, out = %c) writes(%c) @cuda:0",
    "  %c = extern_kernel aten.sum.dim(%a, [0, 1], true, dtype = dtype(f32)) : f32[]",
    "  %c = extern_kernel aten.split.Tensor(%a, 4) aliases(%a) : (f32[4], f32[4])",
    "  %d = multi_output %c[1] : f32[4; offset 4]",
    "  assert_size_stride %a (4, 8) (8, 1)",
    '  assert_alignment %a 16 "message"',
    "  assert_not_nan %a",
    '  comment "a remark"',
    "  symbol_definition u0: int 0..9 = item(%a)",
    "  symbol_definition s0: int = size(%a, 0)",
]


@pytest.mark.parametrize("text", COMMON)
def test_common_lines_take_a_shortcut(text: str) -> None:
    line = shortcut(text)
    assert line is not None
    assert repr(parse_statement(Cursor(text))) == repr(line)


@pytest.mark.parametrize(
    "text",
    [
        "kernel_call @k(%a # , b)",
        "free %a # from()",
        "free %a from() # from()",
        "%a = allocate f32[4] # ]",
        "%a = place f32[4] in %p at 4 # 5",
        "%a = place f32[4] in %p at 4 # from()",
        "%e = record_event # ",
        'comment "a" # "b"',
        "symbol s0: int = 1",
    ],
)
def test_shortcuts_leave_remarks_to_the_full_grammar(text: str) -> None:
    assert shortcut(text) is None
