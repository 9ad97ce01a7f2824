"""Triton kernels that are compiled before their program is whole.

A frontend knows most kernels long before it has the program, and processors are idle
meanwhile.  What is compiled then is in Triton's cache of files when the program asks for
it.  So a guess that was wrong costs time of a processor and changes nothing.
"""

import json
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from wrapperir.caching import digest_of

CompileFacts: TypeAlias = Mapping[str, Any]
"""How a kernel is compiled.

It has a ``name`` for messages, the path of its ``source``, its ``entry``, the
``signature`` of the arguments that a launch passes, the ``values`` of constants and
options, and positions in the signature: ``aligned`` arguments are multiples of 16,
``checked`` ones are where the aligned variant is launched, and ``descriptors`` are tensor
descriptors.
"""
Run: TypeAlias = Callable[[Path, CompileFacts, str], "Future[int]"]
"""Begins a task, whose file is a source, in a process, with a directory for its files."""

_MOST_SECONDS = 60.0
"""A kernel that takes longer is compiled twice rather than waited for."""


class Ahead:
    """Kernels to compile, a process each, and at most so many at once."""

    def __init__(self, run: Run, most: int) -> None:
        """Begin none."""
        self._run = run
        self._most = most
        self._forget()

    def _forget(self) -> None:
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[tuple[CompileFacts, str]] = deque()
        self._begun: set[str] = set()
        self._running = 0

    def begin(self, task: CompileFacts, source: str) -> None:
        """Compile a kernel soon, unless that was begun before.

        ``task`` is as the worker reads it; ``source`` is the file that it names.
        """
        if self._owner != os.getpid():  # forked: the parent's are not waited for here
            self._forget()
        digest = digest_of((json.dumps(task, sort_keys=True), source))
        with self._changed:
            if digest not in self._begun:
                self._begun.add(digest)
                self._waiting.append((task, source))
                self._fill()

    def wait(self) -> None:
        """Wait until all that was begun is compiled, or failed to."""
        if self._owner == os.getpid():
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._waiting and not self._running, _MOST_SECONDS
                )

    def _fill(self) -> None:
        while self._waiting and self._running < self._most:
            task, source = self._waiting.popleft()
            folder = tempfile.TemporaryDirectory()
            self._running += 1
            status = self._run(Path(folder.name), task, source)
            status.add_done_callback(partial(self._end, folder))

    def _end(
        self, folder: "tempfile.TemporaryDirectory[str]", status: "Future[int]"
    ) -> None:
        folder.cleanup()
        with self._changed:
            self._running -= 1
            if status.exception() is not None:  # the process that forks others has ended
                self._waiting.clear()
            self._fill()
            self._changed.notify_all()
