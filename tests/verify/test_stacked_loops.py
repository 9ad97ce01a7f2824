"""Loops that stack the values of all iterations."""

import pytest

from wrapperir.diagnostics import Code
from wrapperir.text import parse_program
from wrapperir.verify import verify

LOOP = """
wrapperir 1

program @main(%x: mutated f32[4], %n: i64, %more: bool[]) {
  symbol n: int = value(%n)

  %y, %ys = while_loop stacked (%x) (%more) : f32[4], f32[u0, 4] {
    condition (%p: f32[4], %q: bool[]) {
      %go = extern_kernel aten.clone.default(%q) : bool[]
      return %go
    }
    body (%a: f32[4], %b: bool[]) {
      %c = extern_kernel aten.neg.default(%a) : f32[4]
      return %c
    }
  }
  symbol_definition u0: int 1.. = size(%ys, 0)
  free %y
  return %ys
}
"""


def found(*changes: tuple[str, str]) -> list[tuple[Code, str]]:
    text = LOOP
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return [(d.code, d.message) for d in verify(parse_program(text))]


def test_a_stacked_loop_is_valid() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("f32[u0, 4] {", "f32[n, 4] {"), "a symbol of its own"),
        (("f32[u0, 4] {", "f32[3, 4] {"), "a symbol of its own"),
        (("f32[u0, 4] {", "f32[u0, 5] {"), "size"),
        (("f32[u0, 4] {", "f32[u0, 4; stride 5, 1] {"), "row-major"),
        (("f32[u0, 4] {", "f32[u0] {"), "rank"),
        (("f32[u0, 4] {", "f64[u0, 4] {"), "f64"),
        (("f32[u0, 4] {", "i64 {"), "only tensors are stacked"),
        (("while_loop stacked", "while_loop"), "carries 1 values and defines 2"),
        (("%y, %ys = ", "%y, %ys, %z = "), "not 2 with their stacks"),
    ],
)
def test_what_is_no_stack(change: tuple[str, str], message: str) -> None:
    changes = [change]
    if "%z" in change[1]:
        changes.append((": f32[4], f32[u0, 4]", ": f32[4], f32[u0, 4], f32[4]"))
    (problem, *_) = [text for code, text in found(*changes) if code is Code.CARRIED_TYPES]
    assert message in problem


def test_the_blocks_do_not_write_to_what_is_stacked() -> None:
    head = "    body (%a: f32[4], %b: bool[]) {"
    change = (head, f"{head}\nextern_kernel aten.neg_.default(%a) writes(%a)")
    codes = [code for code, _ in found(change)]
    assert codes == [Code.FORBIDDEN_WRITE]
    plain = [
        change,
        ("while_loop stacked", "while_loop"),
        ("%y, %ys = ", "%y = "),
        (": f32[4], f32[u0, 4]", ": f32[4]"),
        ("  symbol_definition u0: int 1.. = size(%ys, 0)\n", ""),
        ("  free %y\n  return %ys", "  return %y"),
    ]
    assert found(*plain) == []
