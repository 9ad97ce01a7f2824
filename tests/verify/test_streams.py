"""Uses of memory on several streams are reported where nothing orders them."""

import random
from collections.abc import Callable

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.verify.test_robustness import calls_of
from wrapperir.diagnostics import Code
from wrapperir.ir import CPU, Device, PoolType, Program, tensor
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.text import parse_program
from wrapperir.verify import verify

KERNEL = """
kernel_definition @kernel triton(in_ptr0: read f32*, out_ptr0: write f32*, xnumel: i32) {
  grid = (1)
  entry = kernel
  source {
    | ...
  }
}
"""


def codes(lines: str) -> list[Code]:
    text = f"""wrapperir 1
{KERNEL}
program @main(%x: mutated f32[8], %y: mutated f32[8]@cuda:0, %flag: bool[]) {{
  constant %w: mutated f32[8] = "w"

{lines}
}}
"""
    return [diagnostic.code for diagnostic in verify(parse_program(text))]


ORDER = """  %e = record_event
  wait_event %e stream(1)
"""
WRITE = "extern_kernel aten.zero_.default(%x) writes(%x)"


@pytest.mark.parametrize(
    ("first", "second", "is_race"),
    [
        (WRITE, f"{WRITE} stream(1)", True),
        (WRITE, "extern_kernel aten.sum.default(%x) stream(1)", True),
        ("extern_kernel aten.sum.default(%x)", f"{WRITE} stream(1)", True),
        (
            "extern_kernel aten.sum.default(%x)",
            "extern_kernel aten.sum.default(%x) stream(1)",
            False,
        ),
        (WRITE, WRITE, False),
        (
            "kernel_call @kernel(%w, %x, 8)",
            "extern_kernel aten.sum.default(%x) stream(1)",
            True,
        ),
        (
            "kernel_call @kernel(%x, %w, 8)",
            "kernel_call @kernel(%x, %w, 8) stream(1)",
            True,
        ),
        (
            "%r = extern_kernel aten.f() : f32[8]",
            "extern_kernel aten.g(%r) stream(1)",
            True,
        ),
        (
            "%t = extern_kernel aten.f() : (f32[8], f32[8])\n"
            "  %r = multi_output %t[1] : f32[8]\n  free %t",
            "extern_kernel aten.g(%r) stream(1)",
            True,
        ),
        (
            "%r = allocate f32[8] workspace(zero_on_call)",
            "extern_kernel aten.g(%r) stream(1)",
            True,
        ),
        (
            "%r = reinterpret %x as f32[4]\n  extern_kernel aten.f(%r) writes(%r)",
            "extern_kernel aten.g(%x) stream(1)",
            True,
        ),
        (
            "%r = subgraph_call @b () : f32[8] {\n    body () {\n"
            "      %i = extern_kernel aten.f() : f32[8]\n      return %i\n    }\n  }",
            "extern_kernel aten.g(%r) stream(1)",
            True,
        ),
        (
            "subgraph_call @b (%x) {\n    body (%p: f32[8]) {\n"
            "      extern_kernel aten.f(%p) writes(%p)\n      return\n    }\n  }",
            "extern_kernel aten.g(%x) stream(1)",
            True,
        ),
        (
            "subgraph_call @b (%x) {\n    body (%p: f32[8]) {\n"
            "      extern_kernel aten.f(%p)\n      return\n    }\n  }",
            "extern_kernel aten.g(%x) stream(1)",
            False,
        ),
        (
            "subgraph_call @b () {\n    body () {\n"
            "      extern_kernel aten.f(%w) writes(%w)\n      return\n    }\n  }",
            "extern_kernel aten.g(%w) stream(1)",
            True,
        ),
        # a view, perhaps; and numbers have no memory
        (
            "%r = extern_kernel aten.f(%x) aliases(%x) : f32[8]",
            "extern_kernel aten.g(%r) stream(1)",
            False,
        ),
        *(
            (
                f"%r = extern_kernel aten.f(%w) aliases(%w) : f32[8]{line}",
                "extern_kernel aten.g(%w) stream(1)",
                is_race,
            )
            for line, is_race in (
                ("", False),
                ("\n  extern_kernel aten.h(%r)", False),
                ("\n  extern_kernel aten.h(%r) writes(%r)", True),
                (
                    "\n  %s = extern_kernel aten.f(%r) aliases(%r) : f32[8]\n"
                    "  extern_kernel aten.h(%s) writes(%s)\n  free %s",
                    True,
                ),
            )
        ),
        ("%r = extern_kernel aten.f() : i64", "extern_kernel aten.g(%r) stream(1)", False),
        # two devices
        (WRITE, "extern_kernel aten.g(%x) @cuda:0 stream(1)", False),
    ],
)
def test_two_uses(first: str, second: str, is_race: bool) -> None:
    free = "  free %r\n" if "%r =" in first and ": i64" not in first else ""
    race = [Code.UNORDERED_USE] if is_race else []
    assert codes(f"  {first}\n  {second}\n{free}  return") == race
    assert codes(f"  {first}\n{ORDER}  {second}\n{free}  return") == []


