"""Picks between the kernels of an emitted program's multi-kernels while it runs.

What is picked is logged at INFO by the logger ``wrapperir.choices``, and is what
:func:`choices` returns; each program has a copy of this module of its own.
"""

import functools
import importlib.util
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.utils._python_dispatch import (
    _disable_current_modes,  # pyright: ignore[reportPrivateUsage]
)

logger = logging.getLogger("wrapperir.choices")

MOST_SHAPES = 4096
"""How many shapes have their choice kept, and how many decisions are remembered."""

CACHE = "choices", "WRAPPERIR_CHOICE_CACHE"
"""The kind of the user's cache that keeps times, and what turns it off or moves it."""

Kernel: TypeAlias = Callable[..., object]
"""Takes the arguments of the multi-kernel and runs on them."""


class Choice(NamedTuple):
    """A kernel of a multi-kernel.

    ``digest`` tells its definition from others; ``positions`` are those of the
    multi-kernel's arguments that it takes.
    """

    name: str
    run: Kernel
    digest: str = ""
    positions: tuple[int, ...] = ()


class Decision(NamedTuple):
    """What was picked: by a multi-kernel, for sizes if it goes by them, and why.

    ``microseconds`` are those of each choice, ``None`` of one that failed.
    """

    multi_kernel: str
    kernel: str
    reason: str
    sizes: tuple[float, ...] | None = None
    microseconds: tuple[tuple[str, float | None], ...] = ()

    def __str__(self) -> str:
        """Return ``mm runs mm_split: the fastest (mm_small 4.8 us, mm_split 2.1 us)``."""
        at = "" if self.sizes is None else f" at {self.sizes}"
        timed = [time for _, time in self.microseconds if time is not None]
        told = [
            f"{name} {_format_time(time, min(timed, default=0.0))}"
            for name, time in self.microseconds
        ]
        times = f" ({'; '.join(told)})" if timed else ""
        return f"{self.multi_kernel} runs {self.kernel}{at}: {self.reason}{times}"


def _format_time(microseconds: float | None, least: float) -> str:
    if microseconds is None:
        return "failed"
    times = (
        f", {microseconds / least:.2f} times as long" if microseconds > least > 0 else ""
    )
    return f"{microseconds:.4g} us{times}"


_decisions: deque[Decision] = deque(maxlen=MOST_SHAPES)


def choices() -> tuple[Decision, ...]:
    """Return what this program has picked so far, in that order."""
    return tuple(_decisions)


def _decided(decision: Decision) -> None:
    _decisions.append(decision)
    logger.info("%s", decision)


class ByShape(dict[tuple[float, ...], Kernel]):
    """The kernel for each tuple of sizes: found by ``rule`` once, then looked up.

    Each place of the tuple has numbers of one type.  Tuples with a float are not kept, as
    they seldom come again and 0.0 is equal to -0.0: the rule decides each time, and what
    it decides is told where it is not what it was.
    """

    def __init__(
        self,
        name: str,
        choices: Mapping[int, Choice],
        rule: Callable[..., int],
        reason: str,
    ) -> None:
        """Take the choices by their numbers, and what gives the number for sizes."""
        super().__init__()
        self._name = name
        self._choices = choices
        self._rule = rule
        self._reason = reason
        self._last: Choice | None = None

    def __missing__(self, sizes: tuple[float, ...]) -> Kernel:
        """Find the kernel for sizes that are new."""
        choice = self._choices[self._rule(*sizes)]
        if any(isinstance(size, float) for size in sizes):
            if choice is not self._last:
                self._last = choice
                _decided(Decision(self._name, choice.name, self._reason, sizes))
            return choice.run
        if len(self) >= MOST_SHAPES:
            self.clear()
        self[sizes] = choice.run
        _decided(Decision(self._name, choice.name, self._reason, sizes))
        return choice.run


def nearest(hints: Sequence[tuple[int, Sequence[int]]]) -> Callable[..., int]:
    """Return the rule that takes the choice of the nearest hint, of several the first.

    The distance is the sum of ``|log2(size) - log2(hint)|``, where a size of 0 counts as
    a half.  It is compared by its power of two, a product in binary64 from the left.
    """

    def rule(*sizes: int) -> int:
        best, least = hints[0][0], float("inf")
        for choice, hint in hints:
            ratio = 1.0
            for size, hinted in zip(sizes, hint, strict=True):
                low, high = sorted((float(size) or 0.5, float(hinted) or 0.5))
                ratio *= high / low
            if ratio < least:
                best, least = choice, ratio
        return best

    return rule


