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
            run_side_by_side([*own, *(() if coming.is_new else (_load_first_fit,))])

    _in_background(begin)


def _load_first_fit() -> None:
    """Build what plans memory; a short lowering would wait for it."""
    from wrapperir.planning.cores import FIRST_FIT, load_core

    load_core(FIRST_FIT)


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
