"""Workers that crash, hang or fail lose one task and no more."""

import os
import time

from bench.sweep.worker_pool import Lost, run_tasks


def work(task: str) -> str:
    if task == "die":
        os._exit(3)
    if task == "hang":
        time.sleep(60)
    return task.upper()


def test_every_task_has_a_result() -> None:
    tasks = ["a", "die", "b", "hang", "c"]
    results = dict(run_tasks(work, tasks, jobs=2, seconds=5))
    assert results == {
        "a": "A",
        "b": "B",
        "c": "C",
        "die": Lost(timed_out=False, exit_code=3),
        "hang": Lost(timed_out=True, exit_code=None),
    }


def test_a_worker_is_replaced_after_its_share() -> None:
    processes = set(
        dict(run_tasks(_process, range(4), jobs=1, seconds=30, tasks_each=2)).values()
    )
    assert len(processes) == 2


def _process(task: int) -> int:
    return os.getpid()


def _die() -> None:
    os._exit(3)


class DyingWork:
    """Work that ends each process that reads it."""

    def __reduce__(self) -> tuple[object, ...]:
        return _die, ()

    def __call__(self, task: str) -> str:
        return task


def test_a_worker_that_dies_before_it_serves_loses_its_task() -> None:
    results = dict(run_tasks(DyingWork(), ["a"], jobs=1, seconds=30))
    assert results == {"a": Lost(timed_out=False, exit_code=3)}
