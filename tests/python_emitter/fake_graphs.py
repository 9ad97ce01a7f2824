"""Recordings of graph regions as if there were a GPU, in a process of their own."""

import ctypes
import gc
import resource
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import torch

from tests.python_emitter import fake_recordings
from tests.python_emitter.fake_captures import (
    POOLS,
    STEP,
    add,
    current,
    driver,
    floats,
    fresh,
    gpu,
    graphs,
    hidden_add,
    nothing_lives_after,
    on,
    region,
    replays,
    said,
    wait,
)
from tests.python_emitter.fake_launches import loaded, pretend, raises, serve
from wrapperir.emit import drop_recordings
from wrapperir.ir import Device, Language, SizeOf, Symbol, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.text import format_program, parse_program


def sums(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor]:
    """Add twice, once to memory of the block and once to an operand."""
    total = fresh()
    add(x, y, total)
    add(total, y, out)
    return (total,)


@nothing_lives_after()
def check_operands_and_results_move() -> None:
    with said():
        run = region(sums, 3, written=(2,))
        kept = []
        for number in range(40):
            x, y, out = (floats(16) for _ in range(3))
            (total,) = run(x, y, out)
            kept.append((total, x, y, out))
            assert run.count() == (number > 0)
        for total, x, y, out in kept:  # results are new tensors of each call
            assert torch.equal(total, x + y)
            torch.testing.assert_close(out, x + y + y)
        assert len({total.data_ptr() for total, *_ in kept}) == 40
        assert replays() == ["exec0"] * 39


