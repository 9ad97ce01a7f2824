"""What tuning found, as data."""

from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir.expr import Expr, Number, evaluate_int


@frozen(kw_only=True)
class CaseReport:
    """The times of a call at values of its symbols.

    ``call`` counts the different calls of the kernel; ``values`` are what its policy may
    go by, by name.  ``microseconds`` are one a choice, ``None`` of one that failed.
    ``cached`` says that they were known already.
    """

    call: int
    symbols: tuple[tuple[str, Number], ...]
    values: tuple[tuple[str, int], ...]
    microseconds: tuple[float | None, ...]
    cached: bool

    @property
    def best(self) -> int | None:
        """The fastest choice, of several the first; ``None`` where none has a time."""
        times = self.microseconds
        timed = [at for at, time in enumerate(times) if time is not None]
        return min(timed, key=lambda at: times[at] or 0.0, default=None)


@frozen(kw_only=True)
class FailureReport:
    """Why a choice has no time, at least once."""

    choice: str
    reason: str


@frozen(kw_only=True)
class KernelReport:
    """What tuning made of a multi-kernel, or of a kernel with several configs.

    ``chosen`` is the position of a choice, or a decision tree over sizes and scalars of a
    call; ``None`` where it was left as it was, and ``reason`` says why.
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
    """What tuning made of a program: a kernel each, in the program's order.

    ``seconds`` is all of it, compiling included.  ``cache_problem`` says why the cache
    could not be used, where it could not.
    """

    program: str
    emitter: str
    kernels: tuple[KernelReport, ...]
    seconds: float
    cache_problem: str = ""

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return sum(len(kernel.cases) for kernel in self.kernels)

    @property
    def cached(self) -> int:
        """How many of them were known already."""
        return sum(case.cached for kernel in self.kernels for case in kernel.cases)


def totals(cases: Sequence[CaseReport]) -> tuple[float | None, ...]:
    """Return the microseconds of each choice over all cases; ``None`` where one is missing.

    Cases without any time count for none.
    """
    timed = [case.microseconds for case in cases if case.best is not None]
    columns = zip(*timed, strict=True) if timed else ()
    sums: list[float | None] = []
    for column in columns:
        known = [time for time in column if time is not None]
        sums.append(round(sum(known), 3) if len(known) == len(column) else None)
    return tuple(sums)
