"""Work that begins before a program is there: builds of what all programs share."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from wrapperir.emit.contract import ComingPrograms, Emitter

_begun: set[tuple[object, ...]] = set()


def prepare(emitter: Emitter, coming: ComingPrograms) -> None:
    """Begin an emitter's preparations in the background, once in a process."""
    key = type(emitter), coming
    if key in _begun:
        return
    _begun.add(key)

    def begin() -> None:
        with suppress(Exception):  # loading a program raises it again, if it needs that
            own = emitter.preparations(coming)
            run_side_by_side([*own, *(() if coming.is_new else _planners(coming))])

    _in_background(begin)


def _planners(coming: ComingPrograms) -> Sequence[Callable[[], object]]:
    """Return the builds of what plans memory; a short lowering would wait for them."""
    from wrapperir.planning.cores import FIRST_FIT, TREE_SEARCH, load_core

    # Emitted C++ searches for places of what a call needs of another device's memory.
    cores = (FIRST_FIT,) if coming.devices <= {"cpu"} else (FIRST_FIT, TREE_SEARCH)
    return [partial(load_core, core) for core in cores]


def run_side_by_side(functions: Sequence[Callable[[], object]]) -> None:
    """Begin to run functions, each in a thread of its own; ignore what they raise.

    Ctrl-C, which also ends compilers that they started, is raised in the main thread.
    """

    def run(function: Callable[[], object]) -> None:
        with suppress(Exception, KeyboardInterrupt):
            function()

    for function in functions:
        _in_background(partial(run, function))


def _in_background(function: Callable[[], object]) -> None:
    threading.Thread(target=function, name="wrapperir-preparation").start()
