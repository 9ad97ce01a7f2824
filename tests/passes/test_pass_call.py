"""The text of pipelines: what is read, what is refused, and that it comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.passes import PassCall, format_pipeline, parse_pipeline

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
ARGUMENTS = st.one_of(
    st.booleans(),
    st.integers(-(10**300) + 1, 10**300 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
CALLS = st.builds(
    PassCall, NAMES, st.lists(st.tuples(NAMES, ARGUMENTS), max_size=3).map(tuple)
)


def test_names_with_typed_arguments() -> None:
    text = 'a, b(n = 3, x = -0.5, s = "a, b(c)\\n"),c(on=true, off=false, most = inf)'
    a, b, c = parse_pipeline(text)
    assert a == PassCall("a")
    assert b.arguments == (("n", 3), ("x", -0.5), ("s", "a, b(c)\n"))
    assert c.arguments == (("on", True), ("off", False), ("most", float("inf")))
    assert [type(value) for _, value in b.arguments] == [int, float, str]
    assert parse_pipeline("") == parse_pipeline("  ") == ()
    assert parse_pipeline("a()") == (a,)
    assert b.position is not None
    assert (b.position.column, b.position.length) == (4, 1)


@given(st.lists(CALLS, max_size=4).map(tuple))
def test_a_pipeline_comes_back_from_its_text(calls: tuple[PassCall, ...]) -> None:
    again = parse_pipeline(format_pipeline(calls))
    assert again == calls
    kinds = [[type(value) for _, value in call.arguments] for call in calls]
    assert [[type(value) for _, value in call.arguments] for call in again] == kinds


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("a,", 3, "expected the name of a pass, but the line ends"),
        ("a b", 3, "expected a comma or the end, found `b`"),
        ("a(3)", 3, "expected the name of an argument, found `3`"),
        ("a(n: 3)", 4, "expected `=`, found `:`"),
        ("a(n = other)", 7, "expected a number, a string, `true` or `false`"),
        ("a(n = __import__)", 7, "expected a number, a string, `true` or `false`"),
        ("a(n = 1 + 1)", 9, "expected `)`, found `+`"),
        ("a(n = (1))", 7, "expected a number"),
        ("a(n = nan)", 7, "an argument cannot be `nan`"),
        ("a(n = 1", 8, "expected `)`, but the line ends"),
        ('a(n = "x', 7, "the string is not closed"),
        ('a(n = "\\x")', 8, "a wrong escape"),
        ("a.b", 1, "must be an identifier"),
        ("a\nb", 2, "expected a comma or the end"),
        ("a(n = 1e999)", 7, "a float too large"),
        (f"a(n = {'9' * 301})", 7, "a number of more than 300"),
    ],
)
def test_malformed_text_is_refused_at_its_place(text: str, column: int, said: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_pipeline(text)
    (found,) = caught.value.diagnostics
    assert found.code is Code.BAD_PIPELINE
    assert said in found.message
    assert found.position is not None
    assert (found.position.line, found.position.column) == (1, column)


@given(st.text(st.sampled_from('ab_ (),=-+.19"\\ntruefalsinf#%@\n'), max_size=20))
def test_any_text_is_read_or_refused_with_a_code(text: str) -> None:
    try:
        calls = parse_pipeline(text)
    except DiagnosticError as error:
        codes = {each.code for each in error.diagnostics}
    else:
        codes = {Code.BAD_PIPELINE}
        assert parse_pipeline(format_pipeline(calls)) == calls
    assert codes == {Code.BAD_PIPELINE}
