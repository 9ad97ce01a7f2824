"""The order of streams: what is unordered faults, though it runs in the program's order."""

import pytest
import torch

from tests.interp.running import code, fault, read
from wrapperir.diagnostics import Code
from wrapperir.interp import Interpreter, interpret

X = torch.arange(4.0)
HEAD = "program @main(%x: f32[4], %n: i64[], %m: mutated f32[4]) {\n"


def outcome(lines: str, returned: str = "") -> Code | None:
    """Return the code of the fault of these lines, or ``None``."""
    text = f"{HEAD}{lines}\nreturn {returned}\n}}"
    inputs = (X, torch.tensor(1), torch.zeros(4))
    try:
        interpret(read(text), inputs, {})
    except Exception:
        return code(text, *inputs)
    return None


def relu(result: str, source: str, stream: int) -> str:
    on = f" @cpu stream({stream})" if stream else ""
    return f"%{result} = extern_kernel aten.relu.default(%{source}){on} : f32[4]\n"


def fill(target: str, stream: int) -> str:
    on = f" @cpu stream({stream})" if stream else ""
    return f"extern_kernel aten.fill_.Scalar(%{target}, 1) writes(%{target}){on}\n"


EVENT = "%e = record_event @cpu stream(1)\nwait_event %e\n"


def test_reads_on_two_streams_need_no_order() -> None:
    assert outcome(relu("a", "x", 1) + relu("b", "x", 2), "%a, %b") is None


def test_a_read_after_a_write() -> None:
    assert outcome(relu("a", "x", 1) + relu("b", "a", 0), "%a, %b") is Code.RUN_RACE
    assert outcome(relu("a", "x", 1) + EVENT + relu("b", "a", 0), "%a, %b") is None
    assert outcome(relu("a", "x", 1) + relu("b", "a", 1), "%a, %b") is None


def test_a_write_after_a_read() -> None:
    assert outcome(relu("a", "m", 1) + fill("m", 0), "%a") is Code.RUN_RACE
    assert outcome(relu("a", "m", 1) + EVENT + fill("m", 0), "%a") is None


def test_a_write_after_a_write() -> None:
    assert outcome(fill("m", 1) + fill("m", 0)) is Code.RUN_RACE
    assert outcome(fill("m", 1) + EVENT + fill("m", 0)) is None


def test_an_event_covers_only_what_was_before_it() -> None:
    late = "%e = record_event @cpu stream(1)\n" + fill("m", 1) + "wait_event %e\n"
    assert outcome(late + fill("m", 0)) is Code.RUN_RACE


def test_an_event_covers_what_its_stream_waited_for() -> None:
    chain = (
        fill("m", 1)
        + "%e = record_event @cpu stream(1)\nwait_event %e @cpu stream(2)\n"
        + "%f = record_event @cpu stream(2)\nwait_event %f\n"
    )
    assert outcome(chain + fill("m", 0)) is None


@pytest.mark.parametrize(
    "host",
    [
        "symbol_definition u0: int = item(%n)\n",
        "assert_not_nan %x\n",
        "%p = extern_kernel aten.gt.Scalar(%n, 0) @cpu stream(3) : bool[]\n"
        "conditional %p () {\ntrue () {\nreturn\n}\nfalse () {\nreturn\n}\n}\nfree %p\n",
    ],
)
def test_what_the_host_reads_orders_all_streams(host: str) -> None:
    assert outcome(fill("m", 1) + host + fill("m", 0)) is None
    assert outcome(fill("m", 1) + host + fill("m", 2)) is None


def test_a_condition_on_symbols_orders_nothing() -> None:
    branch = "conditional 1 > 0 () {\ntrue () {\nreturn\n}\nfalse () {\nreturn\n}\n}\n"
    assert outcome(fill("m", 1) + branch + fill("m", 0)) is Code.RUN_RACE


def test_lines_with_blocks_are_on_stream_0() -> None:
    block = (
        "%b = subgraph_call @f (%a) : f32[4] {\nbody (%p: f32[4]) {\n"
        "%q = extern_kernel aten.neg.default(%p) : f32[4]\nreturn %q\n}\n}\n"
    )
    assert outcome(relu("a", "x", 1) + block, "%a, %b") is Code.RUN_RACE
    assert outcome(relu("a", "x", 1) + EVENT + block, "%a, %b") is None


def test_what_a_loop_copies_it_reads_on_stream_0() -> None:
    loop = (
        "%b = while_loop (%a) () : f32[4] {\ncondition (%p: f32[4]) {\nreturn 0\n}\n"
        "body (%q: f32[4]) {\n%r = extern_kernel aten.neg.default(%q) : f32[4]\n"
        "return %r\n}\n}\n"
    )
    assert outcome(relu("a", "x", 1) + loop, "%a, %b") is Code.RUN_RACE
    assert outcome(relu("a", "x", 1) + EVENT + loop, "%a, %b") is None