@pytest.mark.parametrize(
    ("between", "is_race"),
    [
        ("%e = record_event", True),
        ("wait_event %early stream(1)", True),
        ("%e = record_event\n  wait_event %e stream(2)", True),
        ("%e = record_event stream(1)\n  wait_event %e stream(1)", True),
        (
            "%e = record_event\n  wait_event %e stream(2)\n"
            "  %f = record_event stream(2)\n  wait_event %f stream(1)",
            False,
        ),
        ("%e = record_event @cpu:0\n  wait_event %e stream(1)", False),
        ("symbol_definition u0: bool = item(%flag)", False),
        ("assert_not_nan %w", False),
        ("assert_alignment %x 4", True),
        ("assert_scalar 1 > 0", True),
        (
            "conditional %flag () {\n    true () {\n      return\n    }\n"
            "    false () {\n      return\n    }\n  }",
            False,
        ),
        (
            "conditional 1 > 0 () {\n    true () {\n      return\n    }\n"
            "    false () {\n      return\n    }\n  }",
            True,
        ),
        (
            "subgraph_call @b (%flag) {\n    body (%p: bool[]) {\n"
            "      symbol_definition u0: bool = item(%p)\n      return\n    }\n  }",
            True,
        ),
    ],
)
def test_what_orders_streams(between: str, is_race: bool) -> None:
    lines = f"""  %early = record_event
  {WRITE}
  {between}
  extern_kernel aten.sum.default(%x) stream(1)
  return"""
    assert codes(lines) == ([Code.UNORDERED_USE] if is_race else [])


def test_a_loop_waits_where_the_host_reads_its_condition() -> None:
    lines = """  extern_kernel aten.zero_.default(%x) writes(%x) stream(1)
  while_loop () (%x, %flag) {{
    condition (%c: f32[8], %d: bool[]) {{
      {0}
    }}
    body (%b: f32[8], %f: bool[]) {{
      extern_kernel aten.neg_.default(%b) writes(%b)
      return
    }}
  }}
  extern_kernel aten.neg_.default(%x) writes(%x) stream(1)
  return"""
    tensor = "%r = extern_kernel aten.neg.default(%d) : bool[]\n      return %r"
    item = "symbol_definition u0: bool = item(%d)\n      return u0"
    assert codes(lines.format(tensor)) == []
    assert codes(lines.format(item)) == []
    assert codes(lines.format("return 0")) == [Code.UNORDERED_USE]
    use = "extern_kernel aten.sum.default(%c)\n      " + tensor
    assert codes(lines.format(use)) == [Code.UNORDERED_USE]


def test_a_loop_reads_what_it_copies_where_it_has_no_iteration() -> None:
    lines = """
  %y = while_loop (%x) (%flag) : f32[8] {
    condition (%p: f32[8], %f: bool[]) {
      symbol_definition more: bool = item(%f)
      return more
    }
    body (%q: f32[8], %g: bool[]) {
      %fresh = allocate f32[8] workspace(zero_on_call)
      return %fresh
    }
  }
  BETWEEN
  extern_kernel aten.zero_.default(%x) writes(%x) stream(1)
  free %y
  return
"""
    lines = lines.replace("%y", "%z")
    assert codes(lines.replace("BETWEEN", "")) == [Code.UNORDERED_USE]
    assert codes(lines.replace("BETWEEN", ORDER)) == []


def test_what_the_host_reads_in_a_block_orders_work_in_the_block() -> None:
    lines = """  extern_kernel aten.zero_.default(%x) writes(%x) stream(1)
  conditional 1 > 0 (%x, %flag) {{
    true (%p: f32[8], %q: bool[]) {{
      symbol_definition u0: bool = item(%q)
      {0}
      return
    }}
    false (%r: f32[8], %s: bool[]) {{
      {1}
      return
    }}
  }}
  {2}
  return"""
    nothing = 'comment ""'
    assert codes(lines.format("extern_kernel aten.f(%p)", nothing, nothing)) == []
    inside = lines.format(nothing, "extern_kernel aten.f(%r)", nothing)
    assert codes(inside) == [Code.UNORDERED_USE]
    after = lines.format(nothing, nothing, "extern_kernel aten.f(%x)")
    assert codes(after) == [Code.UNORDERED_USE]
    late = "extern_kernel aten.f(%p) writes(%p)"
    after = lines.format(late, nothing, "extern_kernel aten.f(%x) stream(2)")
    assert codes(after) == [Code.UNORDERED_USE]


