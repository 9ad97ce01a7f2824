"""Checks of programs that Hypothesis draws within an emitter's support."""

import time
from collections.abc import Callable, Iterator, Sequence

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from wrapperir.emit import Support
from wrapperir.ir import Program
from wrapperir.testing.conformance_case import Case
from wrapperir.testing.programs import programs, undrawable
from wrapperir.testing.suite.features import DRAWN
from wrapperir.testing.suite.results import CheckResult, Status

_SUPPRESSED = (
    *(HealthCheck.too_slow, HealthCheck.data_too_large),
    *(HealthCheck.filter_too_much, HealthCheck.large_base_example),
)


class _FoundError(Exception):
    """A drawn program failed."""


def check_drawn(
    support: Support,
    check: Callable[[Case], Sequence[CheckResult]],
    examples: int,
    seed: int,
    shrinking: float,
) -> Iterator[CheckResult]:
    """Yield the results of drawn programs: all that pass, or the smallest that fails.

    ``shrinking`` are the seconds to look for a smaller one.
    """
    reason = undrawable(support)
    if reason is not None:
        yield CheckResult(DRAWN, "drawn", Status.SKIPPED, reason)
        return
    passed: list[CheckResult] = []
    failed: list[CheckResult] = []
    end = float("inf")

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=_SUPPRESSED,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    @with_seed(seed)
    @given(programs(support=support), st.integers(0, 2**16))
    def run(program: Program, number: int) -> None:
        nonlocal end
        case = Case("drawn", program, seeds=(number,))
        # Hypothesis looks for smaller ones until all that it tries pass.
        if time.monotonic() > end:
            results = [r for r in failed if (r.program, r.seed) == _key(case)]
        else:
            results = list(check(case))
        found = [result for result in results if result.status is Status.FAILED]
        if found:
            if not failed:
                end = time.monotonic() + shrinking
            failed.append(found[0])
            raise _FoundError
        if not failed:
            passed.extend(results)

    try:
        run()
    except _FoundError:
        yield from passed
        yield failed[-1]
    except HypothesisException as error:
        yield from passed
        if failed:  # not each time, so that there is no smaller one
            yield failed[-1]
            return
        yield CheckResult(DRAWN, "drawn", Status.SKIPPED, f"none could be drawn: {error}")
    else:
        yield from passed


def _key(case: Case) -> tuple[str, int]:
    from wrapperir.text import format_program

    return format_program(case.program), case.seeds[0]
