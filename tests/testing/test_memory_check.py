"""The brute-force checker of memory, on programs whose answers are plain."""

import textwrap

import pytest

from wrapperir.ir import Number, Program
from wrapperir.testing.memory_check import MemoryConflict, memory_conflicts, peak_bytes
from wrapperir.text import parse_program


def read(lines: str, returned: str = "") -> Program:
    return parse_program(
        "wrapperir 1\nprogram @main(%x: f32[s0], %m: mutated f32[32], %n: i64[]) {\n"
        "symbol s0: int 1..64 = size(%x, 0)\n"
        f"{textwrap.dedent(lines)}\nreturn {returned}\n}}"
    )


def peak(lines: str, returned: str = "", **symbols: Number) -> int:
    return peak_bytes(read(lines, returned), {"s0": 16, **symbols})


def faults(lines: str, **symbols: Number) -> list[tuple[str, int, int]]:
    """Return the kinds and the line numbers of top-level faults."""
    found = memory_conflicts(read(lines), {"s0": 16, **symbols})
    return [(f.kind, int(f.first[1]), int(f.second[1])) for f in found]


def test_allocations_are_rounded_up_and_last_until_their_last_name() -> None:
    assert peak("") == 0
    assert peak("%a = allocate f32[1]\nfree %a\n%b = allocate f32[16]\nfree %b") == 64
    view = "%a = allocate f32[17]\n%v = reinterpret %a as f32[1]\nfree %a\n"
    assert peak(view + "%b = allocate f32[1]\nfree %v\nfree %b") == 192
    assert peak(view + "free %v\n%b = allocate f32[1]\nfree %b") == 128
    assert peak("%a = allocate f32[s0]\nfree %a", s0=40) == 192
    assert peak("%a = allocate f32[4; offset 16]\nfree %a") == 128
    assert peak("%a = allocate f32[0, 99]\nfree %a") == 0


def test_results_count_and_what_they_may_alias_does_not() -> None:
    tuples = "%t = extern_kernel aten.max.dim(%x, 0) : (f32[20], i64[20])\n"
    assert peak(tuples + "%a = multi_output %t[0] : f32[20]\nfree %t\nfree %a") == 320
    after = "%a = multi_output %t[0] : f32[20]\nfree %t\n%b = allocate f32[64]\n"
    assert peak(tuples + after + "free %a\nfree %b") == 128 + 256
    assert peak("%v = extern_kernel aten.t.default(%x) aliases(%x) : f32[16]\nfree %v") == 0


def test_reuse_takes_over_and_pools_count_in_full() -> None:
    assert peak("%a = allocate f32[32]\n%b = reuse %a as f32[8]\nfree %b") == 128
    pool = "%p = allocate_pool pool[200]\n%a = place f32[8] in %p at 0\nfree %p\n"
    assert peak(pool + "%b = allocate f32[8]\nfree %a\nfree %b") == 256 + 64
    assert peak(pool + "free %a\n%b = allocate f32[96]\nfree %b") == 384


def test_workspaces_of_the_program_count_from_the_start() -> None:
    lines = "%a = allocate f32[32]\nfree %a\n%w = allocate f32[16] workspace(MODE)\n"
    assert peak(lines.replace("MODE", "zero_on_call") + "free %w") == 128
    assert peak(lines.replace("MODE", "zero_per_program")) == 192


BRANCH = """
%y = conditional 1 > 0 (%m) : f32[32] {
  true (%p: f32[32]) {
    %a = allocate f32[64]
    free %a
    %b = extern_kernel aten.neg.default(%p) : f32[32]
    return %b
  }
  false (%q: f32[32]) {
    %c = allocate f32[64]
    %d = extern_kernel aten.neg.default(%q) : f32[32]
    free %c
    return %d
  }
}
free %y
"""

LOOP = """
%y = while_loop (%m) () : f32[32] {
  condition (%p: f32[32]) {
    %c = allocate f32[256]
    free %c
    return 0
  }
  body (%q: f32[32]) {
    %r = extern_kernel aten.neg.default(%q) : f32[32]
    return %r
  }
}
"""


def test_blocks_count_on_their_worst_way() -> None:
    assert peak(BRANCH) == 256 + 128
    assert peak(LOOP + "free %y") == 1024 + 128  # the condition, with what is carried
    assert peak(LOOP.replace("256", "8") + "free %y") == 2 * 128
    assert peak(LOOP + "%b = allocate f32[512]\nfree %y\nfree %b") == 2048 + 128


def test_overlaps_are_of_what_lives_together() -> None:
    pool = "%p = allocate_pool pool[256]\n%a = place f32[16] in %p at 32\n"
    assert faults(pool + "%b = place f32[8] in %p at 0\nfree %a\nfree %b\nfree %p") == []
    assert faults(pool + "%b = place f32[9] in %p at 0\nfree %a\nfree %b\nfree %p") == [
        ("overlap", 1, 2)
    ]
    view = pool + "%v = reinterpret %a as f32[1]\nfree %a\n"
    after = "%b = place f32[9] in %p at 0\nfree %b\nfree %p\n"
    assert faults(view + after + "free %v") == [("overlap", 1, 4)]
    assert faults(view + "free %v\n" + after) == []
    dynamic = "%b = place f32[s0] in %p at 96\n%c = place f32[4] in %p at 128\n"
    rest = "free %a\nfree %b\nfree %c\nfree %p"
    assert faults(pool + dynamic + rest, s0=8) == []
    assert faults(pool + dynamic + rest, s0=9) == [("overlap", 2, 3)]
    assert faults(pool + dynamic + rest, s0=64) == [("outside", 0, 2), ("overlap", 2, 3)]


