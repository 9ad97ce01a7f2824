"""Texts in normal form with their remarks, and the blocks in them."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from wrapperir.editor.formatting import find_blocks, format_text
from wrapperir.ir import Program
from wrapperir.testing import programs
from wrapperir.text import format_program, parse_program

UGLY = """\
# about the program
wrapperir 1
program   @main( %x: f32[8] ) {   # a remark
      # before the line
  %a = extern_kernel   aten.sin.default( %x )  : f32[8] # behind "it"

  %b = extern_kernel aten.cos.default(%a) : f32[8]
  free %a
  # before the end
  return %b
} # after
# last
"""


def test_remarks_stay_at_their_lines() -> None:
    assert (
        format_text(UGLY)
        == """\
wrapperir 1

# about the program
program @main(%x: f32[8]) {  # a remark
  # before the line
  %a = extern_kernel aten.sin.default(%x) : f32[8]  # behind "it"
  %b = extern_kernel aten.cos.default(%a) : f32[8]
  free %a
  # before the end
  return %b
}
# after
# last
"""
    )


@settings(max_examples=40)
@given(program=programs(), data=st.data())
def test_formatting_keeps_the_program_and_its_remarks(
    program: Program, data: st.DataObject
) -> None:
    lines = format_program(program).split("\n")
    for number in range(3):
        at = data.draw(st.integers(1, len(lines)))
        if not lines[min(at, len(lines) - 1)].lstrip().startswith("|"):
            lines.insert(at, f"   # remark {number}")
    text = "\n".join(lines)
    made = format_text(text)
    assert parse_program(made) == program
    remarks = re.compile("# remark [0-9]")
    assert remarks.findall(made) == remarks.findall(text)
    assert format_text(made) == made


@settings(max_examples=40)
@given(programs())
def test_blocks_are_those_of_braces(program: Program) -> None:
    text = format_program(program)
    lines = text.split("\n")
    blocks = list(find_blocks(text))
    assert len(blocks) == sum(
        line.endswith("{") for line in lines if not line.lstrip().startswith("|")
    )
    for first, last in blocks:
        indent = len(lines[first]) - len(lines[first].lstrip())
        assert lines[last][: indent + 1] == f"{' ' * indent}}}"
