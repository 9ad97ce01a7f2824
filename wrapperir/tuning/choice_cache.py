"""The cache of the times of multi-kernels' choices.

A *case* is all that decides the times: kernels, arguments, device, versions.  The key of a
case is the digest of its facts.
"""

import contextlib
import math
import os
import tempfile
from collections.abc import Generator
from typing import Final, cast

from attrs import frozen

from wrapperir.caching import PrivateCache, user_cache

SETTING: Final = "WRAPPERIR_CHOICE_CACHE"
"""The environment variable that turns the cache off (``0``) or is its absolute path."""


@frozen
class Entry:
    """The microseconds of each choice of a case, ``None`` for a choice that failed.

    Raises:
        ValueError: no choice has a time, or a time is negative or not finite.
    """

    microseconds: tuple[float | None, ...]

    def __attrs_post_init__(self) -> None:
        """Refuse what no measurement gives."""
        known = [time for time in self.microseconds if time is not None]
        if not known:
            raise ValueError("an entry needs the time of at least one choice")
        if not all(math.isfinite(time) and time >= 0 for time in known):
            raise ValueError(f"not all are times: {self.microseconds}")

    @property
    def choice(self) -> int:
        """The position of the fastest choice, the first of equals."""
        times = [math.inf if time is None else time for time in self.microseconds]
        return times.index(min(times))


class ChoiceCache:
    """The entries in a private directory; errors are those of :class:`PrivateCache`."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Use a directory; it need not exist, and nothing is read or created now."""
        self._records: Final = PrivateCache(directory)

    @property
    def directory(self) -> str:
        """The absolute path of the directory."""
        return self._records.directory

    def load(self, key: str) -> Entry | None:
        """Return the entry of a key, or ``None`` where no whole entry is stored."""
        record = self._records.load(key)
        if record is None or [*record] != ["microseconds"]:
            return None
        times = record["microseconds"]
        if not isinstance(times, list):
            return None
        known = cast("list[object]", times)
        if not all(time is None or isinstance(time, float) for time in known):
            return None
        try:
            return Entry(tuple(cast("list[float | None]", times)))
        except ValueError:
            return None

    def store(self, key: str, entry: Entry) -> None:
        """Store an entry under a key, in place of an earlier one."""
        times = [None if time is None else float(time) for time in entry.microseconds]
        self._records.store(key, {"microseconds": times})


def default_cache() -> ChoiceCache | None:
    """Return this user's cache, or ``None`` where it is turned off or there is no home.

    ``WRAPPERIR_CHOICE_CACHE`` and the place where it is not set are described at
    :func:`~wrapperir.caching.private_cache.user_cache`; its kind is ``choices``.

    Raises:
        CacheRefusedError: ``WRAPPERIR_CHOICE_CACHE`` is neither 0 nor a path.
    """
    found = user_cache("choices", SETTING)
    return None if found is None else ChoiceCache(found.directory)


@contextlib.contextmanager
def fresh_choice_cache() -> Generator[ChoiceCache]:
    """Make an empty cache the default one, here and in processes started meanwhile.

    In the end its files are deleted, and the previous cache is the default again.
    """
    with tempfile.TemporaryDirectory(prefix="wrapperir-choices-") as directory:
        before = os.environ.get(SETTING)
        os.environ[SETTING] = directory
        try:
            yield ChoiceCache(directory)
        finally:
            if before is None:
                os.environ.pop(SETTING, None)
            else:
                os.environ[SETTING] = before
