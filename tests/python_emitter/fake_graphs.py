"""Recordings of graph regions as if there were a GPU, in a process of their own."""

import ctypes
import gc
import resource
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from tests.python_emitter import fake_failed_captures, fake_moves, fake_recordings
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
    nothing_lives_after,
    on,
    region,
    replays,
    said,
    wait,
)
from tests.python_emitter.fake_launches import loaded, pretend, raises, serve
from tests.python_emitter.fake_moves import sums
from wrapperir.emit import drop_recordings
from wrapperir.ir import Device, Language, SizeOf, Symbol, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.text import format_program, parse_program


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
    **fake_moves.CHECKS,
    **fake_failed_captures.CHECKS,
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
