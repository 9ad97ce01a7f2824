"""The record of tuning: it reads back as it was, and what is malformed is refused."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Expr, ExprOp, Operation, Symbol
from wrapperir.tuning.record import format_record, parse_record
from wrapperir.tuning.report import (
    CaseReport,
    FailureReport,
    KernelReport,
    TuningReport,
    chosen_score,
    score,
    single_scores,
    totals,
)

names = st.text(max_size=12)
seconds = st.floats(0, 1e6)
numbers = st.integers() | st.floats(-1e9, 1e9)
times = st.one_of(st.none(), st.floats(0, 1e9), st.just(0.0))


@st.composite
def trees(draw: st.DrawFn, choices: int, features: list[str]) -> Expr:
    if not features or draw(st.booleans()):
        return draw(st.integers(0, choices - 1))
    threshold = draw(st.integers(0, 1 << 40))
    name = draw(st.sampled_from(features))
    condition = Operation(ExprOp.LE, (Symbol(name), threshold))
    branches = [draw(trees(choices, features)) for _ in range(2)]
    return Operation(ExprOp.WHERE, (condition, *branches))


@st.composite
def kernels(draw: st.DrawFn) -> KernelReport:
    choices = draw(st.lists(names, min_size=1, max_size=4))
    features = draw(st.lists(st.sampled_from(["M", "N", "rows"]), unique=True, max_size=3))
    case = st.builds(
        CaseReport,
        call=st.integers(0, 20),
        symbols=st.dictionaries(
            names, st.integers() | st.floats(-1e9, 1e9), max_size=2
        ).map(lambda found: tuple(found.items())),
        values=st.tuples(*(st.tuples(st.just(f), st.integers()) for f in features)),
        microseconds=st.tuples(*(times for _ in choices)),
        cached=st.booleans(),
    )
    return KernelReport(
        kernel=draw(names),
        choices=tuple(choices),
        chosen=draw(st.none() | trees(len(choices), features)),
        device=draw(names),
        reason=draw(names),
        cases=tuple(draw(st.lists(case, max_size=3))),
        failures=tuple(
            draw(st.lists(st.builds(FailureReport, choice=names, reason=names), max_size=2))
        ),
        seconds=draw(seconds),
    )


reports = st.builds(
    TuningReport,
    program=names,
    emitter=names,
    kernels=st.lists(kernels(), max_size=3).map(tuple),
    seconds=seconds,
    cache_problem=names,
)


@settings(max_examples=50)
@given(reports)
def test_a_record_reads_back_as_it_was_written(report: TuningReport) -> None:
    text = format_record(report)
    assert parse_record(text) == report
    assert parse_record(text.encode()) == report
    assert format_record(parse_record(text)) == text


CASE = CaseReport(
    call=0,
    symbols=(("s0", 4),),
    values=(("M", 4), ("N", 8)),
    microseconds=(1.5, None),
    cached=False,
)
REPORT = TuningReport(
    program="main",
    emitter="python",
    kernels=(
        KernelReport(
            kernel="mm",
            choices=("small", "large"),
            chosen=Operation(ExprOp.WHERE, (Operation(ExprOp.LE, (Symbol("M"), 16)), 0, 1)),
            device="a CPU",
            cases=(CASE,),
            failures=(FailureReport(choice="large", reason="it broke"),),
            seconds=0.5,
        ),
    ),
    seconds=1.0,
)


def damaged(change: Callable[[dict[str, Any]], object]) -> str:
    data = copy.deepcopy(json.loads(format_record(REPORT)))
    change(data)
    return json.dumps(data)


def kernel(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["kernels"][0]
    return found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", r"\[\] is not an object"),
        ("{}", "it lacks 'wrapperir_tuning'"),
        ('{"facts": {}, "kernels": {}}', "it lacks 'wrapperir_tuning'"),
        (damaged(lambda d: d.update(wrapperir_tuning=2)), "its version is 2, not 1"),
        (damaged(lambda d: d.update(wrapperir_tuning=True)), "True is not a whole number"),
        (damaged(lambda d: d.pop("program")), "it lacks 'program'"),
        (damaged(lambda d: d.update(more=1)), "a field 'more' that is unknown"),
        (damaged(lambda d: d.update(program=1)), "at program: 1 is not a string"),
        (damaged(lambda d: d.update(seconds=-1)), "at seconds: -1 is not a length"),
        (damaged(lambda d: d.update(seconds=True)), "True is not a length of time"),
        (damaged(lambda d: d.update(kernels={})), "at kernels: {} is not an array"),
        (damaged(lambda d: kernel(d).pop("cases")), "at kernels/0: it lacks 'cases'"),
        (damaged(lambda d: kernel(d).update(chosen="2")), "not one of the 2 choices"),
        (damaged(lambda d: kernel(d).update(chosen="-1")), "not one of the 2 choices"),
        (damaged(lambda d: kernel(d).update(chosen=1)), "kernels/0/chosen: 1 is not a str"),
        (damaged(lambda d: kernel(d).update(chosen="M +")), "at kernels/0/chosen"),
        (damaged(lambda d: kernel(d).update(chosen="M")), "not one of the 2 choices"),
        (
            damaged(lambda d: kernel(d).update(chosen="where(K <= 4, 0, 1)")),
            "it uses K, which a case lacks",
        ),
        (
            damaged(lambda d: kernel(d)["cases"][0].update(microseconds=[1.0])),
            "kernels/0/cases/0/microseconds: it has 1 times of 2 choices",
        ),
        (
            damaged(lambda d: kernel(d)["cases"][0].update(microseconds=[1.0, "x"])),
            "microseconds/1: 'x' is not a number",
        ),
        (
            damaged(lambda d: kernel(d)["cases"][0].update(values={"M": 1.5, "N": 1})),
            "values/M: 1.5 is not a whole number",
        ),
        (
            damaged(lambda d: kernel(d)["cases"][0].update(cached=0)),
            "cached: 0 is not true or false",
        ),
        (
            format_record(REPORT).replace("1.5", "NaN"),
            "microseconds/0: nan is not a number",
        ),
    ],
)
def test_what_is_malformed_is_refused(text: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as raised:
        parse_record(text)
    assert [d.code for d in raised.value.diagnostics] == [Code.INVALID_TUNING]


def case(*microseconds: float | None) -> CaseReport:
    return CaseReport(
        call=0, symbols=(), values=(), microseconds=microseconds, cached=False
    )


def test_scores_are_geometric_means_of_ratios_to_the_best() -> None:
    cases = (case(1.0, 4.0), case(8.0, 2.0), case(None, None))
    found = score(cases, [0, 0, None])
    assert found is not None
    assert found.mean == pytest.approx(2.0)
    assert found.worst == pytest.approx(4.0)
    assert score((case(1.0, None),), [1]) is None
    assert score((), []) is None


def test_scores_of_what_was_chosen_and_of_each_choice_alone() -> None:
    tree = Operation(ExprOp.WHERE, (Operation(ExprOp.LE, (Symbol("n"), 4)), 0, 1))
    cases = tuple(
        CaseReport(call=0, symbols=(), values=(("n", n),), microseconds=times, cached=False)
        for n, times in ((2, (1.0, 2.0)), (8, (8.0, 1.0)))
    )
    found = KernelReport(
        kernel="k", choices=("a", "b"), chosen=tree, device="", cases=cases
    )
    assert chosen_score(found) == score(cases, [0, 1])
    first, second = single_scores(found)
    assert first is not None
    assert second is not None
    assert (first.worst, second.worst) == (8.0, 2.0)


def test_totals_leave_out_what_failed() -> None:
    assert totals([case(1.0, 2.0), case(3.0, None), case(None, None)]) == (4.0, None)
    assert totals([]) == ()
