"""Multi-kernels that time their kernels, in emitted Python: what runs, on whose memory."""

import logging
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.python_emitter.stub_kernels import (
    CALL,
    INPUTS,
    KERNELS,
    Ran,
    Stub,
    benchmarked,
    chosen,
    force,
    global_of,
    kernel,
    load_with,
    multi_kernel,
    program_of,
    tensors,
    vars_of,
)
from wrapperir.tuning.choice_cache import ChoiceCache, fresh_choice_cache
from wrapperir_python.emitter import PythonEmitter


@pytest.fixture(autouse=True)
def cache() -> Any:
    with fresh_choice_cache() as made:
        yield made


@pytest.mark.parametrize("times", [(3.0, 2.0), (2.0, 3.0), (None, 9.0), (2.0, 2.0)])
def test_the_choice_of_the_least_time_runs(
    times: tuple[float | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Ran()
    call = load_with(monkeypatch, benchmarked(), ran.stubs)
    force(call, times)
    winner = "second" if times in ((3.0, 2.0), (None, 9.0)) else "first"
    for _ in range(3):
        x, p = tensors()
        call([x, p])
        assert torch.equal(p, torch.full((4, 8), 3.0))
    assert ran.names == [winner] * 3
    assert chosen(call) == [("m", winner)]


def test_after_the_first_call_the_name_is_the_kernel_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = load_with(monkeypatch, benchmarked(), Ran().stubs)
    asked = force(call, (3.0, 2.0))
    assert global_of(call, "m") is not global_of(call, "second")
    for _ in range(3):
        call(tensors())
    assert global_of(call, "m") is global_of(call, "second")
    assert len(asked) == 1


def test_choices_run_on_copies_and_the_winner_once_on_the_program_s_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = Ran()
    call = load_with(monkeypatch, benchmarked(), ran.stubs)
    x, p = tensors()
    call([x, p])
    own = [given for given in ran.arguments if given[1] is p]
    assert len(own) == 1
    assert ran.arguments[-1] is own[0]
    assert set(ran.names) == {"first", "second"}
    for others in ran.arguments[:-1]:
        memory = {t.untyped_storage().data_ptr() for t in (*others[:2], x, p)}
        assert len(memory) == 4
        # p is copied anew for each run: it is what x was added to once.
        assert torch.equal(others[1], torch.full((4, 8), 3.0))
        assert others[2] == 32
    assert torch.equal(p, torch.full((4, 8), 3.0))


def test_an_argument_passed_twice_is_two_for_timing_and_one_for_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = Ran()
    lines = "  kernel_call @m(%p, %p, 32)\n  return"
    call = load_with(monkeypatch, benchmarked(lines), ran.stubs)
    _, p = tensors()
    call([torch.ones(4, 8), p])
    assert all(x is not y for x, y, _ in ran.arguments[:-1])
    assert ran.arguments[-1][:2] == (p, p)
    assert torch.equal(p, torch.full((4, 8), 4.0))


def test_a_workspace_s_content_is_there_for_each_timed_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that the program keeps is as no kernel but the winner left it."""
    seen: list[float] = []

    def count(x: torch.Tensor, p: torch.Tensor, n: int) -> None:
        seen.append(float(p.sum()))
        p += 1

    lines = (
        "  %w = allocate f32[4, 8] workspace(zero_per_program)\n"
        "  kernel_call @m(%x, %w, 32)\n  return"
    )
    program = program_of(KERNELS + multi_kernel("benchmark"), lines, INPUTS)
    call = load_with(monkeypatch, program, {"first": count, "second": count})
    call(tensors())
    assert len(seen) > 4
    assert set(seen) == {0.0}
    call(tensors())
    assert seen[-1] == 32.0


def test_choices_take_their_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some leave arguments out, turn them round or take one twice."""
    taken: list[tuple[Any, ...]] = []

    def note(*arguments: Any) -> None:
        taken.append(arguments)

    definitions = (
        kernel("few", "p: read_write f32*")
        + kernel("twice", "n: i64, x: read f32*, y: read f32*, p: read_write f32*")
        + multi_kernel("benchmark", "  choice @few(1)\n  choice @twice(2, 0, 0, 1)\n")
    )
    program = program_of(definitions, CALL, INPUTS)
    for times in ((1.0, 2.0), (2.0, 1.0)):
        call = load_with(monkeypatch, program, {"few": note, "twice": note})
        force(call, times)
        with fresh_choice_cache():
            for _ in range(2):
                x, p = tensors()
                call([x, p])
                wanted = [p] if times[0] < times[1] else [32, x, x, p]
                assert len(taken[-1]) == len(wanted)
                assert all(a is b for a, b in zip(taken[-1], wanted, strict=True))


def test_two_flavours_that_share_their_first_kernel_stay_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = Ran()
    flavours = multi_kernel("benchmark", name="m") + multi_kernel(
        "benchmark", "  choice @first(0, 1, 2)\n  choice @third(0, 1, 2)\n", "other"
    )
    lines = "  kernel_call @m(%x, %p, 32)\n  kernel_call @other(%x, %p, 32)\n  return"
    program = program_of(KERNELS + kernel("third") + flavours, lines, INPUTS)
    call = load_with(monkeypatch, program, ran.stubs)

    def time_choices(choices: Any, *_: Any) -> Sequence[float]:
        return (1.0, 2.0) if choices[1].name == "second" else (2.0, 1.0)

    global_of(call, "kernel_choices").time_choices = time_choices
    call(tensors())
    call(tensors())
    assert ran.names == ["first", "third"] * 2
    assert chosen(call) == [("m", "first"), ("other", "third")]


def test_a_multi_kernel_called_in_many_places_is_timed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twice = "  kernel_call @m(%x, %p, 32)\n  kernel_call @m(%x, %p, 16)\n  return"
    ran = Ran()
    call = load_with(monkeypatch, benchmarked(twice), ran.stubs)
    asked = force(call, (2.0, 1.0))
    call(tensors())
    assert len(asked) == 1
    assert ran.names == ["second", "second"]


def test_a_choice_that_raises_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cache: ChoiceCache
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no such instruction")

    ran = Ran()
    caplog.set_level(logging.INFO, "wrapperir.choices")
    for _ in range(2):  # what failed may work the next time: nothing is kept
        call: Any = load_with(
            monkeypatch, benchmarked(), {"first": fail, "second": ran.stub("second")}
        )
        x, p = tensors()
        call([x, p])
        assert torch.equal(p, torch.full((4, 8), 3.0))
        assert chosen(call) == [("m", "second")]
        assert call.choices()[0].microseconds[0] == ("first", None)
    assert "first fails: RuntimeError: no such instruction" in caplog.text
    assert caplog.text.count("m runs second: the fastest (first failed; second") == 2
    assert list(Path(cache.directory).iterdir()) == []


def test_where_all_fail_it_is_the_first_choice_s_error(
    monkeypatch: pytest.MonkeyPatch, cache: ChoiceCache
) -> None:
    def failing(name: str) -> Stub:
        def fail(*_: Any) -> None:
            raise RuntimeError(name)

        return fail

    stubs = {name: failing(name) for name in ("first", "second")}
    call = load_with(monkeypatch, benchmarked(), stubs)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"^first$"):
            call(tensors())
    assert list(Path(cache.directory).iterdir()) == []


def test_a_lack_of_memory_for_copies_runs_the_first_choice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran = Ran()
    call: Any = load_with(monkeypatch, benchmarked(), ran.stubs)

    def fail(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("not that much")

    x, p = tensors()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", fail)
        call([x, p])
    assert ran.names == ["first"]
    assert torch.equal(p, torch.full((4, 8), 3.0))
    assert "no kernel could be timed: OutOfMemoryError: not that much" in caplog.text
    (decision,) = call.choices()
    assert str(decision) == "m runs first: the first, as none could be timed"
    assert dict(decision.microseconds) == {"first": None, "second": None}


def test_timing_keeps_no_argument_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def fail(*arguments: Any) -> None:
        held.extend(weakref.ref(given) for given in arguments[:2])
        raise RuntimeError("no")

    call = load_with(monkeypatch, benchmarked(), {"first": fail, "second": lambda *_: None})
    given = tensors()
    held += map(weakref.ref, given)
    call(given)
    del given
    assert len(held) > 2
    assert all(reference() is None for reference in held)


def test_threads_that_come_at_once_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran()
    call = load_with(monkeypatch, benchmarked(), ran.stubs)
    module = global_of(call, "kernel_choices")
    come = threading.Barrier(4)
    measured: list[int] = []

    def time_choices(*_: Any) -> Sequence[float]:
        measured.append(1)
        threading.Event().wait(0.05)
        return (3.0, 2.0)

    module.time_choices = time_choices
    wrong: list[object] = []

    def work() -> None:
        x, p = tensors()
        come.wait()
        call([x, p])
        if not torch.equal(p, torch.full((4, 8), 3.0)):
            wrong.append(p)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert ran.names == ["second"] * 4
    assert len(measured) == 1


class Subclass(torch.Tensor):
    """Any tensor that is none of PyTorch's own."""


def test_what_traces_runs_the_first_choice_and_decides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = Ran()
    call: Any = load_with(monkeypatch, benchmarked(), ran.stubs)
    asked = force(call, (3.0, 2.0))
    with FakeTensorMode():
        call(tensors())
    call([each.as_subclass(Subclass) for each in tensors()])
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    call(tensors())
    monkeypatch.undo()
    assert ran.names == ["first"] * 3
    assert asked == []
    assert call.choices() == ()
    call(tensors())
    assert ran.names[-1] == "second"


@pytest.mark.parametrize("empty", [0, 1])
def test_a_call_without_elements_decides_nothing_for_others(
    empty: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def noting(name: str) -> Stub:
        return lambda *_: ran.append(name)

    stubs = {name: noting(name) for name in ("first", "second")}
    call: Any = load_with(monkeypatch, benchmarked(), stubs)
    asked = force(call, (3.0, 2.0))
    given = tensors()
    given[empty] = torch.ones(0, 8)
    call(given)
    assert (ran, asked, call.choices()) == (["first"], [], ())
    call(tensors())
    assert ran == ["first", "second"]
    assert chosen(call) == [("m", "second")]


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    seen: ClassVar[list[str]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_the_program_and_not_the_timing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = load_with(monkeypatch, benchmarked(), Ran().stubs)
    x, p = tensors()
    with Counting():  # type: ignore[no-untyped-call]
        call([x, p])
    assert Counting.seen == ["aten.add_.Tensor"]
    assert torch.equal(p, torch.full((4, 8), 3.0))


def test_inputs_that_require_gradients_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    call: Any = load_with(
        monkeypatch, benchmarked(), {name: lambda *_: None for name in ("first", "second")}
    )
    x, p = (each.requires_grad_() for each in tensors())
    call([x, p])
    assert None not in dict(call.choices()[0].microseconds).values()
    with torch.inference_mode():
        other = load_with(monkeypatch, benchmarked(), Ran().stubs)
        other(tensors())


def test_checks_of_memory_and_timing_are_of_no_account_to_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = (
        "  %pool = allocate_pool pool[256]\n"
        "  %b = place f32[4, 8] in %pool at 128\n"
        "  %w = place f32[4, 8] in %pool at 0 workspace(zero_on_call)\n"
        "  kernel_call @m(%x, %w, 32)\n"
        "  extern_kernel aten.add.out(%p, %w, out = %b) writes(%b)\n"
        "  %r = extern_kernel aten.clone.default(%b) : f32[4, 8]\n"
        "  free %w\n  free %b\n  free %pool\n  return %r"
    )

    def add(x: torch.Tensor, p: torch.Tensor, n: int) -> None:
        p += x

    emitter = PythonEmitter(check_memory=True)
    stubs = {"first": add, "second": add}
    call: Any = load_with(monkeypatch, benchmarked(lines), stubs, emitter)
    for _ in range(2):
        (result,) = call(tensors())
        assert torch.equal(result, torch.full((4, 8), 3.0))
    assert len(chosen(call)) == 1
    assert "memory_check" in vars_of(call)
