"""Worker processes that may crash or hang, with one result for each task."""

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from queue import Empty, Queue
from typing import Generic, TypeVar

from attrs import frozen

Task = TypeVar("Task")
Result = TypeVar("Result")

_CONTEXT = multiprocessing.get_context("spawn")


@frozen
class Lost:
    """A task that gave no result: its worker ran out of time, or died."""

    timed_out: bool
    exit_code: int | None


def _serve(work: Callable[[Task], Result], connection: Connection) -> None:
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(work(task))


class _Worker(Generic[Task, Result]):
    """One process, started again after it was lost or has served its share."""

    def __init__(self, work: Callable[[Task], Result], tasks_each: int) -> None:
        self._work = work
        self._tasks_each = tasks_each
        self._served = 0
        self._start()

    def _start(self) -> None:
        self._served = 0
        self._connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(
            target=_serve, args=(self._work, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    def run(self, task: Task, seconds: float) -> Result | Lost:
        if self._served == self._tasks_each:
            self.stop()
            self._start()
        self._served += 1
        timed_out = False
        try:
            self._connection.send(task)
            timed_out = not self._connection.poll(seconds)
            if not timed_out:
                result: Result = self._connection.recv()
                return result
        except (EOFError, ConnectionError):  # it died, maybe before it read the task
            self._process.join(10)
        exit_code = self._process.exitcode
        self._process.kill()
        self.stop()
        self._start()
        return Lost(timed_out, None if timed_out else exit_code)

    def stop(self) -> None:
        self._connection.close()  # a worker that waits for a task ends now
        self._process.join(1)
        self._process.kill()
        self._process.join()


def run_tasks(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    jobs: int,
    seconds: float,
    tasks_each: int = 50,
) -> Iterator[tuple[Task, Result | Lost]]:
    """Yield each task with its result, as results come.

    ``work`` is a function of a module, run in one of ``jobs`` processes; a process is
    replaced when a task takes more than ``seconds``, when it dies, and after
    ``tasks_each`` tasks, so that what a task leaves behind cannot pile up.
    """
    waiting: Queue[Task] = Queue()
    for task in tasks:
        waiting.put(task)
    done: Queue[tuple[Task, Result | Lost]] = Queue()

    def serve() -> None:
        worker = _Worker(work, tasks_each)
        while True:
            try:
                task = waiting.get_nowait()
            except Empty:
                worker.stop()
                return
            done.put((task, worker.run(task, seconds)))

    servers = [
        threading.Thread(target=serve, daemon=True) for _ in range(min(jobs, len(tasks)))
    ]
    for server in servers:
        server.start()
    for _ in tasks:
        yield done.get()
    for server in servers:
        server.join()