class Benchmarked:
    """A multi-kernel that is timed by its first call, and is then its fastest kernel.

    ``namespace[bound]`` is that kernel from then on, so that later calls go straight to
    it.  While a CUDA graph is captured or another tensor's type than PyTorch's own stands
    in, or where a tensor has no elements, the first choice runs and nothing is decided.
    """

    def __init__(
        self,
        name: str,
        choices: Sequence[Choice],
        *,
        updated: Sequence[int],
        emitter: str,
        namespace: dict[str, Any],
        bound: str,
    ) -> None:
        """Take the choices; ``updated`` are the arguments that they read and write."""
        self._name = name
        self._choices = choices
        self._updated = updated
        self._emitter = emitter
        self._namespace = namespace
        self._bound = bound
        self._caching, self._facts = _beside("private_cache"), _beside("choice_facts")
        _beside("kernel_times")  # so that nothing is read from files later
        self._lock = threading.Lock()
        self._winner: Choice | None = None

    def __call__(self, *arguments: Any) -> None:
        """Run the fastest kernel; find it first, unless that was done.

        Raises:
            Exception: as that kernel does; as the first does if no kernel could be timed.
        """
        if self._winner is None and (_is_traced(arguments) or _is_empty(arguments)):
            self._choices[0].run(*arguments)
            return
        with self._lock:  # of threads that come at once, the others wait
            if self._winner is None:
                with torch.no_grad(), _disable_current_modes():
                    self._winner = self._decide(arguments)
        self._namespace[self._bound] = self._winner.run
        self._winner.run(*arguments)

    def _decide(self, arguments: Sequence[Any]) -> Choice:
        key = self._key(arguments)
        times, reason = self._load(key), "the fastest when it was timed before"
        if times is None:
            times, reason = (
                time_choices(self._choices, arguments, self._updated),
                "the fastest",
            )
            self._store(key, times)
        named = tuple(
            (choice.name, time) for choice, time in zip(self._choices, times, strict=True)
        )
        timed = [at for at, time in enumerate(times) if time is not None]
        winner = self._choices[min(timed, key=lambda at: times[at] or 0.0, default=0)]
        if not timed:
            reason = "the first, as none could be timed"
        _decided(Decision(self._name, winner.name, reason, None, named))
        return winner

    def _key(self, arguments: Sequence[Any]) -> str:
        facts = self._facts.call_facts(
            [(choice.digest, choice.positions) for choice in self._choices],
            [
                self._facts.tensor_fact(
                    given.dtype, given.size(), given.stride(), given.data_ptr()
                )
                if isinstance(given, torch.Tensor)
                else self._facts.number_fact(given)
                for given in arguments
            ],
            _device_of(arguments),
            self._emitter,
        )
        return str(self._caching.digest_of(facts))

    def _load(self, key: str) -> Sequence[float | None] | None:
        """Return the times that the user's cache has, if there is one and it has any."""
        try:
            cache = self._caching.user_cache(*CACHE)
            record = None if cache is None else cache.load(key)
        except OSError as error:
            _warn(error)
            return None
        times = None if record is None else record.get("microseconds")
        if not isinstance(times, list) or len(times) != len(self._choices):
            return None
        known = [time for time in times if isinstance(time, float) and 0 <= time < math.inf]
        return known if len(known) == len(times) else None

    def _store(self, key: str, times: Sequence[float | None]) -> None:
        taken = [float(time) for time in times if time is not None]
        if len(taken) < len(times):
            return  # what failed may work the next time
        try:
            cache = self._caching.user_cache(*CACHE)
            if cache is not None:
                cache.store(key, {"microseconds": taken})
        except OSError as error:
            _warn(error)


_warned: set[str] = set()


def _warn(error: OSError) -> None:
    if not _warned:
        _warned.add(str(error))
        logger.warning("choices are not kept for later: %s", error)


def _is_traced(arguments: Iterable[Any]) -> bool:
    """Say whether a call is recorded, or traced by tensors that have no memory."""
    if torch.compiler.is_compiling():
        return True
    tensors = [given for given in arguments if isinstance(given, torch.Tensor)]
    if not all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors):
        return True
    on_cuda = any(tensor.is_cuda for tensor in tensors)
    return on_cuda and torch.cuda.is_current_stream_capturing()


def _is_empty(arguments: Iterable[Any]) -> bool:
    """Say whether a tensor has no elements: how long that takes tells nothing of others."""
    tensors = (given for given in arguments if isinstance(given, torch.Tensor))
    return any(tensor.numel() == 0 for tensor in tensors)


def _device_of(arguments: Iterable[Any]) -> torch.device:
    """Return the first device that is no CPU; the CPU where there is none."""
    for given in arguments:
        if isinstance(given, torch.Tensor) and given.device.type != "cpu":
            return given.device
    return torch.device("cpu")


def time_choices(
    choices: Sequence[Choice], arguments: Sequence[Any], updated: Sequence[int]
) -> Sequence[float | None]:
    """Return the microseconds of each choice, ``None`` of one that fails.

    Tests may put another function here, to have a certain choice win.
    """
    runs = [(choice.name, choice.run) for choice in choices]
    timed: Sequence[float | None] = _beside("kernel_times").time_kernels(
        runs, arguments, updated, _device_of(arguments)
    )
    return timed


@functools.cache
def _beside(name: str) -> Any:
    """Import a file that stands beside this one."""
    path = Path(__file__).with_name(f"{name}.py")
    if not path.exists():  # not beside an emitted program: the original, in its package
        package = "caching" if name == "private_cache" else "tuning"
        return importlib.import_module(f"wrapperir.{package}.{name}")
    spec = importlib.util.spec_from_file_location(f"{__name__}.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
