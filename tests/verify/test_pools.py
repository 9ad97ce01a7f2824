"""What is certain of pools and placements is reported; what depends on a run is not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verify.test_robustness import calls_of
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import PoolType, Program, SizeOf, Symbol, tensor
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.text import parse_program
from wrapperir.verify import verify


def codes(lines: str) -> list[Code]:
    return [diagnostic.code for diagnostic in verified(lines)]


def verified(lines: str) -> tuple[Diagnostic, ...]:
    text = f"""wrapperir 1

program @main(%x: f32[s0, s1], %n: i64, %flag: bool[]) {{
  symbol s0: int 2.. = size(%x, 0)
  symbol s1: int 2.. = size(%x, 1)
  symbol n: int = value(%n)

{lines}
}}
"""
    return verify(parse_program(text))


def pair_codes(first: str, second: str) -> list[Code]:
    """Return what is found where two placements live at once in a large pool."""
    return codes(
        f"""  %p = allocate_pool pool[{1 << 60}]
  %a = place {first.replace(" at", " in %p at")}
  %b = place {second.replace(" at", " in %p at")}
  free %p
  free %a
  free %b
  return"""
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("f32[16] at 0", "f32[16] at 64"),
        ("f32[16] at 64", "f32[16] at 0"),
        ("f32[0] at 0", "f32[16] at 0"),
        ("f32[16, 0] at 32", "f32[16] at 0"),
        ("pool[64] at 0", "f32[16] at 64"),
        ("f32[s0] at 0", "f32[s0] at s0 * 4"),
        ("f32[s0] at s0 * 4", "f32[s0] at 0"),
        ("f32[s0, s1] at 0", "f32[s1] at s0 * s1 * 4"),
        ("f32[s0] at 0", "f32[16] at 64"),  # they do where s0 is more than 16
        ("f32[s0] at 0", "f32[s1] at s0 * 4"),
        ("f32[s0] at 0", "f32[s1] at s1 * 4"),  # they do where s0 is more than s1
        ("f32[s0] at 0", "f32[s0] at ceildiv(s0, 16) * 64"),
        ("f32[8; offset 8] at 0", "f32[8] at 64"),
    ],
)
def test_placements_that_may_be_apart_are_accepted(first: str, second: str) -> None:
    assert pair_codes(first, second) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("f32[16] at 0", "f32[16] at 60"),
        ("f32[16] at 60", "f32[16] at 0"),
        ("f32[16] at 0", "f32[1] at 32"),
        ("f32[1] at 32", "f32[16] at 0"),
        ("pool[65] at 0", "f32[16] at 64"),
        ("f32[8; offset 8] at 0", "f32[8] at 0"),
        ("f32[s0] at 0", "f32[s0] at 0"),
        ("f32[s0 * 2] at 0", "f32[s0] at s0 * 4"),
        ("f32[s0] at s0 * 4", "f32[s0 * 2] at 0"),
        ("f32[s0, s1] at s0 * s1 * 4", "f32[s0, s1, 2] at 0"),
        ("f32[s0 * 8] at 0", "f32[1] at 32"),  # s0 is at least 2
        ("f32[s0] at s1 * 4", "f32[s0 + 1] at s1 * 4"),
        ("f32[s0 + s1] at 0", "f32[1] at s0 * 4"),
        ("f32[1] at s0 * 4", "f32[s0 + s1] at 0"),
        ("f32[n] at 0", "f32[n] at 0"),  # a size that may be zero counts as one
        ("f32[min(s0, 100)] at 0", "f32[64] at 4"),
    ],
)
def test_placements_that_overlap_are_reported(first: str, second: str) -> None:
    assert pair_codes(first, second) == [Code.PLACEMENT_OVERLAP]


@pytest.mark.parametrize(
    ("placement", "pool", "expected"),
    [
        ("f32[16] at 0", "64", None),
        ("f32[16] at 4", "64", Code.OUTSIDE_POOL),
        ("f32[0] at 64", "64", None),
        ("f32[0] at 68", "64", Code.OUTSIDE_POOL),
        ("f32[s0] at 0", "s0 * 4", None),
        ("f32[s0] at s0 * 4", "s0 * 8", None),
        ("f32[s0] at s0 * 4", "s0 * 7", Code.OUTSIDE_POOL),
        ("f32[s0] at 0", "64", None),  # it does where s0 is 16 or less
        ("f32[s0] at 60", "64", Code.OUTSIDE_POOL),  # s0 is at least 2
        ("f32[s0, s1] at 0", "s0 * s1 * 4 - 1", Code.OUTSIDE_POOL),
        ("f32[s0] at 0", "max(s0 * 4, 64)", None),
        ("pool[s0 * 4] at 0", "s0 * 4 - 4", Code.OUTSIDE_POOL),
        ("f32[n] at 0", "64", None),
        ("f64[4] at 4", "64", Code.PLACEMENT_ALIGNMENT),
        ("f64[4] at 8", "64", None),
        ("f64[4] {align = 32} at 16", "64", Code.PLACEMENT_ALIGNMENT),
        ("f64[4] {align = 16} at 16", "64", None),
        ("f64[1] {align = 128} at 0", "64", Code.PLACEMENT_ALIGNMENT),
        ("f32[1] at s0 * 8 + 2", "s0 * 64", Code.PLACEMENT_ALIGNMENT),
        ("f32[1] at s0 * 2", "s0 * 64", None),  # it is where s0 is even
        ("f32[1] at -4", "64", Code.NEGATIVE_EXTENT),
        ("f32[1] at 0.5", "64", Code.NOT_AN_INTEGER),
        ("f32[1] at s9", "64", Code.UNKNOWN_SYMBOL),
        ("f32[1] at 0", "-1", Code.NEGATIVE_EXTENT),
        ("f32[1] at 0", "9223372036854775808", Code.TOO_LARGE),
        ("pool[64] {align = 3} at 0", "64", Code.INVALID_ALIGNMENT),
        ("f32[1]@cuda:0 at 0", "64", Code.PLACEMENT_INCOMPATIBLE),
        ("pool[4]@cuda:0 at 0", "64", Code.PLACEMENT_INCOMPATIBLE),
        ("f32[1] {space = comm} at 0", "64", Code.PLACEMENT_INCOMPATIBLE),
        ("f32[1] {layout = acme.tiled(2)} at 0", "64", Code.UNPLACEABLE),
    ],
)
def test_a_placement_against_its_pool(
    placement: str, pool: str, expected: Code | None
) -> None:
    found = verified(
        f"""  %p = allocate_pool pool[{pool}]
  %a = place {placement.replace(" at", " in %p at")}
  free %a
  free %p
  return"""
    )
    assert [d.code for d in found] == ([] if expected is None else [expected])
    for diagnostic in found:
        has_hint = diagnostic.hint is not None
        assert has_hint or diagnostic.code not in OF_PLACES


OF_PLACES = {
    Code.OUTSIDE_POOL,
    Code.PLACEMENT_ALIGNMENT,
    Code.PLACEMENT_INCOMPATIBLE,
    Code.UNPLACEABLE,
}


def test_what_differs_from_a_pool_says_whose_place_is_which() -> None:
    (found,) = verified(
        "  %p = allocate_pool pool[64]@cuda:0\n  %a = place f32[1] in %p at 0\n"
        "  free %a\n  free %p\n  return"
    )
    assert found.message == "%a cannot be in %p: %p is on cuda:0, not on cpu"


def test_only_of_a_tensor_is_a_view_to_be_kept() -> None:
    (found,) = verified(
        "  %p = allocate_pool pool[64]\n  free %p\n  %a = place f32[1] in %p at 0\n"
        "  free %a\n  return"
    )
    assert (found.code, found.hint) == (
        Code.USE_AFTER_FREE,
        "use it before, or drop it later",
    )
    (found,) = verified("  free %x\n  extern_kernel aten.f(%x)\n  return")
    assert found.hint == "use it before, or keep a view of it"


def test_bytes_are_free_when_the_last_name_is_dropped() -> None:
    lines = """  %p = allocate_pool pool[64]
  %a = place f32[16] in %p at 0
  %v = reinterpret %a as f32[8]
  free %a
  %r = reuse %v as f32[4]
  {0}
  free %r
  {1}
  free %p
  return"""
    place = "%b = place f32[16] in %p at 0\n  free %b"
    assert codes(lines.format("", place)) == []
    assert codes(lines.format(place, "")) == [Code.PLACEMENT_OVERLAP]


def test_a_placed_pool_lives_as_long_as_what_is_placed_in_it() -> None:
    lines = """  %p = allocate_pool pool[128]
  %q = place pool[64] in %p at 64
  %a = place f32[8] in %q at 32
  free %q
  {0}
  free %a
  {1}
  free %p
  return"""
    place = "%b = place f32[16] in %p at 64\n  free %b"
    assert codes(lines.format(place, "")) == [Code.PLACEMENT_OVERLAP]
    assert codes(lines.format("", place)) == []


BLOCK = """  %p = allocate_pool pool[128]
  %a = place f32[16] in %p at 0
  extern_kernel aten.zero_.default(%a) writes(%a)
  %c = conditional %flag (%p, %a) : f32[16] {{
    true (%q: pool[128], %t: f32[16]) {{
      {0}
      %d = extern_kernel aten.neg.default(%t) : f32[16]
      return %d
    }}
    false (%r: pool[128], %u: f32[16]) {{
      %b = place f32[16] in %r at 64
      free %b
      %e = extern_kernel aten.neg.default(%u) : f32[16]
      return %e
    }}
  }}
  {1}
  free %a
  free %c
  free %p
  return"""


def test_a_block_places_in_the_pool_that_it_is_lent() -> None:
    inside = "%f = place f32[16] in %q at 64\n      free %f"
    after = "%g = place f32[16] in %p at 64\n  free %g"
    assert codes(BLOCK.format(inside, after)) == []
    over = inside.replace("64", "32")
    assert codes(BLOCK.format(over, after)) == [Code.PLACEMENT_OVERLAP]
    assert codes(BLOCK.format(inside.splitlines()[0], after)) == [Code.LEAK]
    assert codes(BLOCK.format("free %q", after)) == [Code.PARAMETER_DROPPED]
    outer = inside.replace("%q", "%p")
    assert codes(BLOCK.format(outer, after))[0] is Code.OUTER_NAME


def test_a_parameter_is_the_pool_that_its_operand_is() -> None:
    for other in ("pool[64]", "pool[128] {align = 128}", "pool[128]@cuda:0", "f32[32]"):
        text = BLOCK.format("", "").replace("%q: pool[128]", f"%q: {other}")
        assert codes(text) == [Code.BLOCK_PARAMETERS]


@pytest.mark.parametrize("result", ["%b", "%v", "%w"])
def test_a_block_returns_nothing_of_the_pool_that_it_is_lent(result: str) -> None:
    free = "".join(f"free {name}\n" for name in ("%b", "%v", "%w") if name != result)
    lines = f"""  %p = allocate_pool pool[128]
  %c = subgraph_call @block (%p) : f32[16] {{
    body (%q: pool[128]) {{
      %b = place f32[16] in %q at 64
      %v = reinterpret %b as f32[16]
      %w = extern_kernel aten.view.default(%b) aliases(%b) : f32[16]
      {free}
      return {result}
    }}
  }}
  %d = place f32[16] in %p at 64
  free %d
  free %c
  free %p
  return"""
    assert codes(lines) == [Code.BORROWED_RESULT]


PERHAPS = """  %p = allocate_pool pool[128]
  %a = place f32[16] in %p at 0
  {}
  free %a
  {}
  %c = place f32[16] in %p at 32
  free %c
  {}
  free %p
  return"""

VIEW = "extern_kernel aten.view.default(%{0}) aliases(%{0}) : f32[16]"
SPLIT = "extern_kernel aten.split.Tensor(%a, 16) aliases(%a) : (f32[16], f32[16])"


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([f"%v = {VIEW.format('a')}"], ["%v"]),
        ([f"%v = {VIEW.format('a')}", f"%w = {VIEW.format('v')}"], ["%v", "%w"]),
        ([f"%v = {VIEW.format('a')}", "%w = reinterpret %v as f32[4]"], ["%w", "%v"]),
        ([f"%t = {SPLIT}", "%v = multi_output %t[0] : f32[16]"], ["%t", "%v"]),
        ([f"%v = {VIEW.format('a')}", "%w = reuse %v as f32[16]"], ["%w"]),
    ],
)
def test_what_may_be_a_view_of_a_placement_keeps_it_alive(
    lines: list[str], names: list[str]
) -> None:
    made = "\n  ".join(lines)
    frees = [f"free {name}" for name in names]
    after = PERHAPS.format(made, "", "\n  ".join(frees))
    assert codes(after) == [Code.PLACEMENT_OVERLAP]
    for last in frees:  # all names but one are dropped before
        before = "\n  ".join(each for each in frees if each != last)
        assert codes(PERHAPS.format(made, before, last)) == [Code.PLACEMENT_OVERLAP]
    assert codes(PERHAPS.format(made, "\n  ".join(frees), "")) == []


def test_a_number_of_a_placement_does_not_keep_it_alive() -> None:
    line = "%k = extern_kernel aten.item.default(%a) aliases(%a) : f32"
    assert codes(PERHAPS.format(line, "", "")) == []


def test_a_block_returns_what_is_in_a_pool_of_its_own() -> None:
    lines = """  %c = subgraph_call @block () : f32[16] {
    body () {
      %q = allocate_pool pool[128]
      %b = place f32[16] in %q at 64
      free %q
      return %b
    }
  }
  return %c"""
    assert codes(lines) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%r = reinterpret %p as f32[1]\n  free %r", Code.NOT_A_TENSOR),
        ("assert_not_nan %p", Code.NOT_A_TENSOR),
        ("symbol_definition u0: int = size(%p, 0)", Code.NOT_A_TENSOR),
        ("symbol_definition u0: int = value(%e)", Code.SYMBOL_SOURCE),
        ("extern_kernel aten.f.default([1, %p])", Code.MISPLACED_RESOURCE),
        ("extern_kernel aten.f.default(out = %p) writes(%p)", Code.MISPLACED_RESOURCE),
        ("extern_kernel aten.f.default(%e)", Code.MISPLACED_RESOURCE),
        ("%r = extern_kernel aten.f.default() : pool[4]", Code.MISPLACED_RESOURCE),
        ("%r = extern_kernel aten.f.default() : event@cpu", Code.MISPLACED_RESOURCE),
        (
            "%r = extern_kernel aten.f.default() : (f32[4], pool[4])\n  free %r",
            Code.MISPLACED_RESOURCE,
        ),
        (
            "subgraph_call @b (%e) {\n    body (%q: event@cpu) {\n      return\n    }\n  }",
            Code.MISPLACED_RESOURCE,
        ),
        ("%r = place f32[1] in %e at 0\n  free %r", Code.NOT_A_POOL),
        ("wait_event %p", Code.NOT_AN_EVENT),
        ("wait_event %missing", Code.UNDEFINED_NAME),
        ("wait_event %e @cuda:0", Code.EVENT_ELSEWHERE),
        ("wait_event %e stream(1)", None),
        ("free %e", None),
    ],
)
def test_where_pools_and_events_are_named(line: str, expected: Code | None) -> None:
    found = codes(
        f"""  %e = record_event
  %p = allocate_pool pool[64]
  {line}
  free %p
  return"""
    )
    assert Code.MALFORMED not in found
    assert found[:1] == ([] if expected is None else [expected])


def test_pools_and_events_are_no_inputs_and_no_outputs() -> None:
    for kind in ("pool[4]", "event@cpu"):
        text = f"wrapperir 1\n\nprogram @main(%x: {kind}) {{\n  return\n}}\n"
        found = [d.code for d in verify(parse_program(text))]
        assert found == [Code.MISPLACED_RESOURCE]
    assert codes("  %e = record_event\n  return %e") == [Code.MISPLACED_RESOURCE]
    assert codes("  %p = allocate_pool pool[4]\n  return %p") == [Code.MISPLACED_RESOURCE]
    assert codes("  %p = allocate_pool pool[4]\n  return") == [Code.LEAK]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("aten.as_strided.default(%b, [4], [1], 8)", [Code.STORAGE_OF_PLACED]),
        ("aten.as_strided.default(%v, [4], [1], 8)", [Code.STORAGE_OF_PLACED]),
        ("aten.as_strided.default(%a, [4], [1], 8)", []),
        ("aten.linalg_norm.default(%b)", [Code.STORAGE_OF_PLACED]),
        ("aten.relu.default(%b)", []),
    ],
)
def test_what_looks_at_a_storage_is_not_placed(operator: str, expected: list[Code]) -> None:
    lines = f"""  %p = allocate_pool pool[64]
  %b = place f32[16] in %p at 0
  extern_kernel aten.ones.out([16], out = %b) writes(%b)
  %v = reinterpret %b as f32[4, 4]
  %a = extern_kernel aten.ones.default([16]) : f32[16]
  %r = extern_kernel {operator} : f32[4]
  free %r
  free %a
  free %v
  free %b
  free %p
  return"""
    assert codes(lines) == expected


@pytest.mark.parametrize("name", ["reinterpret", "reuse"])
@pytest.mark.parametrize(
    ("align", "offset", "fits"),
    [(64, 8, True), (64, 0, True), (64, 1, False), (64, 4, False), (4, 0, False)],
)
def test_views_and_reuses_need_their_elements_aligned(
    name: str, align: int, offset: int, fits: bool
) -> None:
    dropped = "  free %b\n" if name == "reinterpret" else ""
    lines = f"""  %p = allocate_pool pool[256] {{align = {align}}}
  %b = place u8[64] in %p at {offset}
  %v = {name} %b as f64[4]
  extern_kernel aten.fill_.Scalar(%v, 3) writes(%v)
{dropped}  free %v
  free %p
  return"""
    assert codes(lines) == ([] if fits else [Code.PLACEMENT_ALIGNMENT])
    program = parse_program(f"wrapperir 1\n\nprogram @main() {{\n{lines}\n}}\n")
    if fits:
        interpret(program, (), {})
    else:
        with pytest.raises(DiagnosticError, match="not aligned"):
            interpret(program, (), {})


PLACEMENTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=30)


@given(PLACEMENTS, st.randoms(use_true_random=False), st.sampled_from([1, Symbol("s0")]))
def test_overlaps_are_those_of_a_map_of_bytes(
    placements: list[tuple[int, int]], rng: random.Random, unit: int | Symbol
) -> None:
    """A map of who has each unit finds the same placements, in random lifetimes."""
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("s0"),)))
    b.symbol("s0", SizeOf(x.name, 0), lower=1)
    pool = b.allocate_pool(PoolType(size=unit * 64, alignment=1))
    taken: dict[int, NamedValue] = {}
    living: list[NamedValue] = []
    faulty: set[str] = set()
    for offset, size in placements:
        while living and rng.random() < 0.4:
            dropped = living.pop(rng.randrange(len(living)))
            b.free(dropped)
            taken = {byte: v for byte, v in taken.items() if v is not dropped}
        value = b.place(pool, unit * offset, tensor("u8", (unit * size,)))
        bytes = range(offset, offset + size)
        living.append(value)
        if any(byte in taken for byte in bytes):
            faulty.add(value.name)
        else:
            taken.update(dict.fromkeys(bytes, value))
    found = verify(b.free(*living, pool).build())
    assert {d.code for d in found} <= {Code.PLACEMENT_OVERLAP}
    assert {str(d.subject).removeprefix("%") for d in found} == faulty


def _placing(n: int, unit: int | Symbol) -> Program:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("s0"),)))
    b.symbol("s0", SizeOf(x.name, 0), lower=1)
    pool = b.allocate_pool(PoolType(size=unit * (n * 64)))
    type = tensor("u8", (unit * 64,))
    numbers = list(range(n))
    random.Random(n).shuffle(numbers)
    values = [b.place(pool, unit * (number * 64), type) for number in numbers]
    return b.free(*values, pool).build()


@pytest.mark.parametrize("unit", [1, Symbol("s0")])
def test_cost_of_placements_grows_with_their_number(unit: int | Symbol) -> None:
    small, large = calls_of(_placing(200, unit)), calls_of(_placing(1600, unit))
    assert large <= 8.5 * small