def test_one_race_of_a_storage_is_reported_once_with_both_places() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,)), mutated=True)
    view = b.reinterpret(x, tensor("f32", (4,)))
    for stream in (0, 1, 2):
        b.extern_out("aten.zero_.default", view, writes=[view], stream=stream)
    (found,) = verify(b.free(view).build())
    assert found.code is Code.UNORDERED_USE
    assert found.path == ("lines", 2)
    assert [note.path for note in found.notes] == [("lines", 1)]
    assert found.hint is not None


@pytest.mark.parametrize(
    ("event", "code"), [("%e", Code.UNDEFINED_NAME), ("%x", Code.NOT_AN_EVENT)]
)
def test_an_event_that_there_is_not_is_all_that_is_reported(event: str, code: Code) -> None:
    text = f"""wrapperir 1
program @main(%x: mutated f32[8]) {{
  extern_kernel aten.zero_.default(%x) writes(%x) stream(1)
  wait_event {event} stream(2)
  extern_kernel aten.zero_.default(%x) writes(%x) stream(2)
  return
}}
"""
    assert [d.code for d in verify(parse_program(text))] == [code]


POOL = """  %p = allocate_pool pool[128]
  %a = place f32[16] in %p at 0
  extern_kernel aten.zero_.default(%a) writes(%a) stream(1)
  {0}
  free %p
  return"""
NEXT = """
  extern_kernel aten.sum.default(%b) {0}
  free %b"""


@pytest.mark.parametrize(
    ("between", "stream", "is_fault"),
    [
        ("free %a\n  %b = place f32[16] in %p at 0", "", True),
        ("free %a\n  %b = place f32[16] in %p at 0", "stream(1)", False),
        ("free %a\n  %b = place f32[16] in %p at 64", "", False),
        ("free %a\n  %b = place f32[1] in %p at 60", "", True),
        ("%b = reuse %a as f32[8]", "", True),
        ("%b = reuse %a as f32[8]", "stream(1)", False),
        (
            "free %a\n  %e = record_event stream(1)\n"
            "  %b = place f32[16] in %p at 0\n  wait_event %e",
            "",
            False,
        ),
        ("%v = reinterpret %a as f32[8]\n  free %a\n  %b = reuse %v as f32[8]", "", True),
        # through a pool that is placed there, and one that was
        (
            "free %a\n  %q = place pool[64] in %p at 0\n"
            "  %b = place f32[8] in %q at 32\n  free %q",
            "",
            True,
        ),
        (
            "%q = place pool[64] in %p at 64\n  %c = place f32[8] in %q at 32\n"
            "  extern_kernel aten.f(%c) writes(%c) stream(2)\n  free %q\n  free %c\n"
            "  free %a\n  %b = place f32[8] in %p at 64",
            "",
            True,
        ),
        # nothing used what lay there in between
        (
            "free %a\n  %c = place f32[16] in %p at 0\n  free %c\n"
            "  %b = place f32[16] in %p at 0",
            "",
            True,
        ),
    ],
)
def test_memory_that_is_used_anew(between: str, stream: str, is_fault: bool) -> None:
    lines = between + NEXT.format(stream).replace(
        "aten.sum.default(%b)", "aten.zero_.default(%b) writes(%b)"
    )
    found = codes(POOL.format(lines))
    assert found == ([Code.UNORDERED_REUSE] if is_fault else [])


def test_a_workspace_is_zeroed_after_what_lay_there_is_done() -> None:
    lines = "free %a\n  %b = place f32[16] in %p at 0 workspace(zero_on_call)\n  free %b"
    assert codes(POOL.format(lines)) == [Code.UNORDERED_REUSE]


def test_a_block_takes_memory_of_its_callers_pool() -> None:
    block = """subgraph_call @b (%p) {{
    body (%q: pool[128]) {{
      %c = place f32[16] in %q at {0}
      extern_kernel aten.zero_.default(%c) writes(%c)
      free %c
      return
    }}
  }}
  """
    before = "free %a\n  " + block
    assert codes(POOL.format(before.format(0))) == [Code.UNORDERED_REUSE]
    assert codes(POOL.format(before.format(64))) == []
    after = before.format(64) + "%b = place f32[16] in %p at 64"
    use = NEXT.format("writes(%b) stream(1)")
    assert codes(POOL.format(after + use)) == [Code.UNORDERED_REUSE]


