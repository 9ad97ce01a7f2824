"""Replays whose operands and results move, as the made-up driver sees them."""

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import torch

from tests.python_emitter.fake_captures import (
    POOLS,
    add,
    current,
    driver,
    floats,
    fresh,
    gpu,
    graphs,
    hidden_add,
    nothing_lives_after,
    region,
    replays,
    said,
)
from tests.python_emitter.fake_launches import raises


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
            # The address changes at launches 3, 25 and 35; what 25 sets lasts 10 launches.
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


CHECKS: dict[str, Callable[[], None]] = {
    name[6:]: check for name, check in globals().items() if name.startswith("check_")
}
