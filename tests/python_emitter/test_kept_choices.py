"""Choices that emitted Python keeps for later runs: for what, where, and when not."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.python_emitter.stub_kernels import (
    CALL,
    INPUTS,
    KERNELS,
    Ran,
    benchmarked,
    force,
    kernel,
    load_with,
    multi_kernel,
    program_of,
    refuse_to_time,
    tensors,
)
from wrapperir.ir import Number, Program
from wrapperir.text import format_program, parse_program
from wrapperir.tuning.choice_cache import ChoiceCache, fresh_choice_cache
from wrapperir.tuning.measure import Times
from wrapperir.tuning.tune import tune_program


@pytest.fixture(autouse=True)
def cache() -> Any:
    with fresh_choice_cache() as made:
        yield made


def test_another_program_of_the_same_kernels_takes_the_kept_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first: Any = load_with(monkeypatch, benchmarked(), Ran().stubs)
    force(first, (3.0, 2.0))
    first(tensors())
    renamed = program_of(
        KERNELS.replace("@first", "@a").replace("@second", "@b")
        + multi_kernel("benchmark", "  choice @a(0, 1, 2)\n  choice @b(0, 1, 2)\n", "z"),
        CALL.replace("@m", "@z"),
        INPUTS,
    )
    ran = Ran()
    second: Any = load_with(monkeypatch, renamed, ran.stubs)
    refuse_to_time(second)
    second(tensors())
    assert ran.names == ["second"]
    (decision,) = second.choices()
    assert decision.microseconds == (("a", 3.0), ("b", 2.0))
    assert decision.reason == "the fastest when it was timed before"


def test_what_was_tuned_ahead_of_time_is_not_timed_again(
    monkeypatch: pytest.MonkeyPatch, cache: ChoiceCache
) -> None:
    """The program that was not tuned has choices of the same key."""

    def timer(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        return Times((3.0, 2.0), (None, None))

    assert tune_program(benchmarked(), cache=cache, timer=timer).report.cases == 1
    ran = Ran()
    call: Any = load_with(monkeypatch, benchmarked(), ran.stubs)
    refuse_to_time(call)
    call(tensors())
    assert ran.names == ["second"]
    assert call.choices()[0].microseconds == (("first", 3.0), ("second", 2.0))


@pytest.mark.parametrize("offset", [0, 3, 4, 8, 16, 17])
def test_tuning_knows_how_arguments_will_be_aligned(
    offset: int, monkeypatch: pytest.MonkeyPatch, cache: ChoiceCache
) -> None:
    def timer(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        return Times((3.0, 2.0), (None, None))

    inputs = INPUTS.replace("%x: f32[4, 8]", f"%x: f32[4, 8; offset {offset}]")
    program = program_of(KERNELS + multi_kernel("benchmark"), CALL, inputs)
    tune_program(program, cache=cache, timer=timer)
    x, p = tensors()
    moved = torch.ones(64)[offset : offset + 32].view(4, 8)
    for given, is_known in ((moved, True), (x, offset % 16 == 0)):
        call = load_with(monkeypatch, benchmarked(), Ran().stubs)
        asked = force(call, (3.0, 2.0))
        assert given.data_ptr() % 64 == (4 * offset % 64 if given is moved else 0)
        call([given, p])
        assert asked == [] if is_known else len(asked) == 1


CHANGES: dict[str, Callable[[str], str]] = {
    "source": lambda text: text.replace("| first", "| third"),
    "positions": lambda text: text.replace("choice @first(0, 1", "choice @first(1, 0"),
    "order": lambda text: text.replace(
        "  choice @first(0, 1, 2)\n  choice @second(0, 1, 2)\n",
        "  choice @second(0, 1, 2)\n  choice @first(0, 1, 2)\n",
    ),
    "metadata": lambda text: text.replace(
        "  entry = kernel", '  entry = kernel\n  metadata "a.b" = 1', 1
    ),
    "scalar": lambda text: text.replace("32)", "31)"),
    "size": lambda text: text.replace("[4, 8]", "[8, 4]"),
    "stride": lambda text: text.replace("%x: f32[4, 8]", "%x: f32[4, 8; stride 16, 1]"),
    "dtype": lambda text: text.replace("f32", "i32"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_choice_is_kept_for_what_decides_it(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = KERNELS + multi_kernel("benchmark")
    program = program_of(
        definitions.replace("x: read f32*", "x: read_write f32*"),
        CALL,
        INPUTS.replace("%x: ", "%x: mutated "),
    )
    text = format_program(program)
    call = load_with(monkeypatch, program, Ran().stubs)
    force(call, (3.0, 2.0))
    call(tensors())
    changed = CHANGES[change](text.replace("%x: mutated ", "%x: "))
    changed = changed.replace("%x: ", "%x: mutated ")
    assert changed != text
    other = load_with(monkeypatch, parse_program(changed), Ran().stubs)
    asked = force(other, (3.0, 2.0))
    x, p = tensors()
    if change == "size":
        x, p = x.view(8, 4), p.view(8, 4)
    if change == "stride":
        x = torch.ones(4, 16)[:, :8]
    if change == "dtype":
        x, p = x.int(), p.int()
    other([x, p])
    assert len(asked) == 1


def test_without_a_cache_each_program_times_its_kernels(
    monkeypatch: pytest.MonkeyPatch, cache: ChoiceCache
) -> None:
    monkeypatch.setenv("WRAPPERIR_CHOICE_CACHE", "0")
    for _ in range(2):
        call = load_with(monkeypatch, benchmarked(), Ran().stubs)
        asked = force(call, (3.0, 2.0))
        call(tensors())
        assert len(asked) == 1
    assert list(Path(cache.directory).iterdir()) == []


def test_an_entry_that_is_damaged_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, cache: ChoiceCache
) -> None:
    def calls_that_time() -> int:
        call = load_with(monkeypatch, benchmarked(), Ran().stubs)
        asked = force(call, (3.0, 2.0))
        call(tensors())
        return len(asked)

    assert calls_that_time() == 1
    (entry,) = Path(cache.directory).iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole.replace(b"3.0", b"1.0"))
    assert calls_that_time() == 1
    assert entry.read_bytes() == whole
    assert calls_that_time() == 0


def test_a_directory_that_others_may_write_to_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cache: ChoiceCache
) -> None:
    Path(cache.directory).chmod(0o777)
    third = "  choice @first(0, 1, 2)\n  choice @third(0, 1, 2)\n"
    program = program_of(
        KERNELS
        + kernel("third")
        + multi_kernel("benchmark")
        + multi_kernel("benchmark", third, name="m2"),
        "  kernel_call @m(%x, %p, 32)\n  kernel_call @m2(%x, %p, 32)\n  return",
        INPUTS,
    )
    ran = Ran()
    call = load_with(monkeypatch, program, ran.stubs)
    asked = force(call, (3.0, 2.0))
    call(tensors())
    assert len(asked) == 2
    assert ran.names == ["second", "third"]
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    (warning,) = warned
    assert "choices are not kept for later" in warning.getMessage()
    assert cache.directory in warning.getMessage()
    Path(cache.directory).chmod(0o700)


def test_a_setting_that_is_no_path_warns_and_choices_are_timed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cache: ChoiceCache
) -> None:
    monkeypatch.setenv("WRAPPERIR_CHOICE_CACHE", "off")
    call = load_with(monkeypatch, benchmarked(), Ran().stubs)
    asked = force(call, (3.0, 2.0))
    call(tensors())
    assert len(asked) == 1
    (warning,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "WRAPPERIR_CHOICE_CACHE='off' is neither 0 nor" in warning.getMessage()
    assert list(Path(cache.directory).iterdir()) == []
