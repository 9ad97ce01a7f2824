"""What tuning keeps in the cache of choices, and what it finds there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from tests.tuning.costs import (
    FAST,
    SLOW,
    Pretended,
    calling,
    constant,
    only,
    policy,
    refusing,
    slower,
)
from wrapperir.ir import Program, RecordedChoice, Symbol
from wrapperir.tuning.choice_cache import ChoiceCache, ChoiceTimes, fresh_choice_cache
from wrapperir.tuning.tune import Progress, tune_program

S0 = Symbol("s0")


@pytest.fixture
def cache() -> Iterator[ChoiceCache]:
    with fresh_choice_cache() as made:
        yield made


def test_progress_says_how_many_cases_are_kept(cache: ChoiceCache) -> None:
    seen: list[Progress] = []
    for timer in (slower(), refusing):
        tune_program(
            calling([S0]), samples=3, timer=timer, cache=cache, progress=seen.append
        )
        assert [progress.kept for progress in seen] == [0, 1, 2, 3]
        seen.clear()
    os.chmod(cache.directory, 0o777)  # noqa: S103 - what is to be refused
    tune_program(
        calling([S0]), samples=3, timer=slower(), cache=cache, progress=seen.append
    )
    assert [progress.kept for progress in seen] == [0, 0, 0, 0]


def test_what_was_timed_before_is_not_timed_again(cache: ChoiceCache) -> None:
    program = calling([S0])
    first = tune_program(program, samples=5, timer=slower(), cache=cache)
    again = tune_program(program, samples=5, timer=refusing, cache=cache)
    assert again.program == first.program
    assert (first.report.cached, again.report.cached) == (0, 5)
    other = slower()
    tune_program(program, samples=5, timer=other, cache=None)
    assert len(other.asked) == 5


@pytest.mark.parametrize(
    "changed",
    [
        calling([65]),
        calling([64], kernels=[SLOW, evolve(FAST, source=FAST.source + " ")]),
        calling([64], kernels=[FAST, SLOW]),
    ],
    ids=["size", "source", "order"],
)
def test_what_decides_times_is_in_the_key(cache: ChoiceCache, changed: Program) -> None:
    tune_program(calling([64]), timer=slower(), cache=cache)
    timer = slower()
    tune_program(changed, timer=timer, cache=cache)
    assert len(timer.asked) == 1
    same = evolve(FAST, name="fast2")
    assert (
        tune_program(
            calling([64], kernels=[SLOW, same]), timer=refusing, cache=cache
        ).report.cached
        == 1
    )


def test_a_choice_that_failed_once_is_tried_again_by_the_next_run(
    cache: ChoiceCache,
) -> None:
    program = calling([64])
    failing = Pretended({"slow": constant(100.0), "fast": constant(None)})
    failed = tune_program(program, timer=failing, cache=cache)
    assert policy(failed) == RecordedChoice(0, (100.0, None), only(failed).device)
    again = tune_program(program, timer=slower(), cache=cache)
    assert again.report.cached == 0
    assert only(again).failures == ()
    assert only(again).chosen == 1
    assert tune_program(program, timer=refusing, cache=cache).report.cached == 1


def test_an_entry_with_a_failure_is_not_taken(cache: ChoiceCache) -> None:
    """Programs that time their kernels as they run may store such."""
    program = calling([64])
    tune_program(program, timer=slower(), cache=cache)
    (path,) = Path(cache.directory).iterdir()
    cache.store(path.stem, ChoiceTimes((100.0, None)))
    timer = slower()
    tune_program(program, timer=timer, cache=cache)
    assert len(timer.asked) == 1


def test_all_failures_are_not_kept(cache: ChoiceCache) -> None:
    broken = Pretended({"slow": constant(None), "fast": constant(None)})
    tune_program(calling([64]), timer=broken, cache=cache)
    assert isinstance(
        policy(tune_program(calling([64]), timer=slower(), cache=cache)), RecordedChoice
    )


def test_a_cache_that_is_refused_is_not_used(cache: ChoiceCache) -> None:
    tune_program(calling([64]), timer=slower(), cache=cache)
    os.chmod(cache.directory, 0o777)  # noqa: S103 - what is to be refused
    timer = slower()
    tuned = tune_program(calling([64]), timer=timer, cache=cache)
    assert len(timer.asked) == 1
    assert "written by other" in tuned.report.cache_problem
    assert cache.directory in tuned.report.cache_problem


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = ChoiceCache(tmp_path / "file" / "cache")
    tuned = tune_program(calling([64]), timer=slower(), cache=cache)
    problem = tuned.report.cache_problem
    assert problem.startswith(f"{cache.directory}: ")
