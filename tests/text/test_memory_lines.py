"""How pools, placements and events are spelled, and what is said of a misspelling."""

import pytest

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import (
    CPU,
    AllocatePoolLine,
    BodyLine,
    Device,
    EventType,
    PlaceLine,
    PoolType,
    RecordEventLine,
    Symbol,
    TupleType,
    ValueType,
    WaitEventLine,
    ZeroMode,
    tensor,
)
from wrapperir.text import format_line, format_type, parse_program, parse_type

GPU = Device("cuda", 0)
FULL = PoolType(
    size=64 * Symbol("s0"), device=GPU, space="comm", pinned=True, alignment=512
)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            AllocatePoolLine(result="pool0", type=PoolType(size=4096)),
            "%pool0 = allocate_pool pool[4096]",
        ),
        (
            PlaceLine(result="a", type=tensor("f32", (8, 8)), pool="pool0", offset=256),
            "%a = place f32[8, 8] in %pool0 at 256",
        ),
        (
            PlaceLine(
                result="a",
                type=PoolType(size=64, device=GPU),
                pool="pool0",
                offset=Symbol("s0") + 64,
                workspace=ZeroMode.ZERO_ON_CALL,
            ),
            "%a = place pool[64]@cuda:0 in %pool0 at s0 + 64 workspace(zero_on_call)",
        ),
        (RecordEventLine(result="e"), "%e = record_event"),
        (
            RecordEventLine(result="e", device=GPU, stream=1),
            "%e = record_event @cuda:0 stream(1)",
        ),
        (WaitEventLine(event="e"), "wait_event %e"),
        (
            WaitEventLine(event="e", device=GPU, stream=2),
            "wait_event %e @cuda:0 stream(2)",
        ),
    ],
)
def test_lines(line: BodyLine, text: str) -> None:
    assert format_line(line) == text
    assert parse_program(program(text)).lines == (line,)


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (PoolType(size=4096), "pool[4096]"),
        (FULL, "pool[64 * s0]@cuda:0 {pinned, align = 512, space = comm}"),
        (EventType(CPU), "event"),
        (TupleType((EventType(GPU), FULL)), f"(event@cuda:0, {format_type(FULL)})"),
    ],
)
def test_types(type: ValueType, text: str) -> None:
    assert format_type(type) == text
    assert parse_type(text) == type


def test_a_pool_states_what_is_left_out() -> None:
    assert parse_type("pool[4]@cpu {align = 64, space = global}") == PoolType(size=4)


def program(line: str) -> str:
    return f"wrapperir 1\nprogram @main() {{\n{line}\n  return\n}}\n"


@pytest.mark.parametrize(
    ("line", "code", "at", "said"),
    [
        ("%a = allocate_pol pool[4]", Code.UNKNOWN_STATEMENT, "alloc", "`allocate_pool`"),
        ("%a = allocate pool[4]", Code.UNKNOWN_WORD, "pool", "`%name = allocate_pool"),
        ("%a = allocate_pool 4096", Code.UNEXPECTED, "4096", "`pool[4096]`"),
        ("%a = allocate_pool f32[4]", Code.UNKNOWN_WORD, "f32", "`pool[4096]`"),
        ("%a = allocate_pool f32[4]", Code.UNKNOWN_WORD, "f32", "(write `pool`)"),
        ("%a = allocate_pool poll[4]", Code.UNKNOWN_WORD, "poll", "mean `pool`"),
        ("%a = allocate_pool pool 4", Code.UNEXPECTED, "4", "`[` and the bytes"),
        ("%a = allocate_pool pool[4, 4]", Code.UNEXPECTED, ", 4", "expected `]`"),
        (
            "%a = allocate_pool pool[4] {layout = a.b}",
            Code.UNEXPECTED,
            "layout",
            "expected `pinned`, `align` or `space`",
        ),
        ("%a = allocate_pool pool[4] {pinned, pinned}", Code.MISPLACED_STATEMENT, "", ""),
        ("allocate_pool pool[4]", Code.BAD_COUNT, "alloc", "%name = allocate_pool"),
        ("%a, %b = place f32[4] in %p at 4", Code.BAD_COUNT, "%a", "not 2"),
        ("%a = place event in %p at 4", Code.UNKNOWN_WORD, "event", "`pool`"),
        ("%a = place poll[4] in %p at 4", Code.UNKNOWN_WORD, "poll", "mean `pool`"),
        ("%a = place i64 in %p at 4", Code.UNEXPECTED, "in", "tensor's type"),
        ("%a = place f32[4] at 4", Code.UNEXPECTED, "at 4", "expected `in`"),
        ("%a = place f32[4] in p at 4", Code.UNEXPECTED, "p at", "a value such as"),
        ("%a = place f32[4] in %p 4", Code.UNEXPECTED, "4", "expected `at`"),
        ("%a = place f32[4] in %p at", Code.UNEXPECTED, "", "an expression"),
        (
            "%a = place f32[4] in %p at 4 workspace(zero)",
            Code.UNKNOWN_WORD,
            "zero)",
            "`zero_on_call`",
        ),
        ("record_event @cuda:0", Code.BAD_COUNT, "record", "%name = record_event"),
        ("%e = record_event cuda:0", Code.UNEXPECTED, "cuda", "the end of the line"),
        ("%e = wait_event %f", Code.BAD_COUNT, "", "defines no value"),
        ("wait_event e", Code.UNEXPECTED, "e", "a value such as"),
        ("wait_events %e", Code.UNKNOWN_STATEMENT, "wait", "`wait_event`"),
        ("%a = multi_output %b : evnt", Code.UNKNOWN_WORD, "evnt", "mean `event`"),
    ],
)
def test_misspellings(line: str, code: Code, at: str, said: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        parse_program(program(line))
    (found,) = raised.value.diagnostics
    assert found.code is code
    assert said in f"{found.message} ({found.hint})"
    assert found.position is not None
    assert found.position.line == 3
    assert line[found.position.column - 1 :].startswith(at)


@pytest.mark.parametrize(
    "line",
    [
        "%a = allocate_pool pool[" + "(" * 100_000,
        "%a = allocate_pool pool[" + "9" * 100_000 + "]",
        "%a = place f32[4] in %p at " + "s0 " * 100_000,
        "%a = place f32[4] in %p at" + " from( workspace(" * 50_000,
        "%a = place f32[4] in %p at " + "4 from() " * 50_000,
        "%e = record_event" + " stream(1)" * 50_000,
        "wait_event %e @cuda:" + "9" * 100_000,
        "%a = multi_output %b : " + "(pool[" * 50_000,
    ],
)
def test_hostile_lines_are_refused_in_one_reading(line: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        parse_program(program(line))
    assert len(raised.value.diagnostics) == 1