def six(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return six sums, each of the one before."""
    found = [x]
    for _ in range(6):
        found.append(fresh())
        add(found[-2], y, found[-1])
    return tuple(found[1:])


@nothing_lives_after()
def check_results_are_copied_in_four_branches() -> None:
    copy, waits = 1, driver().fake_waits
    names = ("", "NodeGetDependencies", "AddDependencies", "RemoveDependencies")
    for name in names:
        for after in (0, 2):
            before = waits(copy)
            if name:
                driver().fake_fail_graphs(f"cuGraph{name}".encode(), after, 1)
            with said():
                run = region(six, 2)
                for _ in range(8):
                    x, y = floats(16), floats(16)
                    for number, found in enumerate(run(x, y), 1):
                        torch.testing.assert_close(found, x + number * y)
            assert run.count() == 1
            if name:
                assert waits(copy) - before >= 2
            else:  # the fifth waits for the first, and the last for the second
                assert waits(copy) - before == 2
            del run
            gc.collect()


@nothing_lives_after()
def check_views_may_begin_in_the_middle() -> None:
    with said():
        run = region(sums, 3, written=(2,))
        base = floats(1000)
        out = floats(16)
        for begin in (0, 128, 256, 384, 0, 128):
            x, y = base[begin : begin + 16], base[begin + 128 : begin + 144]
            for pair in ((x, y), (x, x), (y, x)):
                run(*pair, out)
                torch.testing.assert_close(out, pair[0] + pair[1] + pair[1])
        assert run.count() == 1


def _forking(is_joined: bool) -> Callable[..., Any]:
    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor]:
        own, side = current(), graphs().side_stream(0, 1).cuda_stream
        totals = fresh(), fresh()
        wait(side, own)
        for number in range(3):  # nodes of the streams take turns
            with on(side):
                add(x, y, totals[0])
            add(y, x, totals[1])
            if number == 2 and (is_joined or POOLS.entered is None):
                wait(own, side)
        add(*totals, out)
        return (totals[0],)

    return block


@nothing_lives_after()
def check_streams_that_fork_and_join_are_recorded() -> None:
    with said():
        run = region(_forking(True), 3, written=(2,))
        for _ in range(12):
            x, y, out = (floats(16) for _ in range(3))
            (total,) = run(x, y, out)
            assert torch.equal(total, x + y)
            torch.testing.assert_close(out, 2 * (x + y))
        assert len(replays()) == 11
        outside = graphs().side_stream(0, 1)
        assert graphs().side_stream(0, 1) is outside
        assert outside.cuda_stream not in {
            graphs()._captures._stream(0, 0x70, number).cuda_stream for number in (0, 1)
        }


@nothing_lives_after()
def check_a_stream_that_does_not_join_is_not_recorded() -> None:
    with said("ending a capture failed"):
        run = region(_forking(False), 3, written=(2,))
        for _ in range(4):
            x, y, out = (floats(16) for _ in range(3))
            run(x, y, out)
            torch.testing.assert_close(out, 2 * (x + y))
        assert replays() == []


def check_each_operand_is_displaced_by_a_distance_of_its_own() -> None:
    base = floats(1000, 3)
    operands = [base, base, base[128:], *(base[128 * k :].clone() for k in range(5))]
    displaced, room = graphs()._captures.displace(operands, 0)
    pairs = [(x.data_ptr(), y.data_ptr()) for x, y in zip(operands, displaced, strict=True)]
    assert len({new - old for old, new in pairs}) == len(pairs)
    assert all((new - old) % 512 == 0 for old, new in pairs)
    assert room.nbytes > 512 * len(pairs)


def _many(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    for _ in range(8):
        add(x, y, out)


def _steps(run: Any, *given: torch.Tensor) -> list[str]:
    """Return what a call of a region of ``_many`` has the driver do."""
    x, y, out = given
    out.zero_()
    run(*given)
    assert torch.equal(out, x + y)
    return [line.removesuffix(" on current") for line in gpu().log()]


@nothing_lives_after()
def check_nodes_are_set_when_their_operands_moved() -> None:
    run = region(lambda x, y, out: add(x, y, out), 3, written=(2,))
    y, out = floats(16), floats(16)
    a, b = floats(16), floats(16)
    run(a, y, out)
    gpu().log()
    assert _steps(run, a, y, out) == ["instance exec0", "replay exec0"]
    assert _steps(run, a, y, out) == ["replay exec0"]
    for x in (b, a):
        assert _steps(run, x, y, out) == ["set exec0", "replay exec0"]
        assert _steps(run, x, y, out) == ["replay exec0"]


@nothing_lives_after()
def check_an_instance_is_renewed_when_its_changes_have_lasted_for_16_launches() -> None:
    with said():
        run = region(_many, 3, written=(2,))
        y, out = floats(16), floats(16)
        a, b = floats(16), floats(16)
        run(a, y, out)
        for launch in range(60):
            # Changes at 3, and at 25 and 35, of which the first lasts for 10 launches.
            x = a if launch < 3 or 25 <= launch < 35 else b
            steps = _steps(run, x, y, out)
            assert steps.count("set exec0") == 8 * (launch == 3)
            assert steps.count("set exec1") == 8 * (launch in (25, 35))
            assert ("instance exec1" in steps) == (launch == 3 + 16), (launch, steps)
            assert ("instance exec2" in steps) == (launch == 25 + 1 + 16), (launch, steps)
        assert _steps(run, b, y, out) == ["replay exec2"]


@nothing_lives_after()
def check_an_instance_is_not_renewed_while_operands_move() -> None:
    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        for _ in range(4):  # fewer than an operand has that is copied when it moved often
            add(x, y, out)

    with said():
        run = region(block, 3, written=(2,))
        y, out = floats(16), floats(16)
        kept = [floats(16) for _ in range(40)]
        for x in kept:
            assert "instance exec1" not in _steps(run, x, y, out)


@nothing_lives_after()
def check_an_instance_that_cannot_be_renewed_stays() -> None:
    for name in ("KernelNodeSetParams_v2", "InstantiateWithFlags"):
        with said():
            run = region(_many, 3, written=(2,))
            y, out, x = floats(16), floats(16), floats(16)
            for _ in range(2):
                run(x, y, out)
            gpu().log()
            x, _before = floats(16), x
            driver().fake_fail_graphs(f"cuGraph{name}".encode(), 5 * ("Kernel" in name), 1)
            for launch in range(40):
                steps = _steps(run, x, y, out)
                # The first try, after 16 launches, fails; so there is one after 16 more.
                assert any(line.startswith("instance") for line in steps) == (launch == 32)
            assert run.count() == 1
        del run
        gc.collect()
        driver().fake_number_instances_from_zero()


@nothing_lives_after()
def check_an_operand_of_many_nodes_is_copied_after_it_moved_often() -> None:
    def block(x: torch.Tensor, out: torch.Tensor) -> None:
        for _ in range(9):
            add(x, x, out)

    run = region(block, 2, written=(1,))
    out = floats(16)
    kept = [floats(16) for _ in range(40)]
    for x in kept:
        run(x, out)
        assert torch.equal(out, x + x)
    assert run.count() == 1
    gpu().log()
    x, _before = floats(16), x
    run(x, out)
    assert torch.equal(out, x + x)
    instance, *rest = gpu().log()  # one node is the copy
    assert instance.startswith("set exec"), instance
    assert [line.split()[0] for line in rest] == ["replay"], rest


@nothing_lives_after()
def check_operands_that_cannot_move_are_copied() -> None:
    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[Any, ...]:
        total = fresh()
        hidden_add(x, y, total)
        add(x, total, out)
        return total, 5

    with said():
        run = region(block, 3, written=(2,))
        kept = []
        for _ in range(12):
            x, y, out = (floats(16) for _ in range(3))
            total, five = run(x, y, out)
            assert five == 5
            kept.append((total, x + y))
            torch.testing.assert_close(out, x + y + x)
        for total, wanted in kept:
            assert torch.equal(total, wanted)
        assert len(replays()) == 11
        assert run.count() == 1


@nothing_lives_after()
def check_written_operands_that_cannot_move_keep_what_they_had() -> None:
    def block(x: torch.Tensor, y: torch.Tensor) -> None:
        hidden_add(x, y, y)

    with said():
        run = region(block, 2, written=(1,))
        for _ in range(6):
            x, y = floats(16), floats(16)
            wanted = x + y
            run(x, y)
            assert torch.equal(y, wanted)
        assert len(replays()) == 5


@nothing_lives_after()
def check_written_operands_with_gaps_are_not_copied() -> None:
    def block(x: torch.Tensor, y: torch.Tensor) -> None:
        hidden_add(x, y, y)

    with said("writes an operand with gaps"):
        run = region(block, 2, written=(1,))
        for _ in range(6):
            x, y = floats(16), floats(16).view(4, 4)[:, :2]
            wanted = (x + y.as_strided((16,), (1,)))[:4]
            run(x[:4], y)
            assert torch.equal(y.as_strided((4,), (1,)), wanted)


@nothing_lives_after()
def check_operands_that_share_memory_are_not_separated_by_copies() -> None:
    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        hidden_add(x, y, y)  # what follows reads x, in which y may lie
        add(x, y, out)

    with said():
        run = region(block, 3, written=(1, 2))
        for number in range(12):
            x, out = floats(16), floats(16)
            y = x if number % 3 == 0 else floats(16)
            ours, other = x.clone(), y.clone()
            y2 = ours if y is x else other
            y2 += ours
            run(x, y, out)
            assert torch.equal(y, y2)
            torch.testing.assert_close(out, ours + y2)


@nothing_lives_after()
def check_a_pool_that_grows_is_captured_again() -> None:
    with said():
        run = region(sums, 3, written=(2,))
        # The blocks' memory in the captures: for the layouts, then three for each attempt.
        POOLS.skipped = iter([0, 0, 0, 5, 5, 5, 5])
        for _ in range(6):
            x, y, out = (floats(16) for _ in range(3))
            (total,) = run(x, y, out)
            assert torch.equal(total, x + y)
            torch.testing.assert_close(out, x + y + y)
        assert next(POOLS.skipped, None) is None
        assert not any(line.startswith("copy") for line in gpu().log())


@nothing_lives_after()
def check_a_capture_that_fails_late_leaves_no_recording() -> None:
    calls = []

    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor]:
        calls.append(0)
        if len(calls) == 6:  # one plain call, and four captures before
            raise RuntimeError("out of memory")
        return sums(x, y, out)

    with said("out of memory"):
        run = region(block, 3, written=(2,))
        POOLS.skipped = iter([0, 0, 0, 5])
        x, y, out = (floats(16) for _ in range(3))
        for _ in range(6):
            (total,) = run(x, y, out)
            assert torch.equal(total, x + y)
        assert run.count() == 0


@nothing_lives_after()
def _refused(work: Callable[[int], None], reason: str) -> None:
    calls = []

    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor]:
        calls.append(0)
        if POOLS.entered is not None:
            work(current())
        return sums(x, y, out)

    with said(f"block is not replayed as a graph: {reason}"):
        run = region(block, 3, written=(2,))
        for _ in range(5):
            x, y, out = (floats(16) for _ in range(3))
            (total,) = run(x, y, out)
            assert torch.equal(total, x + y)
            torch.testing.assert_close(out, x + y + y)
        assert replays() == []
        assert run.count() == 0


def check_copies_of_the_host_are_refused() -> None:
    def work(stream: int) -> None:
        driver().fake_copy(1, 2, 3, 1, 1, ctypes.c_void_p(stream))

    _refused(work, "it copies memory of the host")


def check_other_nodes_are_refused() -> None:
    def give(type: int) -> Callable[[int], None]:
        return lambda stream: driver().fake_node(type, ctypes.c_void_p(stream))

    for type in (3, 4, 10, 13):
        _refused(give(type), f"it has a node of type {type}")


@nothing_lives_after()
def check_waits_and_records_of_events_are_replayed() -> None:
    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor]:
        if POOLS.entered is not None:
            for type in (6, 7):
                driver().fake_node(type, ctypes.c_void_p(current()))
        return sums(x, y, out)

    with said():
        run = region(block, 3, written=(2,))
        for _ in range(4):
            x, y, out = (floats(16) for _ in range(3))
            (total,) = run(x, y, out)
            assert torch.equal(total, x + y)
        assert replays() == ["exec0"] * 3


@nothing_lives_after()
def check_recordings_are_dropped_and_made_again() -> None:
    with said():
        run = region(sums, 3, written=(2,))
        counts = []
        for number in range(12):
            x, y, out = (floats(16) for _ in range(3))
            (total,) = run(x, y, out)
            assert torch.equal(total, x + y)
            counts.append(run.count())
            if number == 3:
                alive = driver().fake_live_graphs()
                drop_recordings()
                assert driver().fake_live_graphs() < alive
                assert run.count() == 0
        assert counts == [0, 1, 1, 1, 0, 0, *[1] * 6]


@nothing_lives_after()
def check_what_collectives_are_given_is_copied() -> None:
    """As a collective does, the block keeps the addresses that it was recorded with."""
    seen: list[int] = []

    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        if POOLS.entered is not None:
            seen.append(out.data_ptr())
        add(x, y, out)

    with said():
        run = region(block, 3, written=(2,), fixed=(2,))
        kept = []
        for _ in range(6):
            x, y, out = (floats(16) for _ in range(3))
            run(x, y, out)
            kept.append((x, y, out))
        for x, y, out in kept:
            assert torch.equal(out, x + y)
        assert len(set(seen)) == 1
        assert not {out.data_ptr() for _, _, out in kept} & set(seen)
        assert replays() == ["exec0"] * 5


def check_a_launch_whose_parameters_are_not_known_is_refused() -> None:
    reason = "reading a launch's arguments failed: CUDA_ERROR_OTHER"
    _refused(lambda _: driver().fake_fail_graphs(b"cuFuncGetParamInfo", 2, 999), reason)


def check_errors_of_captures_are_said() -> None:
    def failing(name: str, after: int = 0) -> Callable[[int], None]:
        return lambda _: driver().fake_fail_graphs(name.encode(), after, 1)

    _refused(failing("cuStreamEndCapture"), "ending a capture failed: CUDA_ERROR_INVALID")
    _refused(failing("cuStreamBeginCapture_v2"), "a capture failed: CUDA_ERROR_INVALID")
    _refused(failing("cuGraphInstantiateWithFlags"), "instantiating a graph failed")
    _refused(failing("cuGraphNodeGetType", 1), "reading a node failed")
    _refused(failing("cuGraphGetNodes", 1), "reading a graph failed")


@nothing_lives_after()
def check_numbers_among_results_stay() -> None:
    def block(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        made = [fresh() for _ in range(5)]
        for number, total in enumerate(made):
            add(x, made[number - 1] if number else y, total)
        return *made[:3], 7, *made[3:]

    with said():
        run = region(block, 2)
        kept = []
        for _ in range(12):
            x, y = floats(16), floats(16)
            kept.append((run(x, y), x, y))
        for found, x, y in kept:
            assert found[3] == 7
            for number, total in enumerate((*found[:3], *found[4:]), 1):
                torch.testing.assert_close(total, number * x + y)
        assert len(replays()) == 11


_CAPTURES = ("cuStreamBeginCapture_v2", "cuStreamEndCapture")
_NODES = ("cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphKernelNodeGetParams_v2")
_DRIVER = (*_CAPTURES, *_NODES, "cuGraphMemcpyNodeGetParams", "cuGraphInstantiateWithFlags")


def _record_with_a_fault(fault: Callable[[], None]) -> bool:
    """Return whether a fault kept a region from being recorded; nothing else changes."""
    gc.collect()
    stream, before = current(), (driver().fake_live_graphs(), POOLS.live)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run = region(sums, 3, written=(2,))
        for number in range(4):
            if number == 1:
                fault()
            x, y, out = (floats(16) for _ in range(3))
            (total,) = run(x, y, out)
            assert torch.equal(total, x + y)
            torch.testing.assert_close(out, x + y + y)
            assert current() == stream
            assert POOLS.entered is None
            assert not POOLS.has_workspace
    is_recorded = run.count() == 1
    assert is_recorded or "is not replayed as a graph" in str(seen[0].message)
    POOLS.faults.clear()
    if not is_recorded:
        gc.collect()  # the exception is gone, and with it what it held
        after = driver().fake_live_graphs(), POOLS.live
        assert after == before, (after, before, str(seen[0].message))
    return not is_recorded


@nothing_lives_after()
def check_a_failure_at_any_call_leaves_the_allocator_as_it_was() -> None:
    def fail_torch(name: str, count: int) -> None:
        POOLS.faults[name] = count + 1

    def fail_driver(name: str, count: int) -> None:
        driver().fake_fail_graphs(name.encode(), count, 1)

    calls = [(fail_torch, name) for name in ("begin", "end", "take", "copy")]
    calls += [(fail_driver, name) for name in _DRIVER]
    for fail, name in calls:
        count = 0
        while _record_with_a_fault(partial(fail, name, count)):
            count += 1
        assert count >= (1 if "Instantiate" in name else 3), name
        driver().fake_fail_graphs(name.encode(), 0, 0)


def check_a_block_that_fails_in_a_capture_runs() -> None:
    def work(_: int) -> None:
        raise ValueError("no such\nthing")

    _refused(work, "no such")


@nothing_lives_after()
def check_a_failure_is_said_once_even_if_its_key_is_forgotten() -> None:
    def block(x: torch.Tensor, number: int) -> None:
        assert POOLS.entered is None, number

    with said("7"):
        run = region(block, 1, numbers=1)
        x = floats(1)
        for number in (7, 7, *range(1000, 1400), 7, 7):
            run(x, number)


@nothing_lives_after()
def check_a_capture_that_is_interrupted_ends() -> None:
    def block(x: torch.Tensor) -> None:
        if POOLS.entered is not None:
            raise KeyboardInterrupt

    with said():
        run = region(block, 1)
        x = floats(1)
        run(x)
        with pytest.raises(KeyboardInterrupt):
            run(x)
        assert POOLS.entered is None


@nothing_lives_after()
def check_warnings_that_are_errors_do_not_record_again() -> None:
    captures = []

    def block(x: torch.Tensor) -> None:
        if POOLS.entered is not None:
            captures.append(0)
            raise ValueError("no")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = region(block, 1)
        x = floats(1)
        run(x)
        with pytest.raises(RuntimeWarning, match="no"):
            run(x)
        for _ in range(3):
            run(x)
        assert len(captures) == 1


@nothing_lives_after()
def _copy_and_fill(rows: int) -> None:
    def block(x: torch.Tensor, out: torch.Tensor) -> None:
        stream = ctypes.c_void_p(current())
        driver().fake_copy(out.data_ptr(), x.data_ptr(), 64, rows, 2, stream)
        driver().fake_fill(out.data_ptr(), 0, 16, rows, stream)

    with said():
        run = region(block, 2, written=(1,))
        kept = []
        for _ in range(6):
            x, out = floats(16), floats(16)
            run(x, out)
            assert torch.equal(out[4:], x[4:])
            assert not out[:4].any()
            kept.append((x, out))
        log = gpu().log()
        assert len([line for line in log if line.startswith("replay")]) == 5
        recordings = sum(line.startswith("instance") for line in log)
        assert (recordings > 1) == (rows > 1)  # those after the first one copy operands


def check_copies_and_fills_of_rows_do_not_move() -> None:
    for rows in (1, 2):  # the driver changes the addresses of no node with rows
        _copy_and_fill(rows)


@nothing_lives_after()
def check_a_captured_stream_runs_the_block() -> None:
    run = region(sums, 3, written=(2,))
    x, y, out = (floats(16) for _ in range(3))
    for _ in range(3):
        run(x, y, out)
    assert len(replays()) == 2
    driver().fake_set_captured(True)
    try:
        for _ in range(3):
            (total,) = run(x, y, out)
            assert torch.equal(total, x + y)
    finally:
        driver().fake_set_captured(False)
    assert replays() == []
    run(x, y, out)
    assert len(replays()) == 1


def check_wrong_arguments_are_errors() -> None:
    run = region(sums, 3, numbers=1)
    x, y, out = (floats(16) for _ in range(3))
    text = "a region takes 3 tensors and 1 numbers by position"
    for wrong in ((), (x, y, out), (x, y, out, 1, 2)):
        with raises(TypeError, text):
            run(*wrong)
    with raises(TypeError, text):
        run(x, y, out, n=1)
    native = graphs()._native()
    with raises(TypeError):
        native.Region(1, 2)
    capsules = "a graph", 1, 2
    for _ in range(2000):  # the key is given back
        with suppress(ValueError):
            run.add(b"k" * 1000, *capsules, (), False, None, None)


@nothing_lives_after()
def check_recordings_used_last_are_kept() -> None:
    def block(x: torch.Tensor, number: int) -> None:
        add(x, x, x)

    run = region(block, 1, numbers=1, written=(0,), recordings=2)
    x = floats(16)
    for number in (1, 1, 2, 2, 1, 3, 3):  # 2 goes
        run(x, number)
    assert run.count() == 2
    assert replays() == ["exec0", "exec1", "exec0", "exec2"]
    for number in (1, 3, 2):
        run(x, number)
    assert replays() == ["exec0", "exec2"]


@nothing_lives_after()
def check_streams_have_recordings_of_their_own() -> None:
    run = region(lambda x: add(x, x, x), 1, written=(0,))
    x = floats(16)
    for stream in (0x71, 0x72, 0x71, 0x72, 0x71):
        with on(stream):
            run(x)
    assert replays() == ["exec0", "exec1", "exec0"]
    assert run.count() == 2


@nothing_lives_after()
def check_a_thread_without_a_context_gets_one() -> None:
    run = region(sums, 3, written=(2,))
    x, y, out = (floats(16) for _ in range(3))
    for _ in range(2):
        run(x, y, out)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            gpu().enter(0, has_context=False)
            for _ in range(3):
                torch.testing.assert_close(run(x, y, out), (x + y,))
        except BaseException as error:
            failures.append(error)

    gpu().log()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures, failures
    log = gpu().log()
    assert log.count("context") == 1, log
    assert len([line for line in log if line.startswith("replay")]) == 3, log


@nothing_lives_after()
def check_threads_share_recordings() -> None:
    with said():
        run = region(sums, 3, written=(2,))
        failures: list[BaseException] = []

        def work() -> None:
            try:
                gpu().enter(0)
                for _ in range(300):
                    x, y, out = (floats(16) for _ in range(3))
                    (total,) = run(x, y, out)
                    torch.testing.assert_close(total, x + y)
                    torch.testing.assert_close(out, x + y + y)
            except BaseException as error:
                failures.append(error)

        x, y, out = (floats(16) for _ in range(3))
        for _ in range(2):  # the pools here are those of one thread
            run(x, y, out)
        threads = [threading.Thread(target=work) for _ in range(4)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        assert not failures, failures
        assert run.count() == 1


@nothing_lives_after()
def check_errors_of_replays_are_raised_and_the_next_is_right() -> None:
    with said():
        run = region(sums, 3, written=(2,))
        x, y, out = (floats(16) for _ in range(3))
        for _ in range(2):
            run(x, y, out)
        names = "cuGraphLaunch", "cuGraphExecKernelNodeSetParams_v2"
        wanted = "replaying a graph failed: ", "moving a launch's operand failed: "
        for name, text in zip(names, wanted, strict=True):
            for after in (0, 1):
                driver().fake_fail_graphs(name.encode(), after, 1)
                found = 0
                for _ in range(6):
                    x, y, out = (floats(16) for _ in range(3))
                    try:
                        (total,) = run(x, y, out)
                    except RuntimeError as error:
                        found += f"{text}CUDA_ERROR_INVALID_VALUE" in str(error)
                        (total,) = run(x, y, out)
                    assert torch.equal(total, x + y)
                    torch.testing.assert_close(out, x + y + y)
                assert found == 1


@nothing_lives_after()
def check_an_instance_that_was_half_changed_is_changed_again() -> None:
    run = region(sums, 3, written=(2,))
    y = floats(16)
    a, b, c, d = ((floats(16), y, floats(16)) for _ in range(4))
    for given in (a, a, b, c):
        run(*given)
    driver().fake_fail_graphs(b"cuGraphExecKernelNodeSetParams_v2", 1, 1)
    with raises(RuntimeError, "moving a launch's operand"):
        run(*d)
    for x, y, out in (a, d, b, c, a, d):
        out.zero_()
        (total,) = run(x, y, out)
        assert torch.equal(total, x + y)
        torch.testing.assert_close(out, x + y + y)


@nothing_lives_after()
def check_nothing_leaks() -> None:
    def block(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, n: float) -> tuple[Any]:
        return sums(x, y, out)

    run = region(block, 3, numbers=1, written=(2,))
    given = (*(floats(16) for _ in range(3)), 1e100)
    moved = (*(floats(16) for _ in range(3)), 1e100)

    def work() -> None:
        for _ in range(1500):
            run(*given)
            run(*moved)
        with suppress(TypeError):
            run(*given, 1)
        gpu().log()

    work()
    counts = [sys.getrefcount(item) for item in (*given, *moved)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work()
    assert [sys.getrefcount(item) for item in (*given, *moved)] == counts
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 3000, f"{grown} KiB"


@nothing_lives_after()
def check_a_region_in_a_cycle_goes() -> None:
    made: list[Any] = []

    def block(x: torch.Tensor) -> None:
        add(x, x, x)
        made.count(0)

    made.append(region(block, 1, written=(0,)))
    for _ in range(3):
        made[0](floats(16))
    assert driver().fake_live_graphs() > 0


# Emitted programs.


def _program() -> Any:
    """Return a program with a kernel of Triton's in a region."""
    on = Device("cuda", 0)
    x = tensor("f32", (Symbol("s0"),), device=on)
    b = ProgramBuilder()
    inputs = [b.input(x), b.input(x)]
    b.symbol("s0", SizeOf(inputs[0].name, 0), lower=1, upper=1 << 20)
    kernel = b.kernel(library_kernel(KernelKind.ADD, Language.TRITON))
    out = b.allocate(x)
    b.call(kernel, *inputs, out, Symbol("s0"), device=on)
    text = format_program(b.build(out))
    (line,) = [line for line in text.splitlines() if "kernel_call" in line]
    names = [f"%{value.name}" for value in (*inputs, out)]
    block = ", ".join(f"{name}_: f32[s0]@cuda:0" for name in names)
    inner = line
    for name in names:
        inner = inner.replace(name, f"{name}_")
    text = text.replace(
        line,
        f"  graph_region @adding ({', '.join(names)}) @cuda:0 {{\n    body ({block}) {{\n"
        f"    {inner}\n      return\n    }}\n  }}",
    )
    return parse_program(text)


@nothing_lives_after()
def check_emitted_regions_are_replayed() -> None:
    graphs()
    with said():
        call = loaded(_program(), {})
        run = call.__globals__["adding"]
        fakes = run.plain.__globals__["graphs"]._captures
        assert fakes is graphs()._captures
        for size in (16, 32, 16, 7, 32, 16, 7):
            for shift in (0, 1, 4, 0):
                x, y = floats(size, shift), floats(size)
                (out,) = call([x, y])
                assert torch.equal(out, x + y)
        assert len(replays()) > 10
        del call, run, fakes


def check_sizes_that_a_block_does_not_write_are_keys() -> None:
    program = parse_program(STEP)
    call = loaded(program, {})
    with raises(TypeError, "a region takes 2 tensors and 1 numbers"):
        call.__globals__["step"]()


CHECKS: dict[str, Callable[[], None]] = {
    **fake_recordings.CHECKS,
    **{name[6:]: check for name, check in globals().items() if name.startswith("check_")},
}


def main() -> None:
    """Run checks until there are no more."""
    pretend()
    graphs()
    gc.freeze()  # what is looked through for garbage is small then
    serve(CHECKS)


if __name__ == "__main__":
    main()
