"""Captures and replays that fail, as the made-up driver sees them."""

import ctypes
import gc
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
import torch

from tests.python_emitter.fake_captures import (
    POOLS,
    current,
    driver,
    floats,
    graphs,
    nothing_lives_after,
    region,
    replays,
    said,
)
from tests.python_emitter.fake_launches import raises
from tests.python_emitter.fake_moves import sums


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


CHECKS: dict[str, Callable[[], None]] = {
    name[6:]: check for name, check in globals().items() if name.startswith("check_")
}