@define(eq=False)
class Reference:
    """Keeps for every piece of work all that is done before it, as a set."""

    last: dict[int, int] = field(factory=dict[int, int])
    before: dict[int, set[int]] = field(factory=dict[int, set[int]])
    waits: dict[int, set[int]] = field(factory=dict[int, set[int]])

    def launch(self, work: int, stream: int) -> None:
        """Give work to a stream."""
        self.before[work] = self.reached(stream) | self.waits.pop(stream, set())
        self.last[stream] = work

    def reached(self, stream: int) -> set[int]:
        """Return all that is done when a stream has done what it was given."""
        reached = self.waits.get(stream, set())
        if stream in self.last:
            reached = reached | self.before[self.last[stream]] | {self.last[stream]}
        return reached


@settings(max_examples=draws(80, fuzz=200))
@given(st.randoms(use_true_random=False), st.integers(2, 4), st.integers(1, 40))
def test_races_are_those_of_sets_of_what_is_done(
    rng: random.Random, streams: int, length: int
) -> None:
    """Random uses of a few buffers agree with the transitive closure of the order."""
    b = ProgramBuilder()
    names = [b.input(tensor("f32", (8,)), mutated=True) for _ in range(3)]
    reference = Reference()
    events: list[tuple[NamedValue, set[int]]] = []
    uses: dict[str, list[tuple[int, bool]]] = {value.name: [] for value in names}
    racing: dict[str, int] = {}
    for index in range(length):
        stream = rng.randrange(streams)
        action = rng.random()
        if action < 0.2:
            events.append((b.record_event(stream=stream), reference.reached(stream)))
        elif action < 0.45 and events:
            event, reached = rng.choice(events)
            b.wait_event(event, stream=stream)
            reference.waits[stream] = reference.waits.get(stream, set()) | reached
        elif action < 0.5:
            b.assert_not_nan(names[0])
            done = set(range(index))
            reference.waits = {s: set(done) for s in range(streams)}
        else:
            value, writes = rng.choice(names), rng.random() < 0.5
            b.extern_out(
                "aten.f.default", value, writes=[value] if writes else [], stream=stream
            )
            reference.launch(index, stream)
            for other, other_writes in uses[value.name]:
                if (writes or other_writes) and other not in reference.before[index]:
                    racing.setdefault(value.name, index)
            uses[value.name].append((index, writes))
    found = verify(b.build())
    assert {d.code for d in found} <= {Code.UNORDERED_USE}
    assert {(d.subject, d.path) for d in found} == {
        (f"%{name}", ("lines", index)) for name, index in racing.items()
    }


def _in_turns(n: int) -> Program:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,)), mutated=True)
    for number in range(n):
        b.wait_event(b.record_event(stream=number % 3), stream=(number + 1) % 3)
        b.extern_out("aten.f.default", x, writes=[x], stream=(number + 1) % 3)
    return b.build()


def _through_a_pool(n: int) -> Program:
    b = ProgramBuilder()
    pool = b.allocate_pool(PoolType(size=n * 64))
    for number in range(2 * n):
        value = b.place(pool, number % n * 64, tensor("f32", (16,)))
        b.extern_out("aten.f.default", value, writes=[value], stream=number // n)
        b.free(value)
        if number == n:
            b.wait_event(b.record_event(), stream=1)
    return b.free(pool).build()


@pytest.mark.parametrize("make", [_in_turns, _through_a_pool])
def test_cost_grows_with_length(make: Callable[[int], Program]) -> None:
    small, large = calls_of(make(200)), calls_of(make(1600))
    assert large <= 8.5 * small


def test_streams_by_the_thousand_are_given_up_on() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,)))
    for stream in range(3000):
        b.extern_out("aten.f.default", x, stream=stream)
        b.wait_event(b.record_event(stream=stream), stream=stream + 1)
    assert verify(b.build()) == ()


def test_each_device_has_streams_of_its_own() -> None:
    b = ProgramBuilder()
    one, other = Device("cuda", 0), Device("cuda", 1)
    x = b.input(tensor("f32", (8,), device=one), mutated=True)
    event = b.record_event(other, stream=1)
    b.extern_out("aten.f.default", x, writes=[x], device=one, stream=1)
    b.extern_out("aten.f.default", x, writes=[x], device=other, stream=2)
    b.extern_out("aten.f.default", x, writes=[x], device=CPU)
    assert verify(b.build()) == ()
    b.wait_event(event, one, stream=2)
    b.extern_out("aten.f.default", x, writes=[x], device=one, stream=2)
    assert [d.code for d in verify(b.build())] == [Code.UNORDERED_USE]
