"""The conformance programs of selection show a wrong choice, and reach every choice."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
import torch
from attrs import evolve

from wrapperir.emit import Value
from wrapperir.interp import Interpreter, kernels
from wrapperir.interp.kernels import KernelValue
from wrapperir.ir import (
    BenchmarkChoice,
    FirstChoice,
    ForcedChoice,
    Hint,
    KernelChoice,
    Language,
    MultiKernelLine,
    Program,
    nearest,
    settled_choice,
)
from wrapperir.ir.selection import SELECTIONS
from wrapperir.testing import CASES, Case, example_inputs
from wrapperir.testing.conformance_selection import NEAR_TIE, selection_cases

CASES_BY_NAME = {case.name: case for case in selection_cases(Language.TRITON)}
EXACT = [
    case
    for case in CASES_BY_NAME.values()
    if not case.faults and "benchmark" not in case.name
]


def multi_kernels(program: Program) -> Iterator[MultiKernelLine]:
    for line in program.definitions:
        if isinstance(line, MultiKernelLine):
            yield line


def outputs(program: Program, seed: int) -> list[Value]:
    inputs = example_inputs(program, seed)
    returned = Interpreter(program, {}).run(inputs)
    return [*returned, *inputs]


def differ(left: Sequence[Value], right: Sequence[Value]) -> bool:
    return any(
        not torch.equal(one, other)
        for one, other in zip(left, right, strict=True)
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    )


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_a_policy_that_is_not_followed_shows(case: Case) -> None:
    for changed in multi_kernels(case.program):
        first = evolve(changed, selection=FirstChoice())
        definitions = tuple(
            first if line is changed else line for line in case.program.definitions
        )
        other = evolve(case.program, definitions=definitions)
        assert any(
            differ(outputs(case.program, seed), outputs(other, seed)) for seed in case.seeds
        ), changed.name


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_every_choice_that_is_not_settled_is_reached(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: Counter[tuple[str, int]] = Counter()
    choice_at = kernels.choice_at

    def note(line: MultiKernelLine, given: Sequence[KernelValue]) -> KernelChoice:
        choice = choice_at(line, given)
        taken[line.name, line.choices.index(choice)] += 1
        return choice

    monkeypatch.setattr(kernels, "choice_at", note)
    for seed in case.seeds:
        outputs(case.program, seed)
    for line in multi_kernels(case.program):
        reached = sum(1 for name, _ in taken if name == line.name)
        if settled_choice(line.selection) is not None:
            assert reached == 1
        elif case.name.startswith("selection_in_blocks"):
            assert reached >= 2, line.name
        elif line.selection == NEAR_TIE:
            assert reached == 2
        else:
            assert reached == len(line.choices), line.name


def test_near_ties_show_other_ways_to_compare() -> None:
    case = CASES_BY_NAME["selection_dynamic_sizes_triton"]
    hints = NEAR_TIE.hints

    def by_log2(sizes: Sequence[int]) -> int:
        def distance(hint: Hint) -> float:
            pairs = zip(sizes, hint.sizes, strict=True)
            return sum(abs(math.log2(a or 0.5) - math.log2(b)) for a, b in pairs)

        return min(hints, key=distance).choice

    found: list[bool] = []
    for seed in case.seeds:
        y = example_inputs(case.program, seed)[1]
        assert isinstance(y, torch.Tensor)
        found.append(by_log2(y.shape) != nearest(hints, y.shape))
    assert any(found)


def test_what_may_be_timed_may_be_any_choice() -> None:
    case = CASES_BY_NAME["selection_benchmark_triton"]
    lines = list(multi_kernels(case.program))
    assert [type(line.selection) for line in lines] == [BenchmarkChoice] * 2
    for choice in range(2):
        forced = evolve(
            case.program,
            definitions=tuple(
                evolve(line, selection=ForcedChoice(choice))
                if isinstance(line, MultiKernelLine)
                else line
                for line in case.program.definitions
            ),
        )
        for seed in case.seeds:
            assert not differ(outputs(case.program, seed), outputs(forced, seed))


def test_the_kit_has_every_policy() -> None:
    found = {type(line.selection) for case in CASES for line in multi_kernels(case.program)}
    assert found == set(SELECTIONS)
