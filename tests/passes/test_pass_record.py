"""Lines say which pass made, changed or moved them."""

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.passes.named_passes import without_passes
from wrapperir.ir import Program
from wrapperir.ir.blocks import BLOCK_FIELDS
from wrapperir.ir.origins import all_lines
from wrapperir.passes import MEMORY_PASSES, PASSES, record_pass
from wrapperir.passes.pass_record import longest_increasing
from wrapperir.pipelines import run_passes
from wrapperir.testing import programs
from wrapperir.text import format_line, parse_program
from wrapperir.verify import verify

TEXT = """\
wrapperir 1

program @main(%x: f32[8, 8], %w: f32[8, 8]) {
  %y = extern_kernel aten.mm.default(%x, %w) : f32[8, 8] from(mm)
  %z = extern_kernel aten.relu.default(%y) : f32[8, 8] from(relu)
  %n = extern_kernel aten.neg.default(%x) : f32[8, 8] from(neg)
  return %z, %n
}

origins {
  mm, relu, neg:
}
"""


EXPECTED = [
    "%y = allocate f32[8, 8] from(mm) by(use_out_variants)",
    "extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y) from(mm) by(use_out_variants)",
    "free %w by(insert_frees)",
    "%z = extern_kernel aten.relu.default(%y) : f32[8, 8] from(relu)",
    "%n = reuse %y as f32[8, 8] from(neg) by(use_out_variants, reuse_buffers)",
    "extern_kernel aten.neg.out(%x, out = %n) writes(%n) from(neg) by(use_out_variants)",
    "free %x by(insert_frees)",
]


def shown(program: Program) -> list[str]:
    return [format_line(line) for line in program.lines]


def reordered(program: Program) -> Program:
    first, *rest = program.lines
    return evolve(program, lines=(*rest, first))


def test_made_changed_and_moved_lines_name_the_passes() -> None:
    passes = "insert_frees, use_out_variants, reuse_buffers, plan_memory"
    program = run_passes(parse_program(TEXT), passes)
    assert shown(program) == EXPECTED


def test_only_the_moved_line_of_several_has_moved() -> None:
    program = parse_program(TEXT)
    moved = run_passes(program, [reordered])
    assert shown(moved) == [
        *shown(program)[1:],
        f"{shown(program)[0]} by(reordered)",
    ]


def test_an_equal_line_is_not_changed() -> None:
    program = parse_program(TEXT)
    copied = evolve(program, lines=tuple(evolve(line) for line in program.lines))
    assert record_pass(program, copied, "copy") == program


def test_what_replaces_a_line_has_its_origins() -> None:
    program = parse_program(TEXT)
    lines = tuple(evolve(line, provenance=None) for line in program.lines[:1])
    changed = evolve(program, lines=(*lines, *program.lines[1:]))
    (first, *_) = shown(record_pass(program, changed, "drop"))
    assert first == f"{shown(program)[0]} by(drop)"


def test_a_function_without_a_name_of_its_own_is_a_function() -> None:
    program = run_passes(parse_program(TEXT), [lambda program: reordered(program)])
    (*_, last) = program.lines
    assert last.provenance is not None
    assert last.provenance.passes == ("lambda",)


BLOCKS = """\
wrapperir 1

program @main(%x: f32[8]) {
  %y = subgraph_call @f (%x) : f32[8] {
    body (%p: f32[8]) {
      %a = extern_kernel aten.neg.default(%p) : f32[8]
      %b = extern_kernel aten.exp.default(%a) : f32[8]
      return %b
    }
  }
  return %y
}
"""


def test_a_line_with_blocks_is_not_changed_by_changes_in_them() -> None:
    program = run_passes(parse_program(BLOCKS), "insert_frees")
    (call, free) = program.lines
    assert call.provenance is None
    assert [format_line(line) for line in call.body.lines][2:] == [  # type: ignore[union-attr]
        "free %a by(insert_frees)"
    ]
    assert format_line(free) == "free %x by(insert_frees)"


@settings(max_examples=draws(40, fuzz=1000))
@given(programs(), st.sampled_from(sorted(PASSES)))
def test_recording_changes_nothing_else(program: Program, name: str) -> None:
    plain = PASSES[name](without_passes(program))
    recorded = run_passes(without_passes(program), [name])
    for line, other in zip(all_lines(plain), all_lines(recorded), strict=True):
        passes = () if other.provenance is None else other.provenance.passes
        assert set(passes) <= {name}
        if not passes and other.provenance == line.provenance:
            continue
        old = () if line.provenance is None else line.provenance.origins
        new = () if other.provenance is None else other.provenance.origins
        assert not old or old == new
    assert verify(recorded) == ()


@settings(max_examples=draws(20, fuzz=300))
@given(programs())
def test_new_kinds_of_lines_have_a_pass(program: Program) -> None:
    bare = without_passes(program)
    planned = run_passes(bare, MEMORY_PASSES)
    known = set(map(id, all_lines(bare)))
    equal = set(all_lines(bare))
    for line in all_lines(planned):
        if id(line) not in known and line not in equal and type(line) not in BLOCK_FIELDS:
            assert line.provenance is not None


@given(st.permutations(range(7)))
def test_the_longest_increasing_subsequence(numbers: list[int]) -> None:
    found = sorted(longest_increasing(numbers))
    values = [numbers[position] for position in found]
    assert values == sorted(values)
    best = [1] * len(numbers)
    for later, number in enumerate(numbers):
        for earlier in range(later):
            if numbers[earlier] < number:
                best[later] = max(best[later], best[earlier] + 1)
    assert len(found) == max(best)
