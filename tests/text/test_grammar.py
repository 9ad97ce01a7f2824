"""The published grammar accepts what readers accept, and no more."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark, UnexpectedInput

from tests.draws import draws
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.ir import Program
from wrapperir.testing.arbitrary import programs
from wrapperir.text import format_program, parse_program

GRAMMAR = Path(__file__).parents[2] / "docs/reference/grammar.lark"

# What the grammar's own remarks leave to readers.
BEYOND_GRAMMAR = {
    Code.BAD_COUNT,
    Code.BAD_NUMBER,
    Code.BAD_STRING,
    Code.MISPLACED_STATEMENT,
    Code.TOO_DEEP,
}
NO_PARAMETER = "is not a parameter of the multi-kernel"


@pytest.fixture(scope="module")
def lark() -> Lark:
    return Lark(GRAMMAR.read_text(), parser="lalr", lexer="contextual")


def grammar_accepts(lark: Lark, text: str) -> bool:
    try:
        lark.parse(text + "\n")
    except UnexpectedInput:
        return False
    return True


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    try:
        parse_program(text)
    except DiagnosticError as error:
        return error.diagnostics
    return ()


def is_beyond_grammar(found: Diagnostic) -> bool:
    return found.code in BEYOND_GRAMMAR or found.message.endswith(NO_PARAMETER)


@settings(max_examples=draws(25, fuzz=50))
@given(program=programs)
def test_grammar_accepts_what_is_printed(lark: Lark, program: Program) -> None:
    assert grammar_accepts(lark, format_program(program))


def assert_agree(lark: Lark, text: str) -> None:
    found = diagnostics(text)
    accepted = grammar_accepts(lark, text)
    if not found:
        assert accepted
    elif not any(map(is_beyond_grammar, found)):
        assert not accepted, found


PIECES = [
    *'%@#|{}()[],;:=+-*/<>"\\ \n.0a',
    "**",
    "//",
    "==",
    "..",
    "not ",
    "true",
    "none",
    "inf",
    "from(",
    "min(",
    "%x",
    "@k",
    "1.5",
    '"s"',
    " as ",
    "return",
]


@settings(max_examples=draws(60, fuzz=150))
@given(data=st.data(), program=programs)
def test_grammar_and_reader_agree_on_mutations(
    lark: Lark, data: st.DataObject, program: Program
) -> None:
    text = format_program(program)
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 3))
        text = text[:at] + data.draw(st.sampled_from(["", *PIECES])) + text[at + cut :]
    assert_agree(lark, text)


BODY = "wrapperir 1\nprogram @main() {{\n  {}\n  return\n}}\n"


@pytest.mark.parametrize(
    "line",
    [
        "assert_scalar a < b < c",
        "assert_scalar a + not b",
        "assert_scalar not not a",
        "assert_scalar - not a",
        "assert_scalar -5 ** -2 ** -x",
        "assert_scalar foo(1)",
        "assert_scalar min (1, 2)",
        "assert_scalar min",
        "assert_scalar min(1)",
        "assert_scalar none",
        "assert_scalar and",
        "assert_scalar 1.",
        "assert_scalar .5",
        "assert_scalar 1e5x",
        "assert_scalar 007",
        "assert_scalar (1, 2)",
        "conditional min(%a) () {",
        "free %a # remark",
        "free %a from()",
        "free %a from(a, b.c, from) by(a, by)",
        "free %a by(a) from(b)",
        "free %a by()",
        "free %a by(a.b)",
        "free %a from(a,)",
        "free %a from(fused)",
        "free %a from(fused, 0)",
        'free %a from(nodes("a"))',
        "free %a from",
        "%a = allocate f32[]",
        "%a = allocate f32[;]",
        "%a = allocate f32[; stride]",
        "%a = allocate f32[4,]",
        "%a = allocate f32[4; offset 1; stride 1]",
        "%a = allocate f32[4]@cuda:0 {pinned}",
        "%a = allocate f32[4]@cuda: 0",
        "%a = allocate f32[4] {}",
        "%a = allocate f32",
        "%a = extern_kernel a.b(true = 1, none = none) : (f32, (i64), ())",
        "%a = extern_kernel a.b(x == 1)",
        "%a = extern_kernel a.b(x = 1, 2)",
        "%a = extern_kernel a()",
        "%a = extern_kernel a.b(dtype(f32), device(cuda:0), complex(-1.0, nan))",
        "%a = extern_kernel a.b(layout(strided), memory_format(none), qscheme(x))",
        "%a = extern_kernel a.b([], [[1], %x]) @cuda:1 stream(2) : opaque",
        "symbol_definition s: int .. = item(%a)",
        "symbol_definition s: int 0 = item(%a)",
        "symbol_definition s: int -1..-1 = size(%a, -1)",
        "symbol_definition s: int = size",
        "symbol_definition s: int = item (%a)",
        "kernel_call @k(%a, s0 % 2, s0 %b)",
        "kernel_call @k:0()",
        "%a = allocate pool[4]",
        "%a = allocate_pool pool[4 * s0]@cuda:0 {pinned, align = 512, space = comm}",
        "%a = allocate_pool pool[4] {layout = a.b}",
        "%a = allocate_pool pool[4, 4]",
        "%a = allocate_pool pool[]",
        "%a = allocate_pool pool",
        "%a = allocate_pool f32[4]",
        "%a = place pool[4] in %b at 4",
        "%a = place f32[4] {align = 4} in %b at (s0 + 4) workspace(zero_on_call) from()",
        "%a = place f32[4] in %b at 4 from() workspace(zero_on_call)",
        "%a = place f32 in %b at 4",
        "%a = place event in %b at 4",
        "%a = place f32[4] in b at 4",
        "%a = place f32[4] at 4 in %b",
        "place f32[4] in %b at 4",
        "%a = record_event",
        "%a = record_event @cuda stream(1) from()",
        "%a = record_event stream(1) @cuda",
        "wait_event %a @cuda stream(1)",
        "wait_event",
        "%a = multi_output %b : (event, event@cuda:0, pool[4], (pool[4]@cuda:0))",
        "%a = multi_output %b : event[4]",
        'comment "\\q"',
        'comment "\\u12"',
        'comment "tab\there"',
        "symbol s: int = 1",
        "%a, %b = free %c",
        "return",
    ],
)
def test_grammar_and_reader_agree_on(lark: Lark, line: str) -> None:
    assert_agree(lark, BODY.format(line))


KERNEL = """\
wrapperir 1
kernel_definition @k triton() {{
  constant A1 = none
  entry = A1
  source {{{}
    | x{}
  }}{}
}}{}
program @main() {{
  return
}}
"""


@pytest.mark.parametrize(
    "between",
    ["", " # r", "\t#}", " }", " {", "\n", "\n  # |", "\n  x", "\n | y", "\f", "\r", '"'],
)
@pytest.mark.parametrize("place", range(4))
def test_grammar_and_reader_agree_around_a_source(
    lark: Lark, between: str, place: int
) -> None:
    parts = ["", "", "", ""]
    parts[place] = between
    assert_agree(lark, KERNEL.format(*parts))


def test_a_remark_may_follow_the_brace_of_a_source() -> None:
    assert not diagnostics(KERNEL.format(" # a", "\n  # b", " # c", " # d"))


MULTI_KERNEL = """\
wrapperir 1
multi_kernel @m(a: read f32*, n: i64) {{
  {}
}}
program @main() {{
  return
}}
"""
SIZE, CHOICE, SELECT = "size M = size(a, 0)", "choice @k(0, 1)", "select first"


@pytest.mark.parametrize(
    "lines",
    [
        (SIZE, CHOICE, SELECT),
        (CHOICE, SIZE, SELECT),
        (SIZE, SELECT, CHOICE),
        ("size M = size(1, -1)", SELECT),
        ("size size = size (a, 0)", SELECT),
        ("size M = size(-2, 0)", SELECT),
        ("size M = size(a)", SELECT),
        ("size M = size(%a, 0)", SELECT),
        ("size M = size(a.b, 0)", SELECT),
        ("size M = stride(a, 0)", SELECT),
        ("size M = size(a, M)", SELECT),
        ("choice @k()", SELECT),
        ("choice @k(0) workspace(a, n * 4, zero_on_call)", SELECT),
        (
            "choice @k(0) workspace(a, 4, zero_on_call) workspace(1, n, uninitialized)",
            SELECT,
        ),
        ("choice @k(0) workspace(a, 4)", SELECT),
        ("choice @k(0) workspace(a, 4, zeroed)", SELECT),
        ("choice @k(0) workspace(zero_on_call)", SELECT),
        ("choice @k:0(0)", SELECT),
        *(
            (f"select {policy}",)
            for policy in (
                "forced(1)",
                "forced",
                "forced(n)",
                "benchmark",
                "benchmark()",
                "recorded(-1)",
                "recorded",
                'recorded(1) microseconds(12.5, none, 3, 1e-05) on "here"',
                'recorded(1) on "here" microseconds(1)',
                "recorded(1) microseconds()",
                "recorded(1) microseconds",
                "recorded(1) microseconds(n)",
                "recorded(1) on here",
                "recorded(1) on",
                "nearest_shape()",
                "nearest_shape",
                "nearest_shape(0: (64, 64), -1: ())",
                "nearest_shape(0: 64)",
                "nearest_shape((64, 64))",
                "nearest_shape(0: (n))",
                "nearest_shape(0 (64))",
                "computed(where(n <= 4, 0, 1))",
                'computed(1) on "there"',
                "computed()",
                "computed(1, 2)",
                "computed where(n, 0, 1)",
                "fastest",
                "",
            )
        ),
    ],
)
def test_grammar_and_reader_agree_on_multi_kernels(
    lark: Lark, lines: tuple[str, ...]
) -> None:
    assert_agree(lark, MULTI_KERNEL.format("\n  ".join(lines)))
