import pytest

from wrapperir.report import SymbolValueError, choose_values
from wrapperir.text import parse_program

PROGRAM = parse_program("""\
wrapperir 1

program @main(%x: f32[s0, s1], %n: i64) {
  symbol s0: int 2..32 = size(%x, 0)
  symbol s1: int 100.. = size(%x, 1)
  symbol s2: int = s0 * s1
  symbol on: bool = value(%n)
  %c = extern_kernel aten.nonzero.default(%x) : i64[u0, 2]
  symbol_definition u0: int 0.. = size(%c, 0)
  free %c
  free %x
  return
}
""")


def test_values_are_given_computed_or_usual() -> None:
    chosen = choose_values(PROGRAM, {"s0": 4})
    assert [(s.name, s.value, s.reason) for s in chosen] == [
        ("s0", 4, "given"),
        ("s1", 100, "not given; of 100.."),
        ("s2", 400, "from the symbols before it"),
        ("u0", 64, "not given; of 0.."),
    ]
    assert choose_values(PROGRAM, {})[0].value == 32


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"s9": 4}, r"no symbol s9 \(it has s0, s1, s2, u0\)"),
        ({"s0": 33}, r"s0 = 33 is not in its range 2\.\.32"),
        ({"s1": 99}, r"s1 = 99 is not in its range 100\.\."),
    ],
)
def test_a_value_must_be_of_a_symbol_and_in_its_range(
    given: dict[str, int], message: str
) -> None:
    with pytest.raises(SymbolValueError, match=message):
        choose_values(PROGRAM, given)


def test_symbols_that_are_only_checked_are_not_shown() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[8]) {
  %c = extern_kernel aten.nonzero.default(%x) : i64[u0, 1]
  symbol_definition u0: int 0.. = size(%c, 0)
  symbol_definition u1: int 0.. = size(%x, 0)
  assert_scalar u1 < 9 "it is too large"
  return %c
}
""")
    assert [each.name for each in choose_values(program, {})] == ["u0"]
    assert [each.name for each in choose_values(program, {"u1": 3})] == ["u0", "u1"]
