"""Collectives are overlapped with work, within the memory limit, and as all ranks agree."""

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.passes.common_faults import faults_of
from wrapperir.analysis import analyze_memory
from wrapperir.analysis.machines import CPU, H100
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import CollectiveLine, Program, WaitCollectiveLine
from wrapperir.passes import (
    MEMORY_PASSES,
    insert_frees,
    line_dependences,
    overlap_collectives,
    overlap_lines,
    overlap_schedule,
)
from wrapperir.passes.live_units import RangeMaximum
from wrapperir.passes.overlap_collectives import MEMORY_LIMIT
from wrapperir.pipelines import run_passes
from wrapperir.testing import rank_programs
from wrapperir.testing.rank_check import rank_behaviour, rank_codes, rank_pass_faults
from wrapperir.text import format_program, parse_program

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))
LIMITS = st.sampled_from([1.0, MEMORY_LIMIT, 1.5, 4.0])


@pytest.mark.slow
@settings(SLOW, max_examples=draws(100, fuzz=400))
@given(rank_programs(common=True), LIMITS)
def test_results_and_peaks(programs: list[Program], limit: float) -> None:
    after = overlap_collectives(programs[0], limit=limit)
    assert faults_of(programs, after, limit) == ()


@settings(SLOW, max_examples=draws(40, fuzz=200))
@given(rank_programs(common=True))
def test_memory_is_planned_around_work_in_flight(programs: list[Program]) -> None:
    after = run_passes(programs[0], [overlap_collectives, *MEMORY_PASSES])
    assert faults_of(programs, after, MEMORY_LIMIT) == ()


@pytest.mark.slow
@settings(SLOW, max_examples=draws(60, fuzz=300))
@given(rank_programs())
def test_programs_of_ranks_still_meet(programs: list[Program]) -> None:
    after = [overlap_collectives(program, limit=4.0) for program in programs]
    faults = rank_pass_faults(rank_behaviour(programs), rank_behaviour(after), 4.0)
    assert faults == ()


def without_accesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_dependences._Walk, "_access", lambda *given: None)


def without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_dependences, "_NAMES_ONLY", frozenset())
    monkeypatch.setattr(line_dependences._Walk, "_note", lambda *given: None)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [without_accesses, without_names])
def test_a_wrong_pass_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    caught = 0

    @settings(SLOW, max_examples=draws(60, fuzz=60))
    @given(rank_programs(common=True))
    def count(programs: list[Program]) -> None:
        nonlocal caught
        after = overlap_collectives(programs[0], limit=1.0)
        caught += bool(faults_of(programs, after, 1.0))

    count()
    assert caught > 0


ORDERS = """wrapperir 1

program @main(%x: f32[96, 96], %a: mutated f32[256], %b: mutated f32[256]) {
  group "0" size 2

  PRODUCTS
  %v = collective all_reduce(sum) "0" reads(%a) writes(%a)
  %w = collective all_reduce(max) "0" reads(%b) writes(%b)
  WAITS
  return %y0, %y1, %y2, %y3, %y4, %y5
}
"""