def test_pools_in_pools_and_blocks_are_followed() -> None:
    text = """
    %p = allocate_pool pool[256]
    %a = place f32[16] in %p at 0
    %q = place pool[128] in %p at AT
    subgraph_call @f (%q) {
      body (%r: pool[128]) {
        %t = place f32[8] in %r at 32
        %u = place f32[8] in %r at INNER
        free %t
        free %u
        return
      }
    }
    free %a
    free %q
    free %p
    """
    fine = text.replace("AT", "64").replace("INNER", "0")
    assert faults(fine) == []
    assert ("overlap", 1, 2) in faults(text.replace("AT", "0").replace("INNER", "0"))
    (fault,) = memory_conflicts(read(text.replace("AT", "64").replace("INNER", "8")), {})
    inner = ("lines", 3, "body", "lines")
    assert fault == MemoryConflict("overlap", (*inner, 0), (*inner, 1))
    assert faults(text.replace("AT", "64").replace("INNER", "112"))[0][0] == "outside"


def fill(name: str, stream: int) -> str:
    return (
        f"extern_kernel aten.fill_.Scalar(%{name}, 1) writes(%{name}) "
        f"@cpu stream({stream})\n"
    )


EVENT = "%e = record_event @cpu stream(1)\nwait_event %e\n"


def test_uses_on_two_streams_are_ordered_by_events_and_the_host() -> None:
    assert faults(fill("m", 1) + fill("m", 0)) == [("unordered", 0, 1)]
    assert faults(fill("m", 1) + EVENT + fill("m", 0)) == []
    assert faults(EVENT + fill("m", 1) + fill("m", 0)) == [("unordered", 2, 3)]
    item = "symbol_definition u0: int = item(%n)\n"
    assert faults(fill("m", 1) + item + fill("m", 0)) == []
    reads = "%a = extern_kernel aten.neg.default(%m) @cpu stream(STREAM) : f32[32]\n"
    both = reads.replace("STREAM", "1") + reads.replace("%a", "%b").replace("STREAM", "2")
    assert faults(both) == []
    assert faults(reads.replace("STREAM", "1") + fill("m", 0)) == [("unordered", 0, 1)]


STACKED = """
%y, %ys = while_loop stacked (%m) (%n) : f32[32], f32[u1, 32] {
  condition (%p: f32[32], %i: i64[]) {
    symbol_definition u0: int = item(%i)
    return u0 < 3
  }
  body (%q: f32[32], %j: i64[]) {
    %r = extern_kernel aten.neg.default(%q) : f32[32]
    return %r
  }
}
symbol_definition u1: int 1.. = size(%ys, 0)
"""


def test_a_stack_is_written_after_the_last_read_of_the_condition() -> None:
    reads = "%a = extern_kernel aten.neg.default(%ys) stream(1) : f32[u1, 32]\n"
    event = "%e = record_event\nwait_event %e stream(1)\n"
    assert faults(STACKED + reads) == [("unordered", 0, 2)]
    assert faults(STACKED + event + reads) == []


def test_what_the_host_reads_in_a_branch_orders_that_way_only() -> None:
    branch = """
    conditional 1 > 0 () {
      true () {
        assert_not_nan %w
        return
      }
      false () {
        return
      }
    }
    """
    constant = 'constant %w: f32[1] = "w"\n'
    lines = constant + fill("m", 1) + branch + fill("m", 0)
    program = read(lines)
    assert len(memory_conflicts(program, {"s0": 1})) == 1


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        ("%a = allocate f32[8]\n", "%b = reuse %a as f32[8]\n"),
        (
            "%p = allocate_pool pool[64]\n%a = place f32[8] in %p at 0\n",
            "free %a\n%b = place f32[8] in %p at 16\nfree %p\n",
        ),
    ],
)
def test_successive_owners_are_ordered(begin: str, again: str) -> None:
    unordered = begin + fill("a", 1) + again + fill("b", 0) + "free %b"
    assert [kind for kind, *_ in faults(unordered)] == ["unordered"]
    ordered = begin + fill("a", 1) + EVENT + again + fill("b", 0) + "free %b"
    assert faults(ordered) == []


def test_work_on_two_devices_is_ordered_as_it_is_given() -> None:
    other = "extern_kernel aten.fill_.Scalar(%m, 1) writes(%m) @cuda:0\n"
    assert faults(other + fill("m", 1)) == []
    assert faults(fill("m", 1) + other + fill("m", 0)) == []


def test_a_size_without_a_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="s0"):
        peak_bytes(read("%a = allocate f32[s0]\nfree %a"), {})
