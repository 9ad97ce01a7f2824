"""Operator calls are checked against the installed PyTorch, without running them."""

import pytest
from hypothesis import given, settings

from tests.cli.files import invoke
from tests.draws import draws
from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.interp.operator_check import check_operators
from wrapperir.testing.programs import programs
from wrapperir.text import parse_program
from wrapperir.verify import verify


def program(*lines: str, extra: str = "") -> wir.Program:
    body = "".join(f"  {line}\n" for line in lines)
    text = (
        "wrapperir 1\n\nprogram @main(%x: f32[4, 8], %b: mutated f32[s0, 8]) {\n"
        f"  symbol s0: int 1..64 = size(%b, 0)\n{body}  return{extra}\n}}\n"
    )
    parsed = parse_program(text)
    assert verify(parsed) == ()
    return parsed


def found(*lines: str, extra: str = "") -> list[tuple[Code, str, str | None]]:
    diagnostics = check_operators(program(*lines, extra=extra))
    assert all(each.path is not None for each in diagnostics)
    return [(each.code, each.message, each.hint) for each in diagnostics]


@pytest.mark.parametrize(
    ("line", "code", "message", "hint"),
    [
        (
            "%y = extern_kernel aten.rleu.default(%x) : f32[4, 8]",
            Code.UNREGISTERED_OPERATOR,
            "PyTorch has no operator aten.rleu",
            "did you mean `aten.relu.default`?",
        ),
        (
            "%y = extern_kernel aten.add.Tenser(%x, %x) : f32[4, 8]",
            Code.UNREGISTERED_OPERATOR,
            "aten.add has no overload Tenser",
            "did you mean `aten.add.Tensor`?",
        ),
        (
            "%y = extern_kernel no_such_library.f.default(%x) : f32[4, 8]",
            Code.UNREGISTERED_OPERATOR,
            "PyTorch has no operator no_such_library.f",
            None,
        ),
        (
            "%y = extern_kernel aten.mm.default(%x, %x) : f32[4, 8]",
            Code.OPERATOR_ARGUMENTS,
            "aten.mm.default refuses its arguments: a and b must have same reduction dim,"
            " but got [4, 8] X [4, 8].",
            None,
        ),
        (
            "%y = extern_kernel aten.sum.dim_IntList(%x, [1]) : f32[8]",
            Code.OPERATOR_RESULT,
            "aten.sum.dim_IntList returns f32[4], not f32[8]",
            None,
        ),
        (
            "%y = extern_kernel aten.relu.default(%b) : f32[s0, 9]",
            Code.OPERATOR_RESULT,
            "aten.relu.default returns f32[s0, 8], not f32[s0, 9]",
            None,
        ),
        (
            "%y = extern_kernel aten.max.dim(%x, 1) : (f32[4], i32[4])",
            Code.OPERATOR_RESULT,
            "aten.max.dim returns i64[4], not i32[4]",
            None,
        ),
        (
            "%y = extern_kernel aten.max.dim(%x, 1) : (f32[4], i64[4], i64[4])",
            Code.OPERATOR_RESULT,
            "aten.max.dim returns 2 values, not 3",
            None,
        ),
        (
            "%y = extern_kernel aten.full.default([1000000, 1000000], 1) :"
            " f32[1000000, 1000000]",
            Code.OPERATOR_RESULT,
            "aten.full.default returns i64[1000000, 1000000], not f32[1000000, 1000000]",
            None,
        ),
    ],
)
def test_a_call_that_does_not_fit_is_reported(
    line: str, code: Code, message: str, hint: str | None
) -> None:
    assert found(line, extra=" %y") == [(code, message, hint)]


def test_arguments_are_those_of_the_schema() -> None:
    line = "%y = extern_kernel aten.relu.default(%x, %x) : f32[4, 8]"
    ((code, message, _),) = found(line, extra=" %y")
    assert code is Code.OPERATOR_ARGUMENTS
    assert "but received 2 argument(s)" in message


def test_out_has_the_size_that_is_written() -> None:
    lines = (
        "%y = allocate f32[8, 8]",
        "extern_kernel aten.relu.out(%x, out = %y) writes(%y)",
    )
    message = "aten.relu.out writes f32[4, 8] to %y, not f32[8, 8]"
    assert found(*lines, extra=" %y") == [(Code.OPERATOR_RESULT, message, None)]


def test_what_is_written_is_declared() -> None:
    message = "aten.relu_.default writes %b, which writes(...) lacks"
    line = "extern_kernel aten.relu_.default(%b)"
    assert found(line) == [(Code.UNDECLARED_WRITE, message, None)]


@pytest.mark.parametrize(
    "lines",
    [
        (
            "%y = extern_kernel aten.nonzero.default(%x) : i64[u0, 2]",
            "symbol_definition u0: int 0..32 = size(%y, 0)",
        ),
        # Whether the size can be divided is known in a run.
        ("%y = extern_kernel aten.unfold_copy.default(%b, 0, 65, 1) : f32[1, 8, 65]",),
        # There need be no GPU, and no memory is taken.
        (
            "%y = extern_kernel aten.full.default([1000000, 1000000], 1.0,"
            " device = device(cuda:0)) : f32[1000000, 1000000]@cuda:0",
        ),
    ],
)
def test_what_only_a_run_can_tell_is_not_reported(lines: tuple[str, ...]) -> None:
    assert found(*lines, extra=" %y") == []


def test_calls_in_blocks_are_checked() -> None:
    text = """\
wrapperir 1

program @main(%x: f32[4]) {
  %y = subgraph_call @inner (%x) : f32[4] {
    body (%p: f32[4]) {
      %q = extern_kernel aten.rleu.default(%p) : f32[4]
      return %q
    }
  }
  free %x
  return %y
}
"""
    (diagnostic,) = check_operators(parse_program(text))
    assert diagnostic.path == ("lines", 0, "body", "lines", 0)


@settings(max_examples=draws(60, fuzz=200), deadline=None)
@given(programs())
def test_nothing_is_reported_of_calls_that_run(drawn: wir.Program) -> None:
    assert check_operators(drawn) == ()


def test_the_command_line_checks_operators_if_it_is_asked_to() -> None:
    text = """\
wrapperir 1

program @main(%x: f32[4]) {
  %y = extern_kernel aten.rleu.default(%x) : f32[4]
  free %x
  return %y
}
"""
    assert invoke("verify", "-", input=text).exit_code == 0
    result = invoke("verify", "--operators", "-", input=text)
    assert result.exit_code == 1
    assert "<stdin>:4:22: error WIR440: PyTorch has no operator aten.rleu" in result.stdout
    assert "hint: did you mean `aten.relu.default`?" in result.stdout
    good = invoke("verify", "--operators", "-", input=text.replace("rleu", "relu"))
    assert (good.exit_code, good.stdout) == (0, "<stdin>: no errors\n")
    invalid = invoke("verify", "--operators", "-", input=text.replace("free %x", "free %z"))
    assert "WIR440" not in invalid.stdout
