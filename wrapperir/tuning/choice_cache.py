"""The times of multi-kernels' choices: in this run, and in the user's cache.

A *case* is all that decides the times: kernels, arguments, device, versions.  The key of a
case is the digest of its facts.
"""

import contextlib
import math
import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from typing import Final, cast

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.caching import CacheRefusedError, PrivateCache, digest_of, user_cache
from wrapperir.emit.runnable_kernels import kernel_digest
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.tuning.calls import Call
from wrapperir.tuning.choice_facts import ChoiceFact, call_facts, number_fact, tensor_fact
from wrapperir.tuning.measure import Times

SETTING: Final = "WRAPPERIR_CHOICE_CACHE"
"""The environment variable that turns the cache off (``0``) or is its absolute path."""


@frozen
class ChoiceTimes:
    """The microseconds of each choice of a case, ``None`` for a choice that failed.

    Raises:
        ValueError: no choice has a time, or a time is negative or not finite.
    """

    microseconds: tuple[float | None, ...]

    def __attrs_post_init__(self) -> None:
        """Refuse what no measurement gives."""
        known = [time for time in self.microseconds if time is not None]
        if not known:
            raise ValueError("the time of at least one choice is needed")
        if not all(math.isfinite(time) and time >= 0 for time in known):
            raise ValueError(f"not all are times: {self.microseconds}")

    @property
    def choice(self) -> int:
        """The position of the fastest choice, the first of equals."""
        times = [math.inf if time is None else time for time in self.microseconds]
        return times.index(min(times))


class ChoiceCache:
    """The times of cases in a private directory; see :class:`PrivateCache` for errors."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Use a directory; it need not exist, and nothing is read or created now."""
        self._records: Final = PrivateCache(directory)

    @property
    def directory(self) -> str:
        """The absolute path of the directory."""
        return self._records.directory

    def load(self, key: str) -> ChoiceTimes | None:
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
            return ChoiceTimes(tuple(cast("list[float | None]", times)))
        except ValueError:
            return None

    def store(self, key: str, entry: ChoiceTimes) -> None:
        """Store the times of a key, in place of earlier ones."""
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


def kernel_facts(
    line: wir.MultiKernelLine, kernels: Sequence[wir.KernelDefinitionLine]
) -> list[tuple[str, Sequence[int]]]:
    """Return the digest of each choice's kernel, and the positions of its arguments."""
    return [
        (kernel_digest(kernel), choice.arguments)
        for choice, kernel in zip(line.choices, kernels, strict=True)
    ]


def case_facts(
    kernels: Sequence[tuple[str, Sequence[int]]],
    call: Call,
    symbols: Mapping[str, wir.Number],
    emitter: str,
) -> dict[str, ChoiceFact]:
    """Return all facts that decide the times of a call at values of its symbols.

    Raises:
        EvaluationError: a size or a scalar has no value.
    """
    arguments = [_fact(argument, symbols) for argument in call.arguments]
    return call_facts(kernels, arguments, torch_device(call.device), emitter)


def _fact(
    argument: wir.TensorType | wir.Expr, symbols: Mapping[str, wir.Number]
) -> ChoiceFact:
    if not isinstance(argument, wir.TensorType):
        return number_fact(wir.evaluate(argument, symbols))
    return tensor_fact(
        torch_dtype(argument.dtype),
        [wir.evaluate_int(extent, symbols) for extent in argument.size],
        [wir.evaluate_int(step, symbols) for step in argument.stride],
        wir.evaluate_int(argument.offset, symbols) * argument.dtype.itemsize,
    )


class CaseStore:
    """The times of measured cases, in this run and in a cache.

    A cache that fails is not used again, and ``problem`` then names it and says why.
    ``kept`` counts the cases whose times are in the cache.
    """

    def __init__(self, cache: ChoiceCache | None) -> None:
        """Start with the times in the cache; ``None`` stands for no cache."""
        self._cache = cache
        self._here: dict[str, Times] = {}
        self.problem = ""
        self.kept = 0

    def load(self, facts: Mapping[str, object], choices: int) -> Times | None:
        """Return the times of a case with that many choices, if they are known."""
        known = self._here.get(digest_of(facts))
        if known is not None:
            return known
        found = self._in_cache(facts, choices)
        self.kept += found is not None
        return found

    def knows(self, facts: Mapping[str, object], choices: int) -> bool:
        """Say whether :meth:`load` returns times; nothing is counted."""
        here = digest_of(facts) in self._here
        return here or self._in_cache(facts, choices) is not None

    def _in_cache(self, facts: Mapping[str, object], choices: int) -> Times | None:
        if self._cache is None:
            return None
        try:
            entry = self._cache.load(digest_of(facts))
        except OSError as error:
            self._give_up(self._cache, error)
            return None
        if entry is None or len(entry.microseconds) != choices:
            return None
        if None in entry.microseconds:  # a choice failed
            return None
        return Times(entry.microseconds, (None,) * choices)

    def store(self, facts: Mapping[str, object], times: Times) -> None:
        """Keep the times of a case.

        A case in which a choice failed is kept for this run only: the cause, such as a lack
        of memory or a missing compiler, may be gone in the next run.
        """
        key = digest_of(facts)
        self._here[key] = times
        if self._cache is None or None in times.microseconds:
            return
        try:
            self._cache.store(key, ChoiceTimes(times.microseconds))
        except OSError as error:
            self._give_up(self._cache, error)
        else:
            self.kept += 1

    def _give_up(self, cache: ChoiceCache, error: OSError) -> None:
        self._cache = None
        self.problem = str(error)
        if not isinstance(error, CacheRefusedError):  # its message names the directory
            self.problem = f"{cache.directory}: {error.strerror or error}"
