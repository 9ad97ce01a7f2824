"""A process of its own for each check, so that a crash ends one check."""

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO

from attrs import asdict

from wrapperir.testing.suite.results import CheckResult, Status

_PERTURB = -6
"""The option of glibc's ``mallopt`` that fills memory where it is allocated and freed."""
_FILL = 0x40
"""Freed memory is 3.0 or so as f32, and new memory, its complement, about -1.5.

Neither is a small whole number, as values of conformance programs are.
"""


_NOT_IMPORTED: set[str] = set()
"""Modules of children that this process cannot import."""


class CheckEndedError(Exception):
    """The process of a check ended without a result: it crashed, or ran too long."""


def in_own_process(
    function: Callable[[], Sequence[CheckResult]], seconds: float
) -> Sequence[CheckResult]:
    """Return the results that ``function`` returns in a child process.

    In the child, the bytes of new and of freed memory are not zero, so that code that reads
    them is found out.  Where processes cannot fork, the function runs in this process.

    Raises:
        CheckEndedError: the child was killed by a signal, exited, or ran for longer than
            ``seconds``; the message includes the end of its standard error.
    """
    if not hasattr(os, "fork"):
        return function()
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if not child:
            _run_child(function, writer, printed)
        os.close(writer)
        try:
            content, in_time = _read_all(reader, seconds)
        finally:
            os.close(reader)
        if not in_time:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if content and in_time:
            modules, results = _decoded(content)
            _import_early(modules)
            return results
        raise CheckEndedError(_ending(status, in_time, seconds) + _last_words(printed))


def _encoded(results: Sequence[CheckResult]) -> bytes:
    items = [{**asdict(result), "status": result.status.value} for result in results]
    return json.dumps([[*sys.modules], items]).encode()


def _decoded(content: bytes) -> tuple[Sequence[str], Sequence[CheckResult]]:
    items: list[dict[str, str]]
    modules: list[str]
    modules, items = json.loads(content)
    return modules, [
        CheckResult(
            item["feature"],
            item["case"],
            Status(item["status"]),
            item["reason"],
            item["program"],
            int(item["seed"]),
            item["traceback"],
        )
        for item in items
    ]


def _import_early(modules: Sequence[str]) -> None:
    """Import what a child did: for later children, that would take most of their time.

    Modules that only the child could make, such as emitted ones, are left out.
    """
    for name in modules:
        if name not in sys.modules and name not in _NOT_IMPORTED:
            try:
                importlib.import_module(name)
            except (Exception, SystemExit):
                _NOT_IMPORTED.add(name)


def _run_child(
    function: Callable[[], Sequence[CheckResult]], writer: int, printed: IO[bytes]
) -> None:
    """Run a function in a new child, write its results, and exit."""
    status = 1
    try:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.freeze()
        _fill_memory()
        content = _encoded(function())
        while content:
            content = content[os.write(writer, content) :]
        status = 0
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        os._exit(status)


def _fill_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it
    if mallopt is not None:
        mallopt(_PERTURB, _FILL)


def _read_all(reader: int, seconds: float) -> tuple[bytes, bool]:
    """Return what a child writes, and whether it closed its pipe in time."""
    parts: list[bytes] = []
    end = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return b"", False
        part = os.read(reader, 1 << 16)
        if not part:
            return b"".join(parts), True
        parts.append(part)


def _ending(status: int, in_time: bool, seconds: float) -> str:
    if not in_time:
        return f"it did not end within {seconds:.0f} s"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"it crashed: the process was killed by {signal.Signals(number).name}"
    return f"its process exited with status {os.waitstatus_to_exitcode(status)}"


def _last_words(printed: IO[bytes]) -> str:
    printed.seek(0)
    lines = printed.read().decode(errors="replace").strip().splitlines()
    return f" ({lines[-1]:.200})" if lines else ""
