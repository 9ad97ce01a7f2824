"""Passes declare typed parameters by their signatures."""

import functools
from collections.abc import Callable
from enum import StrEnum

import pytest

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Program
from wrapperir.passes import (
    PassFunction,
    PassParameter,
    bind_arguments,
    format_parameter,
    parameters_of,
    parse_pipeline,
)


class Order(StrEnum):
    SIZE = "size"
    AGE = "age"


def sort(
    program: Program,
    most: int,
    *,
    share: float = 0.5,
    deep: bool = False,
    by: Order = Order.SIZE,
    label: "str" = "sorted",
) -> Program:
    return program


class Sorter:
    def __call__(self, program: Program, *, most: int = 3) -> Program:
        return program


def bound(text: str) -> dict[str, object]:
    (call,) = parse_pipeline(text)
    return dict(bind_arguments(call, parameters_of(sort)))


def test_parameters_come_from_the_signature() -> None:
    assert parameters_of(sort) == (
        PassParameter("most", int, None),
        PassParameter("share", float, 0.5),
        PassParameter("deep", bool, False),
        PassParameter("by", Order, Order.SIZE),
        PassParameter("label", str, "sorted"),
    )
    assert [format_parameter(each) for each in parameters_of(sort)] == [
        "most: int",
        "share = 0.5",
        "deep = false",
        'by = "size"',
        'label = "sorted"',
    ]
    assert parameters_of(Sorter()) == (PassParameter("most", int, 3),)
    limited = functools.partial(sort, most=2)
    assert parameters_of(limited)[0] == PassParameter("most", int, 2)


def test_arguments_have_the_declared_types() -> None:
    found = bound('sort(most = 3, share = 1, by = "age")')
    assert found == {"most": 3, "share": 1.0, "by": Order.AGE}
    assert type(found["share"]) is float
    assert found["by"] is Order.AGE


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("sort", "`sort` needs the argument `most`", "it is an integer"),
        ("sort(most = 1.0)", "`most` of `sort` is an integer, not 1.0", None),
        ("sort(most = true)", "`most` of `sort` is an integer, not true", None),
        (
            'sort(most = 1, share = "a")',
            '`share` of `sort` is a number, not "a"',
            None,
        ),
        ("sort(most = 1, deep = 1)", "`deep` of `sort` is `true` or `false`, not 1", None),
        (
            'sort(most = 1, by = "name")',
            '`by` of `sort` is "size" or "age", not "name"',
            None,
        ),
        (
            "sort(most = 1, lable = 2)",
            "`sort` has no argument `lable`",
            "did you mean `label`?",
        ),
        ("sort(most = 1, most = 2)", "`sort` is given `most` twice", None),
    ],
)
def test_wrong_arguments_are_refused(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(DiagnosticError) as caught:
        bound(text)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.hint) == (
        Code.WRONG_PASS_ARGUMENT,
        message,
        hint,
    )
    assert found.position is not None


def nothing() -> Program:
    return Program()


def named(*, program: Program) -> Program:
    return program


def starred(program: Program, *limits: int) -> Program:
    return program


def untyped(program: Program, *, limit=3) -> Program:  # type: ignore[no-untyped-def]
    return program


def optional(program: Program, *, limit: int | None = None) -> Program:
    return program


def unlike(program: Program, *, limit: int = 0.5) -> Program:  # type: ignore[assignment]
    return program


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (nothing, "a pass takes a program"),
        (named, "a pass takes a program"),
        (starred, "parameter 'limits' of a pass must be one that is given by name"),
        (untyped, "parameter 'limit' of a pass must be declared as bool, int, float, str"),
        (optional, "parameter 'limit' of a pass must be declared as bool, int, float, str"),
        (unlike, "the default of parameter 'limit' must be a int"),
    ],
)
def test_other_signatures_are_refused(run: Callable[..., Program], said: str) -> None:
    declared: PassFunction = run
    with pytest.raises(TypeError, match=said):
        parameters_of(declared)
