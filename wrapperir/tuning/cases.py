"""Cases: the facts that decide the times of a call, and the times that are known."""

from collections.abc import Mapping, Sequence

from wrapperir.caching import CacheRefusedError, digest_of
from wrapperir.emit.runnable_kernels import kernel_digest
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.ir import (
    Expr,
    KernelDefinitionLine,
    MultiKernelLine,
    Number,
    TensorType,
    evaluate,
    evaluate_int,
)
from wrapperir.tuning.calls import Call
from wrapperir.tuning.choice_cache import ChoiceCache, Entry
from wrapperir.tuning.choice_facts import Fact, call_facts, number_fact, tensor_fact
from wrapperir.tuning.measure import Times


def kernel_facts(
    line: MultiKernelLine, kernels: Sequence[KernelDefinitionLine]
) -> list[tuple[str, Sequence[int]]]:
    """Return the digest of each choice's kernel, and the positions of its arguments."""
    return [
        (kernel_digest(kernel), choice.arguments)
        for choice, kernel in zip(line.choices, kernels, strict=True)
    ]


def case_facts(
    kernels: Sequence[tuple[str, Sequence[int]]],
    call: Call,
    symbols: Mapping[str, Number],
    emitter: str,
) -> dict[str, Fact]:
    """Return all facts that decide the times of a call at values of its symbols.

    Raises:
        EvaluationError: a size or a scalar has no value.
    """
    arguments = [_fact(argument, symbols) for argument in call.arguments]
    return call_facts(kernels, arguments, torch_device(call.device), emitter)


def _fact(argument: TensorType | Expr, symbols: Mapping[str, Number]) -> Fact:
    if not isinstance(argument, TensorType):
        return number_fact(evaluate(argument, symbols))
    return tensor_fact(
        torch_dtype(argument.dtype),
        [evaluate_int(extent, symbols) for extent in argument.size],
        [evaluate_int(step, symbols) for step in argument.stride],
        evaluate_int(argument.offset, symbols) * argument.dtype.itemsize,
    )


class CaseStore:
    """The times of measured cases, in this run and in a cache.

    A cache that fails is not used again, and ``problem`` then names it and says why.
    ``kept`` counts the cases whose times are in the cache.
    """

    def __init__(self, cache: ChoiceCache | None) -> None:
        """Start with the entries of the cache; ``None`` is no cache."""
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
        if None in entry.microseconds:  # a choice failed
            return None
        self.kept += 1
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
            self._cache.store(key, Entry(times.microseconds))
        except OSError as error:
            self._give_up(self._cache, error)
        else:
            self.kept += 1

    def _give_up(self, cache: ChoiceCache, error: OSError) -> None:
        self._cache = None
        self.problem = str(error)
        if not isinstance(error, CacheRefusedError):  # its message names the directory
            self.problem = f"{cache.directory}: {error.strerror or error}"
