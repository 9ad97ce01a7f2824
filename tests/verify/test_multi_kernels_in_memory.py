"""Multi-kernels as no text says them, and what verifying their calls costs."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import pytest
from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    Access,
    BenchmarkChoice,
    BufferParameter,
    ComputedChoice,
    DType,
    Expr,
    ExprOp,
    ForcedChoice,
    Hint,
    KernelChoice,
    KernelDefinitionLine,
    KernelSize,
    Language,
    MultiKernelLine,
    NearestChoice,
    Operation,
    Program,
    RecordedChoice,
    ScalarParameter,
    Symbol,
    WorkspaceNeed,
    ZeroMode,
    compare,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.verify import verify
from wrapperir.verify.program import LineChecks


def one_choice(**changes: object) -> Program:
    """Return a program in memory with one multi-kernel, changed."""
    b = ProgramBuilder()
    definition = KernelDefinitionLine(
        name="k",
        language=Language.CPP,
        parameters=(
            BufferParameter("ws", DType.F32, Access.READ_WRITE),
            ScalarParameter("n", DType.I64),
        ),
        entry="k",
        source="",
    )
    b.kernel(definition)
    line = b.multi_kernel([definition], selection=BenchmarkChoice())
    program = b.build()
    return evolve(
        program, definitions=(definition, evolve(line, **cast(dict[str, Any], changes)))
    )


def needing(count: Expr) -> dict[str, object]:
    need = WorkspaceNeed(0, count, ZeroMode.UNINITIALIZED)
    return {"choices": (KernelChoice("k", (0, 1), (need,)),)}


ANY = ZeroMode.UNINITIALIZED
ROWS = (KernelSize("M", 0, 0),)

MALFORMED: list[dict[str, object]] = [
    {"sizes": ("M",)},
    {"sizes": (KernelSize("M", "ws", 0),)},  # type: ignore[arg-type]
    {"sizes": (KernelSize("M", 0, None),)},  # type: ignore[arg-type]
    {"selection": "first"},
    {"selection": RecordedChoice("0")},  # type: ignore[arg-type]
    {"selection": RecordedChoice(0, ("1",))},  # type: ignore[arg-type]
    {"selection": ComputedChoice("0")},  # type: ignore[arg-type]
    needing("4"),  # type: ignore[arg-type]
    {"choices": (KernelChoice("k", (0, 1), ("ws",)),)},  # type: ignore[arg-type]
    # no text and no JSON has a truth value in these places
    {"sizes": (KernelSize("M", False, 0),)},
    {"sizes": (KernelSize("M", 0, True),)},
    {"choices": (KernelChoice("k", (False, True)),)},
    {"choices": (KernelChoice("k", (0, 1), (WorkspaceNeed(False, 4, ANY),)),)},
    {"selection": ForcedChoice(False)},
    {"selection": RecordedChoice(False)},
    {"selection": RecordedChoice(0, (True,))},
    {"selection": NearestChoice((Hint(False, ()),))},
    {"sizes": ROWS, "selection": NearestChoice((Hint(0, (True,)),))},
]


@pytest.mark.parametrize("changes", MALFORMED)
def test_fields_of_other_kinds_are_malformed(changes: dict[str, object]) -> None:
    assert {d.code for d in verify(one_choice(**changes))} == {Code.MALFORMED}


@pytest.mark.parametrize("time", [-1, -1.0, math.inf, math.nan, 10**400])
def test_times_are_finite_and_not_negative(time: float) -> None:
    program = one_choice(selection=RecordedChoice(0, (time,)))
    assert [d.code for d in verify(program)] == [Code.RECORDED_TIMES]


def test_a_hint_of_any_length_of_number_is_refused() -> None:
    for size in (2**63, 10**400):
        hints = NearestChoice((Hint(0, (size,)),))
        (diagnostic,) = verify(one_choice(sizes=ROWS, selection=hints))
        assert diagnostic.code is Code.INVALID_HINT
        assert diagnostic.message.endswith("has a size above 2**63 - 1")


@pytest.mark.parametrize("time", [0, 3, 2.5, 10**300, None])
def test_times_that_binary64_has_are_sound(time: float | None) -> None:
    assert verify(one_choice(selection=RecordedChoice(0, (time,)))) == ()


def shared(leaf: Expr, levels: int, op: ExprOp) -> Expr:
    """Return an expression of few parts and very many paths."""
    for _ in range(levels):
        leaf = Operation(op, (leaf, leaf))
    return leaf


def test_shared_parts_cost_once() -> None:
    n = Symbol("n")
    tree: Expr = 0
    for _ in range(60):
        tree = Operation(ExprOp.WHERE, (compare(ExprOp.LT, n, 3), tree, tree))
    assert verify(one_choice(selection=ComputedChoice(tree))) == ()
    count = shared(n, 60, ExprOp.MAX)
    program = one_choice(**needing(count))
    b = ProgramBuilder()
    ws = b.allocate(tensor("f32", (2,)), workspace=ZeroMode.ZERO_ON_CALL)
    b.call("k_or_not", ws, 2).free(ws)
    line = program.definitions[1]
    assert isinstance(line, MultiKernelLine)
    called = evolve(
        program, definitions=(program.definitions[0], evolve(line, name="k_or_not"))
    )
    assert verify(evolve(called, lines=b.build().lines)) == ()


class CountedChoices(tuple[KernelChoice, ...]):
    """Choices that count how often they are gone through."""

    scans: ClassVar[Counter[str]] = Counter()

    def __iter__(self) -> Iterator[KernelChoice]:
        """Count a walk over them."""
        self.scans["all"] += 1
        return super().__iter__()


def scans(calls: int) -> int:
    b = ProgramBuilder()
    ws = b.allocate(tensor("f32", (64,)), workspace=ZeroMode.ZERO_ON_CALL)
    for _ in range(calls):
        b.call("any", ws, 8)
    b.free(ws)
    program = one_choice(**needing(Symbol("n")))
    line = program.definitions[1]
    assert isinstance(line, MultiKernelLine)
    CountedChoices.scans.clear()
    changed = evolve(line, name="any", choices=CountedChoices(line.choices))
    definitions = (program.definitions[0], changed)
    assert verify(evolve(program, definitions=definitions, lines=b.build().lines)) == ()
    return CountedChoices.scans["all"]


def test_calls_do_not_go_through_the_choices() -> None:
    assert 0 < scans(1) == scans(50)


def expressions_made(choices: int) -> int:
    """Return how many counts the walk works out for one call."""
    program = one_choice()
    definition, line = program.definitions
    assert isinstance(line, MultiKernelLine)
    assert isinstance(definition, KernelDefinitionLine)
    kernels = [evolve(definition, name=f"k{index}") for index in range(choices)]
    counts: list[Expr] = [Symbol("n") * 2, 8]
    lines = evolve(
        line,
        name="any",
        choices=tuple(
            KernelChoice(
                kernel.name,
                (0, 1),
                (WorkspaceNeed(0, counts[index % 2], ZeroMode.UNINITIALIZED),),
            )
            for index, kernel in enumerate(kernels)
        ),
    )
    b = ProgramBuilder()
    ws = b.allocate(tensor("f32", (64,)), workspace=ZeroMode.ZERO_ON_CALL)
    b.call("any", ws, 8).free(ws)
    program = evolve(program, definitions=(*kernels, lines), lines=b.build().lines)
    state = LineChecks(program)
    state.here = ("definitions", 0)
    for each in state.program.definitions:
        state.visit(each)
    state.here = None
    state.walk(state.program.lines)
    assert state.diagnostics == []
    return len(state.derived)


def test_a_count_is_worked_out_once_a_call() -> None:
    assert expressions_made(2) == expressions_made(40) == 2