def test_reuse_waits_for_reads_of_the_old_memory() -> None:
    lines = relu("a", "x", 0) + "%e = record_event\nwait_event %e @cpu stream(1)\n"
    reads = relu("b", "a", 1) + "%c = reuse %a as f32[4]\n"
    meet = "%f = record_event @cpu stream(1)\nwait_event %f\n"
    assert outcome(lines + reads + relu("d", "c", 0), "%b, %c, %d") is Code.RUN_RACE
    assert outcome(lines + reads + meet + relu("d", "c", 0), "%b, %c, %d") is None
    assert outcome(lines + reads + relu("d", "c", 1), "%b, %c, %d") is None


POOL = "%pool = allocate_pool pool[64]\n"


def test_memory_placed_again_waits_for_its_last_owner() -> None:
    first = POOL + "%a = place f32[4] in %pool at 16\n" + fill("a", 1) + "free %a\n"
    again = "%b = place f32[4] in %pool at AT\n" + fill("b", 0) + "free %pool\n"
    assert outcome(first + again.replace("AT", "0"), "%b") is None
    assert outcome(first + again.replace("AT", "32"), "%b") is None
    for offset in ("4", "16", "28"):
        assert outcome(first + again.replace("AT", offset), "%b") is Code.RUN_RACE
    assert outcome(first + EVENT + again.replace("AT", "16"), "%b") is None


def test_memory_is_followed_through_nested_pools() -> None:
    first = (
        POOL
        + "%inner = place pool[32] in %pool at 0\n%a = place f32[4] in %inner at 16\n"
        + fill("a", 1)
        + "free %a\nfree %inner\n"
    )
    nested = "%q = place pool[64] in %pool at 0\n%b = place f32[4] in %q at AT\n"
    last = fill("b", 0) + "free %q\nfree %pool\n"
    assert outcome(first + nested.replace("AT", "16") + last, "%b") is Code.RUN_RACE
    assert outcome(first + nested.replace("AT", "32") + last, "%b") is None
    assert outcome(first + nested.replace("AT", "0") + last, "%b") is None


def test_two_owners_ago_still_counts() -> None:
    lines = (
        POOL
        + "%a = place f32[4] in %pool at 0\n"
        + fill("a", 1)
        + "free %a\n%b = place f32[4] in %pool at 0\nfree %b\n"
        + "%c = place f32[4] in %pool at 0\n"
        + fill("c", 0)
        + "free %pool\n"
    )
    assert outcome(lines, "%c") is Code.RUN_RACE


def test_zeros_are_filled_in_on_stream_0() -> None:
    lines = "%a = allocate f32[4] workspace(zero_on_call)\n"
    order = "%e = record_event\nwait_event %e @cpu stream(1)\n"
    assert outcome(lines + relu("b", "a", 1), "%a, %b") is Code.RUN_RACE
    assert outcome(lines + order + relu("b", "a", 1), "%a, %b") is None


def test_memory_of_an_allocation_is_the_allocators_business() -> None:
    lines = "%a = allocate f32[4]\n" + fill("a", 1) + "free %a\n"
    assert outcome(lines + "%b = allocate f32[4]\n" + fill("b", 0), "%b") is None


@pytest.mark.parametrize(
    "lines",
    [
        "wait_event %x",
        "%e = record_event\n%y = extern_kernel aten.relu.default(%e) : f32[4]",
        "%e = record_event\nsubgraph_call @f (%e) {\nbody (%p: f32[4]) {\nreturn\n}\n}",
    ],
)
def test_events_are_for_waiting_only(lines: str) -> None:
    assert outcome(lines) is Code.RUN_VALUE_KIND


def test_an_event_is_no_output() -> None:
    assert outcome("%e = record_event", "%e") is Code.RUN_VALUE_KIND


def test_a_race_notes_the_other_use() -> None:
    diagnostic = fault(f"{HEAD}{fill('m', 1)}{fill('m', 0)}return\n}}", X, X[0].long(), X)
    assert diagnostic.path == ("lines", 1)
    assert [note.path for note in diagnostic.notes] == [("lines", 0)]


def test_a_run_forgets_the_uses_of_the_one_before() -> None:
    program = read("""
    program @main() {
      %ws = allocate f32[4] workspace(zero_per_program)
      extern_kernel aten.zero_.default(%ws) writes(%ws)
      extern_kernel aten.zero_.default(%ws) writes(%ws)
      return
    }
    """)
    interpreter = Interpreter(program, {})
    assert interpreter.run([]) == interpreter.run([]) == ()
