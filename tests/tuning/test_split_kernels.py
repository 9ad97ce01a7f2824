"""Tuning kernels with several configs: some are split, and their names stay apart."""

from collections.abc import Mapping, Sequence

import pytest
import torch
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.interp import interpret
from wrapperir.ir import MultiKernelLine, Number, Program
from wrapperir.passes import split_configs, split_configs_but
from wrapperir.text import parse_program
from wrapperir.tuning import tune
from wrapperir.tuning.measure import Timer, Times
from wrapperir.tuning.tune import tune_program
from wrapperir.verify import verify

LONG = "k" * 200
"""What a name keeps of its kernel's: all kernels here have the same."""

FACTORS = {"A": 10, "B": 20, "C": 30}


def kernel(name: str, factor: int) -> str:
    return f"""\
kernel_definition @{LONG}{name} cpp(x: read f32*, y: write f32*) {{
  config A = 1
  config A = 2
  entry = kernel
  source {{
    | extern "C" void kernel(const float* x, float* y) {{ y[0] = x[0] * {factor}; }}
  }}
}}

"""


def program() -> Program:
    lines = "".join(
        f"  %y{name} = allocate f32[1]\n  kernel_call @{LONG}{name}(%x, %y{name})\n"
        for name in FACTORS
    )
    outputs = ", ".join(f"%y{name}" for name in FACTORS)
    return parse_program(
        "wrapperir 1\n\n"
        + "".join(kernel(*item) for item in FACTORS.items())
        + f"program @main(%x: f32[1]) {{\n{lines}  return {outputs}\n}}\n"
    )


def failing_for(names: str) -> Timer:
    """Return a timer that has no time for some of the kernels."""

    def timer(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        text = str(programs[0].definitions[0])
        if any(f"x[0] * {FACTORS[name]};" in text for name in names):
            return Times((None, None), ("broken", "broken"))
        return Times((5.0, 2.0), (None, None))

    return timer


@pytest.mark.parametrize("broken", ["", "A", "B", "C", "AB", "AC", "BC", "ABC"])
def test_kernels_that_stay_whole_change_no_name_of_the_others(broken: str) -> None:
    before = program()
    tuned = tune_program(before, timer=failing_for(broken))
    assert verify(tuned.program) == ()
    chosen = {report.kernel[-1]: report.chosen for report in tuned.report.kernels}
    assert chosen == {name: None if name in broken else 1 for name in FACTORS}
    multi = [a for a in tuned.program.definitions if isinstance(a, MultiKernelLine)]
    assert "".join(line.name[-1] for line in multi) == "ABC".translate(
        {ord(name): None for name in broken}
    )
    if len(broken) == 1:  # what is computed is the slow part of the test
        results = interpret(tuned.program, [torch.ones(1)], {})
        assert [float(result) for result in results if result is not None] == [10, 20, 30]


@given(st.sets(st.sampled_from(sorted(FACTORS))))
def test_a_kernel_becomes_the_same_whatever_stays_whole(names: set[str]) -> None:
    before = program()
    whole = {LONG + name for name in names}
    some = {line.name: line for line in split_configs_but(before, whole).definitions}
    every = {line.name: line for line in split_configs(before).definitions}
    untouched = {line.name: line for line in before.definitions}
    assert {some[name] == untouched[name] for name in whole} <= {True}
    assert all(some[name] == every[name] for name in some.keys() - whole)


def test_an_invalid_program_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def misnamed(line: MultiKernelLine, tuned: MultiKernelLine) -> MultiKernelLine:
        return evolve(tuned, choices=(evolve(line.choices[0], kernel="gone"),))

    monkeypatch.setattr(tune, "with_used_sizes", misnamed)
    with pytest.raises(RuntimeError, match=r"tuning made an invalid program: .*gone"):
        tune_program(program(), timer=failing_for(""))
