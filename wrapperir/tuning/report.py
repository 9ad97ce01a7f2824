"""The results of tuning as data."""

from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir import Expr, Number, evaluate_int


@frozen(kw_only=True)
class CaseReport:
    """The times of a call at values of its symbols.

    ``call`` is the index of the call among the kernel's different calls; ``values`` has the
    numbers that its policy may use, by name.  ``microseconds`` has one time a choice,
    ``None`` for a choice that failed.  ``cached`` says that the times were in the cache.
    """

    call: int
    symbols: tuple[tuple[str, Number], ...]
    values: tuple[tuple[str, int], ...]
    microseconds: tuple[float | None, ...]
    cached: bool

    @property
    def best(self) -> int | None:
        """The fastest choice, the first of equals; ``None`` where no choice has a time."""
        times = self.microseconds
        timed = [at for at, time in enumerate(times) if time is not None]
        return min(timed, key=lambda at: times[at] or 0.0, default=None)


@frozen(kw_only=True)
class FailureReport:
    """A reason for which a choice has no time in some case."""

    choice: str
    reason: str


@frozen(kw_only=True)
class KernelReport:
    """The result of tuning a multi-kernel, or a kernel with several configs.

    ``chosen`` is the position of a choice, or a decision tree over sizes and scalars of a
    call.  It is ``None`` where the kernel was left unchanged, and ``reason`` says why.
    """

    kernel: str
    choices: tuple[str, ...]
    chosen: Expr | None
    device: str
    reason: str = ""
    cases: tuple[CaseReport, ...] = ()
    failures: tuple[FailureReport, ...] = ()
    seconds: float = 0.0

    def chosen_at(self, case: CaseReport) -> int | None:
        """Return the choice that runs at a case; ``None`` where nothing was chosen."""
        if self.chosen is None:
            return None
        return evaluate_int(self.chosen, dict(case.values))


@frozen(kw_only=True)
class TuningReport:
    """The result of tuning a program, kernel by kernel in the program's order.

    ``seconds`` is the whole time, including compilation.  ``cache_problem`` says why the
    cache could not be used; it is empty where it could.
    """

    program: str
    emitter: str
    kernels: tuple[KernelReport, ...]
    seconds: float
    cache_problem: str = ""

    @property
    def cases(self) -> int:
        """The number of cases."""
        return sum(len(kernel.cases) for kernel in self.kernels)

    @property
    def cached(self) -> int:
        """The number of cases whose times were in the cache."""
        return sum(case.cached for kernel in self.kernels for case in kernel.cases)


def totals(cases: Sequence[CaseReport]) -> tuple[float | None, ...]:
    """Return the microseconds of each choice over all cases; ``None`` where one is missing.

    Cases without any time are ignored.
    """
    timed = [case.microseconds for case in cases if case.best is not None]
    columns = zip(*timed, strict=True) if timed else ()
    sums: list[float | None] = []
    for column in columns:
        known = [time for time in column if time is not None]
        sums.append(round(sum(known), 3) if len(known) == len(column) else None)
    return tuple(sums)