def test_starts_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [f"wait_collective %{w} reads(%{x}) writes(%{x})" for w, x in ("va", "wb")]
    products = [
        f"%y{i} = extern_kernel aten.mm.default(%x, %x) : f32[96, 96]" for i in range(6)
    ]
    text = ORDERS.replace("PRODUCTS", "\n  ".join(products))
    # No line moves past a check for which the host reads a value.
    check = 'assert_not_nan %x "x"'
    orders = ((waits[0], check, waits[1]), (waits[1], check, waits[0]))
    texts = (text.replace("WAITS", "\n  ".join(each)) for each in orders)
    programs = [parse_program(text) for text in texts]
    moved = [overlap_collectives(program) for program in programs]
    assert all(old != new for old, new in zip(programs, moved, strict=True))
    assert rank_codes(moved) == set()
    real = line_dependences._Walk.take

    def forgetful(walk: line_dependences._Walk, *given: object) -> None:
        walk.started = -1
        real(walk, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(line_dependences._Walk, "take", forgetful)
    assert rank_codes([overlap_collectives(program) for program in programs])


PREFETCH = """wrapperir 1

program @main(%x: f32[512, 512], %a: f32[256, 512], %b: f32[256, 512]) {
  group "0" size 2

  %p = allocate f32[512, 512]
  %v = collective all_gather "0" reads(%a) writes(%p)
  wait_collective %v reads(%a) writes(%p)
  %y = extern_kernel aten.mm.default(%x, %p) : f32[512, 512]
  free %p
  %q = allocate f32[512, 512]
  %w = collective all_gather "0" reads(%b) writes(%q)
  wait_collective %w reads(%b) writes(%q)
  %z = extern_kernel aten.mm.default(%y, %q) : f32[512, 512]
  free %y
  free %q
  return %z
}
"""


def operations(program: Program) -> list[str]:
    """Return starts as ``start v``, waits as ``wait v`` and the results of other calls."""
    found: list[str] = []
    for line in program.lines:
        if isinstance(line, CollectiveLine):
            found.append(f"start {line.result}")
        elif isinstance(line, WaitCollectiveLine):
            found.append(f"wait {line.work}")
        elif "extern_kernel" in format_program(evolve(program, lines=(line,))):
            found.append(getattr(line, "result", ""))
    return found


def test_a_parameter_is_gathered_while_the_layer_before_runs() -> None:
    program = parse_program(PREFETCH)
    after = overlap_lines(program, CPU, limit=2.0)
    wanted = ["start v", "wait v", "start w", "y", "wait w", "z"]
    assert operations(after.program) == wanted
    (block,) = after.report.blocks
    assert block.seconds < block.seconds_before
    assert [each.works for each in block.collectives] == [0, 1]
    assert block.collectives[1].stalls < block.collectives[1].stalled


def test_memory_limits_what_is_gathered_early(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = PREFETCH.replace(
        "%x: f32[512, 512], %a: f32[256", "%x: f32[512, 1024], %a: f32[512"
    )
    program = parse_program(wide.replace("%p = allocate f32[512", "%p = allocate f32[1024"))
    assert overlap_lines(program, CPU, limit=2.0).program != program
    after = overlap_lines(program, CPU, limit=1.0)
    assert after.program == program
    (block,) = after.report.blocks
    assert block.kept == "no other order is predicted to be faster"
    # Without the limit, the peak is higher.
    monkeypatch.setattr(overlap_schedule._Scheduler, "_is_too_much", lambda *given: False)
    real = overlap_schedule._LiveMemory.place
    monkeypatch.setattr(
        overlap_schedule._LiveMemory, "place", lambda *given: real(*given) * 0
    )
    wrong = overlap_lines(program, CPU, limit=1.0).program
    assert analyze_memory(wrong, {}).peak > analyze_memory(program, {}).peak


def test_gradients_are_reduced_while_others_are_computed() -> None:
    lines = ['group "0" size 2', ""]
    for name in "abc":
        lines += [
            f"%{name} = extern_kernel aten.mm.default(%x, %x) : f32[512, 512]",
            f'%w{name} = collective all_reduce(sum) "0" reads(%{name}) writes(%{name})',
            f"wait_collective %w{name} reads(%{name}) writes(%{name})",
        ]
    body = "\n".join(f"  {line}".rstrip() for line in lines)
    head = "wrapperir 1\n\nprogram @main(%x: f32[512, 512]) {\n"
    text = f"{head}{body}\n  return %a, %b, %c\n}}\n"
    program = parse_program(text)
    after = overlap_collectives(program)
    assert operations(after) == [
        *("a", "start wa", "b", "wait wa", "start wb"),
        *("c", "start wc", "wait wb", "wait wc"),
    ]


LATE = """wrapperir 1

program @main(%x: mutated f32[8]) {
  group "all" size 2
  group "too" size 2

  %a = allocate f32[8]
  %u = collective all_to_all "all" reads(%x) writes(%a)
  %b = allocate f32[8]
  %v = collective all_to_all "too" reads(%x) writes(%b)
  %c = extern_kernel aten.full.default([8], 0.0) : f32[8]
  %w = collective all_reduce(sum) "all" reads(%c) writes(%c)
  wait_collective %u reads(%x) writes(%a)
  free %a
  wait_collective %v reads(%x) writes(%b)
  wait_collective %w reads(%c) writes(%c)
  free %c
  return %b
}
"""


def test_waits_whose_turn_is_over_do_not_look_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = RangeMaximum.maximum

    def maximum(numbers: RangeMaximum, begin: int, end: int) -> int:
        assert begin <= end, "it takes forever then"
        return real(numbers, begin, end)

    monkeypatch.setattr(RangeMaximum, "maximum", maximum)
    program = insert_frees(parse_program(LATE))
    after = overlap_collectives(program)
    assert rank_codes([after, after]) == set()


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(DiagnosticError) as caught:
        overlap_collectives(parse_program(PREFETCH), machine="abacus")
    assert [each.code for each in caught.value.diagnostics] == [Code.WRONG_PASS_ARGUMENT]


def layers(count: int) -> Program:
    """Return a program that gathers a parameter for each layer, right before its use."""
    head = "wrapperir 1\n\nprogram @main(%y: f32[512, 512], %a: f32[256, 512]) {\n"
    lines = ['  group "0" size 2\n']
    for i in range(count):
        lines += [
            f"  %p{i} = allocate f32[512, 512]",
            f'  %w{i} = collective all_gather "0" reads(%a) writes(%p{i})',
            f"  wait_collective %w{i} reads(%a) writes(%p{i})",
            f"  %y{i} = extern_kernel aten.mm.default(%y{i - 1 if i else ''}, %p{i})"
            " : f32[512, 512]",
        ]
    text = "\n".join(lines)
    return insert_frees(parse_program(f"{head}{text}\n  return %y{count - 1}\n}}\n"))


def test_long_programs_take_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the nodes that are looked at, for two lengths."""
    looks = 0
    real = overlap_schedule._LiveMemory.added

    def counted(memory: overlap_schedule._LiveMemory, node: int) -> int:
        nonlocal looks
        looks += 1
        return real(memory, node)

    monkeypatch.setattr(overlap_schedule._LiveMemory, "added", counted)
    found: list[int] = []
    for count in (50, 200):
        looks = 0
        after = overlap_lines(layers(count), H100, limit=1.5)
        assert after.report.blocks[0].kept == ""
        found.append(looks)
    assert found[1] < 5 * found[0]
