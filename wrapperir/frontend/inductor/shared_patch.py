"""Replacement of an attribute while any thread is in a context."""

import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any


class SharedPatch:
    """A context in which an attribute is replaced, for all threads.

    The attribute is as before when the last thread leaves.  ``make`` is given the value
    that it had, and returns the one to replace it.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace nothing yet."""
        self._owner = owner
        self._name = name
        self._make = make
        self._lock = threading.Lock()
        self._entered = 0
        self._stock: Any = None

    def __enter__(self) -> None:
        """Replace the attribute, if it is not replaced yet."""
        with self._lock:
            if not self._entered:
                # A method of a class, as it is defined, is not what an access returns.
                self._stock = inspect.getattr_static(self._owner, self._name)
                made = self._make(getattr(self._owner, self._name))
                setattr(self._owner, self._name, made)
            self._entered += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the attribute, if no other thread is in the context."""
        with self._lock:
            self._entered -= 1
            if not self._entered:
                setattr(self._owner, self._name, self._stock)
                self._stock = None
