"""Renaming of the values that lines name."""

from attrs import evolve
from hypothesis import given

from wrapperir.ir import Program
from wrapperir.ir.line_effects import LineEffects, value_names
from wrapperir.ir.renaming import rename_program, rename_values
from wrapperir.testing.programs import programs
from wrapperir.verify import verify

EFFECTS = LineEffects(None)


@given(programs(languages=()))
def test_each_name_is_renamed(program: Program) -> None:
    for line in program.lines:
        new = rename_values(line, lambda name: f"{name}_")
        before, after = EFFECTS.visit(line), EFFECTS.visit(new)
        assert after.uses == tuple(f"{name}_" for name in before.uses)
        assert after.drops == (None if before.drops is None else f"{before.drops}_")
        assert [(made.name, made.type, made.source) for made in after.definitions] == [
            (f"{m.name}_", m.type, None if m.source is None else f"{m.source}_")
            for m in before.definitions
        ]
        assert {access.name for access in after.accesses} == {
            f"{access.name}_" for access in before.accesses
        }
        assert rename_values(new, lambda name: name[:-1]) == line
        assert rename_values(line, lambda name: name) is line


@given(programs(languages=()))
def test_each_name_of_a_program_is_renamed(program: Program) -> None:
    new = rename_program(program, lambda name: f"{name}_")
    assert list(value_names(new)) == [f"{name}_" for name in value_names(program)]
    assert verify(new) == ()
    assert rename_program(new, lambda name: name[:-1]) == program


def test_provenance_and_nested_blocks_stay() -> None:
    from wrapperir.text import parse_program

    program = parse_program("""\
wrapperir 1

program @main(%x: f32[4]) {
  %r = subgraph_call @f (%x) : f32[4] {
    body (%p: f32[4]) {
      %a = extern_kernel aten.neg.default(%p) : f32[4] from(x)
      return %a
    }
  }
  free %x
  return %r
}
""")
    (call, _) = program.lines
    new = rename_values(call, lambda name: f"{name}_")
    assert new.body == call.body  # type: ignore[union-attr]
    assert evolve(new, results=call.results, operands=call.operands) == call  # type: ignore
