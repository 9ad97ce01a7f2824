"""Keeps the times of cases: in a run, and where there is a cache, for later ones."""

from collections.abc import Mapping

from wrapperir.caching.private_cache import CacheRefusedError, digest_of
from wrapperir.tuning.choice_cache import ChoiceCache, Entry
from wrapperir.tuning.measure import Times


class CaseStore:
    """The times of cases that were measured, by the facts that decide them.

    A cache that cannot be used is left alone from then on, and ``problem`` says which and
    why.  ``kept`` counts the cases whose times are in it.
    """

    def __init__(self, cache: ChoiceCache | None) -> None:
        """Start with what the cache has, or without one with nothing."""
        self._cache = cache
        self._here: dict[str, Times] = {}
        self.problem = ""
        self.kept = 0

    def load(self, facts: Mapping[str, object], choices: int) -> Times | None:
        """Return the times of a case with that many choices, if they are known."""
        key = digest_of(facts)
        known = self._here.get(key)
        if known is not None or self._cache is None:
            return known
        try:
            entry = self._cache.load(key)
        except OSError as error:
            self._give_up(self._cache, error)
            return None
        if entry is None or len(entry.microseconds) != choices:
            return None
        if None in entry.microseconds:  # as a program that times as it runs may store
            return None
        self.kept += 1
        return Times(entry.microseconds, (None,) * choices)

    def store(self, facts: Mapping[str, object], times: Times) -> None:
        """Keep the times of a case.

        A case where any choice has none is kept for this run only: what it failed for,
        such as a lack of memory or of a compiler, may be gone in the next.
        """
        key = digest_of(facts)
        self._here[key] = times
        if self._cache is None or None in times.microseconds:
            return
        try:
            self._cache.store(key, Entry(times.microseconds))
        except OSError as error:
            self._give_up(self._cache, error)
        else:
            self.kept += 1

    def _give_up(self, cache: ChoiceCache, error: OSError) -> None:
        self._cache = None
        self.problem = str(error)
        if not isinstance(error, CacheRefusedError):  # which names the directory
            self.problem = f"{cache.directory}: {error.strerror or error}"
