"""Run-time choice between the kernels of an emitted program's multi-kernels.

Decisions are logged at INFO by the logger ``wrapperir.choices`` and returned by
:func:`choices`.  Each emitted program has its own copy of this module.
"""

import functools
import importlib.util
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch.utils._python_dispatch import (
    _disable_current_modes,  # pyright: ignore[reportPrivateUsage]
)

logger = logging.getLogger("wrapperir.choices")

MOST_SHAPES = 4096
"""The maximum number of shapes whose choice is kept, and of decisions remembered."""

CACHE = "choices", "WRAPPERIR_CHOICE_CACHE"
"""The kind of the user's cache of times, and the variable that turns it off or moves it."""

Kernel: TypeAlias = Callable[..., object]
"""Takes the arguments of the multi-kernel and runs on them."""


class Choice(NamedTuple):
    """A kernel of a multi-kernel.

    ``digest`` identifies its definition; ``positions`` are the positions of the
    multi-kernel's arguments that it takes.
    """

    name: str
    run: Kernel
    digest: str = ""
    positions: tuple[int, ...] = ()


class Decision(NamedTuple):
    """A decision: the multi-kernel, its kernel, the sizes if they decide, and the reason.

    ``microseconds`` has the time of each choice, ``None`` for a choice that failed.
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
    """Return the decisions of this program so far, in order."""
    return tuple(_decisions)


def _decided(decision: Decision) -> None:
    _decisions.append(decision)
    logger.info("%s", decision)


class ByShape(dict[tuple[float, ...], Kernel]):
    """The kernel for each tuple of sizes: found by ``rule`` once, then looked up.

    Each position of the tuple has numbers of one type.  Tuples with a float are not kept,
    since they seldom repeat and 0.0 equals -0.0: the rule decides each time, and a decision
    is logged when it differs from the last.
    """

    def __init__(
        self,
        name: str,
        choices: Mapping[int, Choice],
        rule: Callable[..., int],
        reason: str,
    ) -> None:
        """Take the choices by number, and the rule that returns the number for sizes."""
        super().__init__()
        self._name = name
        self._choices = choices
        self._rule = rule
        self._reason = reason
        self._last: Choice | None = None

    def __missing__(self, sizes: tuple[float, ...]) -> Kernel:
        """Find the kernel for new sizes."""
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
    """Return the rule that takes the choice of the nearest hint, the first of equals.

    The distance is the sum of ``|log2(size) - log2(hint)|``, where a size of 0 counts as
    a half.  Its power of two is compared, a product in binary64 from the left.
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
    """A multi-kernel whose first call times the choices and decides for the fastest.

    ``namespace[bound]`` is that kernel from then on, so that later calls run it directly.
    While a CUDA graph is captured, for tensors of a subclass, and where a tensor has no
    elements, the first choice runs and nothing is decided.
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
        _beside("kernel_times")  # imported now, not in the first call
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
        with self._lock:  # other threads that call at once wait
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
        if not isinstance(times, list):
            return None
        taken = cast("list[object]", times)
        known = [time for time in taken if isinstance(time, float) and 0 <= time < math.inf]
        return known if len(known) == len(taken) == len(self._choices) else None

    def _store(self, key: str, times: Sequence[float | None]) -> None:
        taken = [float(time) for time in times if time is not None]
        if len(taken) < len(times):
            return  # the choice may work the next time
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
    """Return whether a call is captured, or traced with tensors that have no memory."""
    if torch.compiler.is_compiling():
        return True
    tensors = [given for given in arguments if isinstance(given, torch.Tensor)]
    if not all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors):
        return True
    on_cuda = any(tensor.is_cuda for tensor in tensors)
    return on_cuda and torch.cuda.is_current_stream_capturing()


def _is_empty(arguments: Iterable[Any]) -> bool:
    """Return whether a tensor has no elements; the time of such a call means nothing."""
    tensors = (given for given in arguments if isinstance(given, torch.Tensor))
    return any(tensor.numel() == 0 for tensor in tensors)


def _device_of(arguments: Iterable[Any]) -> torch.device:
    """Return the first device other than the CPU; the CPU where there is none."""
    for given in arguments:
        if isinstance(given, torch.Tensor) and given.device.type != "cpu":
            return given.device
    return torch.device("cpu")


def time_choices(
    choices: Sequence[Choice], arguments: Sequence[Any], updated: Sequence[int]
) -> Sequence[float | None]:
    """Return the microseconds of each choice, ``None`` for a choice that fails.

    Tests may replace this function so that a certain choice wins.
    """
    runs = [(choice.name, choice.run) for choice in choices]
    timed: Sequence[float | None] = _beside("kernel_times").time_kernels(
        runs, arguments, updated, _device_of(arguments)
    )
    return timed


@functools.cache
def _beside(name: str) -> Any:
    """Import a file that lies beside this one."""
    path = Path(__file__).with_name(f"{name}.py")
    if not path.exists():  # not beside an emitted program
        package = "caching" if name == "private_cache" else "tuning"
        return importlib.import_module(f"wrapperir.{package}.{name}")
    spec = importlib.util.spec_from_file_location(f"{__name__}.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
