"""Parts that were read before are read alike again, and nothing else is."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.ir import BodyLine
from wrapperir.testing.arbitrary import body_lines
from wrapperir.text import format_line
from wrapperir.text.cursor import Cursor, Memo
from wrapperir.text.limits import Malformed
from wrapperir.text.statements import parse_statement

from .test_grammar import PIECES

COMMON = [
    "  %a = allocate f32[4, 8]@cuda:0",
    "  %a = allocate f32[s0, s0 * (s1 + 1)] {pinned, align = 64} workspace(zero_on_call)",
    "  %p = allocate_pool pool[4096]@cuda:0 {align = 512}",
    "  %p = allocate_pool pool[s0 * 64] from(a)",
    "  %a = place f32[4, 8]@cuda:0 in %p at 256",
    "  %a = place u8[8] in %p at 0 workspace(zero_on_call) from()",
    "  %q = place pool[64] in %p at ceildiv(s0, 2) * (s1 + 64)",
    "  %e = record_event @cuda:0 stream(1)",
    "  %e = record_event from(a) by(some_pass)",
    "  wait_event %e @cuda:0 stream(2)",
    "  wait_event %e",
    "  free %a",
    "  free %a from(a, block_1.b)",
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
    "kernel_call @k(%a # , b)",
    "free %a # from()",
    "free %a from() # from()",
    "%a = allocate f32[4] # ]",
    "%a = allocate f32[4] {",
    "%a = allocate f32[4] @cuda:0",
    "%a = allocate f32[4]@cuda {pinned} {",
    "%a = place f32[4] in %p at 4 # 5",
    "%a = place f32[4] in %p at 4 # from()",
    "%e = record_event # ",
    'comment "a" # "b"',
    "symbol s0: int = 1",
]


def result(text: str, memo: Memo | None = None) -> str:
    try:
        found = repr(parse_statement(Cursor(text, memo)))
    except Malformed as error:
        return repr(error.read(0))
    return re.sub(r" at 0x\w+", "", found)  # what follows a block is a function


def filled_memo() -> Memo:
    memo = Memo()
    for text in COMMON:
        result(text, memo)
    return memo


@settings(max_examples=draws(100, fuzz=250))
@given(body_lines, st.data())
def test_a_memo_changes_no_result(line: BodyLine, data: st.DataObject) -> None:
    text = format_line(line).split("\n")[0]
    memo = filled_memo()
    assert result(text, memo) == result(text, memo) == result(text)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    changed = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + cut :]
    assert result(changed, memo) == result(changed)


@pytest.mark.parametrize("text", COMMON)
def test_a_line_read_again_is_the_same(text: str) -> None:
    assert result(text, filled_memo()) == result(text)


@pytest.mark.parametrize("text", COMMON)
@pytest.mark.parametrize("piece", ["", " ", ",", "{", "}", "]", "@cuda", " from(", "# "])
def test_a_changed_line_is_read_afresh(text: str, piece: str) -> None:
    memo = filled_memo()
    for at in range(len(text)):
        changed = text[:at] + piece + text[at + 1 :]
        assert result(changed, memo) == result(changed)


def test_equal_types_are_one_object() -> None:
    memo = Memo()
    first, second = (
        parse_statement(Cursor(f"%{name} = allocate f32[4, s0]@cuda:0", memo))
        for name in "ab"
    )
    assert getattr(first, "type", None) is getattr(second, "type", 0)
