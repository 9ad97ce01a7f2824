"""Names in texts: found, followed to their definitions, and renamed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapperir.editor.names import (
    NameKind,
    RenameError,
    definition_of,
    find_names,
    name_at,
    rename,
    same_names,
)
from wrapperir.ir import FreshNames, Program
from wrapperir.ir.line_effects import value_types
from wrapperir.ir.renaming import rename_program
from wrapperir.testing import programs
from wrapperir.text import format_program, parse_program

TEXT = """\
wrapperir 1

kernel_definition @scale cpp(x: read f32*, y: write f32*, s0: i64) {
  entry = scale
  source {
    | extern "C" void scale(const float* x, float* y, long s0) {} // %x @scale
  }
}

program @main(%x: f32[s0], %y: f32[s0]) {
  symbol s0: int 2..9 = size(%x, 0)

  %b = allocate f32[s0]  # %b is not read before
  kernel_call @scale(%x, %b, s0) from(s0)
  comment "%b and s0 and @scale"
  %c = extern_kernel aten.add.Tensor(%b, %y, alpha = s0) : f32[s0]
  free %b
  return %c
}

origins {
  s0: aten.sym_size.int
}
"""


def test_names_are_found_where_they_are_names() -> None:
    names = find_names(TEXT)
    found = [(each.kind.value, each.name, each.line + 1) for each in names if each.defines]
    assert sorted(found) == [
        ("kernel", "scale", 3),
        ("symbol", "s0", 11),
        ("value", "b", 13),
        ("value", "c", 16),
        ("value", "x", 10),
        ("value", "y", 10),
    ]
    lines = TEXT.split("\n")
    for each in names:
        assert lines[each.line][each.start : each.end] == each.name
        assert name_at(names, each.line, each.end) is not None
        assert definition_of(names, each) in names
    symbols = [each.line + 1 for each in names if each.kind is NameKind.SYMBOL]
    assert symbols == [10, 10, 11, 13, 14, 16, 16]
    kernels = [each.line + 1 for each in names if each.kind is NameKind.KERNEL]
    assert kernels == [3, 14]


@pytest.mark.parametrize(
    ("old", "new"), [("x", "first"), ("scale", "@twice"), ("s0", "n"), ("b", "%buf")]
)
def test_a_name_is_renamed_where_it_is_used_and_nowhere_else(old: str, new: str) -> None:
    wanted = next(each for each in find_names(TEXT) if each.name == old)
    made = rename(TEXT, wanted, new)
    assert parse_program(made) != parse_program(TEXT)
    bare = new.lstrip("%@")
    back = next(each for each in find_names(made) if each.name == bare)
    assert rename(made, back, old) == TEXT
    # The list of origins, the source and the comment are not touched.
    for line in ('    | extern "C" void scale', "  s0: aten.sym_size.int", '"%b and s0'):
        assert line in made
    assert "from(s0)" in made


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("x", "y", "already"),
        ("x", "1st", "is not a name"),
        ("x", "a b", "is not a name"),
        ("s0", "stride", "name of a word"),
        ("s0", "and", "name of a word"),
    ],
)
def test_a_name_that_cannot_be_given_is_refused(old: str, new: str, why: str) -> None:
    wanted = next(each for each in find_names(TEXT) if each.name == old)
    with pytest.raises(RenameError, match=why):
        rename(TEXT, wanted, new)


def test_a_text_with_errors_is_not_renamed() -> None:
    text = TEXT.replace("free %b", "fre %b")
    wanted = next(each for each in find_names(text) if each.name == "b")
    with pytest.raises(RenameError, match="has errors"):
        rename(text, wanted, "z")


@settings(max_examples=40)
@given(program=programs(), data=st.data())
def test_renaming_a_value_renames_it_in_the_program(
    program: Program, data: st.DataObject
) -> None:
    text = format_program(program)
    names = find_names(text)
    values = sorted({each.name for each in names if each.kind is NameKind.VALUE})
    assert set(values) == set(value_types(program))
    old = data.draw(st.sampled_from(values)) if values else None
    if old is None:
        return
    new = FreshNames(values).new(None, "renamed")
    wanted = next(x for x in names if (x.kind, x.name) == (NameKind.VALUE, old))
    assert wanted.defines
    made = rename(text, wanted, new)
    renamed = rename_program(program, lambda name: new if name == old else name)
    assert parse_program(made) == renamed
    count = len(same_names(find_names(made), wanted)), len(same_names(names, wanted))
    assert count[0] == 0
    assert count[1] > 0


@settings(max_examples=40)
@given(program=programs(), data=st.data())
def test_any_name_is_renamed_there_and_back(program: Program, data: st.DataObject) -> None:
    text = format_program(program)
    names = [each for each in find_names(text) if each.defines]
    if not names:
        return
    wanted = data.draw(st.sampled_from(names))
    made = rename(text, wanted, "quite_new")
    back = next(each for each in find_names(made) if each.name == "quite_new")
    assert rename(made, back, wanted.name) == text


@given(st.text(max_size=60))
def test_any_text_has_names(text: str) -> None:
    lines = text.split("\n")
    for each in find_names(text):
        assert lines[each.line][each.start : each.end] == each.name
