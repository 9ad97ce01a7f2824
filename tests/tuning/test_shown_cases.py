"""The cases that a report shows: those that decide, by what tells them apart."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir import Expr, ExprOp, Operation, Symbol
from wrapperir.tuning.report import (
    MOST_CASES,
    CaseReport,
    KernelReport,
    TuningReport,
    shown_cases,
)
from wrapperir.tuning.text import format_tuning


def case(times: tuple[float | None, ...] = (1.0, 2.0), **values: int) -> CaseReport:
    return CaseReport(
        call=0,
        symbols=(),
        values=tuple(values.items()),
        microseconds=times,
        cached=False,
    )


def kernel(chosen: Expr | None, cases: Sequence[CaseReport]) -> KernelReport:
    return KernelReport(
        kernel="k", choices=("a", "b"), chosen=chosen, device="cpu", cases=tuple(cases)
    )


def first_up_to(name: str, most: int) -> Expr:
    condition = Operation(ExprOp.LE, (Symbol(name), most))
    return Operation(ExprOp.WHERE, (condition, 0, 1))


def shown(found: KernelReport, name: str) -> list[int]:
    return [dict(case.values)[name] for case in shown_cases(found).cases]


def test_both_sides_of_where_the_choice_changes_are_shown() -> None:
    sizes = [case(n=n) for n in range(1, 257)]
    numbers = shown(kernel(first_up_to("n", 100), sizes[::-1]), "n")
    assert {1, 100, 101, 256} <= set(numbers)
    assert numbers == sorted(numbers)
    assert len(numbers) == MOST_CASES


def test_cases_are_in_the_order_of_what_decides_and_equal_columns_are_one() -> None:
    cases = [case(rows=256 - n, size0=n, n=n, fixed=3) for n in range(1, 257)]
    found = kernel(first_up_to("n", 50), cases)
    columns = shown_cases(found).columns
    assert [cases[0].values[at][0] for at in columns] == ["n", "rows"]
    assert {50, 51} <= set(shown(found, "n"))
    report = TuningReport(program="p", emitter="python", kernels=(found,), seconds=0.0)
    lines = format_tuning(report).splitlines()
    (heading,) = [line for line in lines if line.endswith("@a us   @b us")]
    assert heading.split() == ["n", "rows", "@a", "us", "@b", "us"]
    (row,) = [line for line in lines if line.split()[:2] == ["50", "206"]]
    assert row.split()[2:] == ["1.000*", "2.000"]


def test_cases_without_times_are_not_shown() -> None:
    cases = [case(n=1), case((None, None), n=2), case(n=3)]
    assert shown(kernel(0, cases), "n") == [1, 3]
    assert shown_cases(kernel(0, cases[:1])).columns == ()
    assert shown_cases(kernel(None, cases[1:2])).cases == ()


@given(
    sizes=st.lists(st.tuples(st.integers(1, 99), st.integers(1, 9)), min_size=1),
    threshold=st.integers(0, 100),
)
def test_as_many_as_fit_are_shown_in_order(
    sizes: list[tuple[int, int]], threshold: int
) -> None:
    cases = [case(m=m, n=n) for m, n in sizes]
    found = kernel(first_up_to("n", threshold), cases)
    cases_shown = shown_cases(found).cases
    assert len(cases_shown) == min(MOST_CASES, len(cases))
    by = [(dict(c.values)["n"], dict(c.values)["m"]) for c in cases_shown]
    if len({n for _, n in sizes}) > 1:
        numbers = [n for n, _ in by]
        assert numbers == sorted(numbers)
    choices = {found.chosen_at(c) for c in cases}
    assert {found.chosen_at(c) for c in cases_shown} == choices
