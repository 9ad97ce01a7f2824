"""Multi-kernels of kernels whose parameters differ; one a set of kernels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir import (
    Access,
    BenchmarkChoice,
    BufferParameter,
    ComputedChoice,
    ConstexprParameter,
    DType,
    Expr,
    ExprOp,
    FirstChoice,
    ForcedChoice,
    Hint,
    KernelDefinitionLine,
    KernelSize,
    Language,
    MultiKernelLine,
    NearestChoice,
    Operation,
    Parameter,
    RecordedChoice,
    ScalarParameter,
    Selection,
    Symbol,
    WorkspaceNeed,
    ZeroMode,
    compare,
    runtime_parameters,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.ir.multi_kernel_builder import identity


def kernel(name: str, *parameters: Parameter) -> KernelDefinitionLine:
    return KernelDefinitionLine(
        name=name, language=Language.CPP, parameters=parameters, entry=name, source=""
    )


def buffer(name: str, access: Access, dtype: DType = DType.F32) -> BufferParameter:
    return BufferParameter(name, dtype, access)


X, OUT = buffer("x", Access.READ), buffer("out", Access.WRITE)
N = ScalarParameter("n", DType.I64)
WS = buffer("ws", Access.READ_WRITE, DType.U8)
SMALL = kernel("small", X, OUT, N)
SPLIT = kernel("split", X, WS, OUT, ConstexprParameter("BLOCK"), N)
OTHER = kernel("other", N, OUT, X)


def test_the_union_of_parameters() -> None:
    b = ProgramBuilder()
    line = b.multi_kernel(
        [SMALL, SPLIT, OTHER],
        sizes={"rows": ("x", 0), "columns": ("out", 1)},
        workspaces={"split": {"ws": (Symbol("n") * 4, ZeroMode.ZERO_ON_CALL)}},
        selection=BenchmarkChoice(),
    )
    assert line.parameters == (X, WS, OUT, N)
    assert [choice.arguments for choice in line.choices] == [
        (0, 2, 3),
        (0, 1, 2, 3),
        (3, 2, 0),
    ]
    assert line.sizes == (KernelSize("rows", 0, 0), KernelSize("columns", 2, 1))
    need = WorkspaceNeed(1, Symbol("n") * 4, ZeroMode.ZERO_ON_CALL)
    assert [choice.workspaces for choice in line.choices] == [(), (need,), ()]
    assert line.selection == BenchmarkChoice()


def test_what_one_reads_and_another_writes_is_both() -> None:
    b = ProgramBuilder()
    kernels = [kernel("a", X), kernel("b", buffer("x", Access.WRITE))]
    line = b.multi_kernel(kernels)
    assert line.parameters == (buffer("x", Access.READ_WRITE),)


def test_positions_tell_what_names_do_not() -> None:
    b = ProgramBuilder()
    line = b.multi_kernel(
        [kernel("a", X, buffer("y", Access.READ)), kernel("b", X)], positions=[(0, 1), (1,)]
    )
    assert [p.name for p in line.parameters] == ["x", "y"]
    assert line.choices[1].arguments == (1,)


PARAMETERS = st.lists(
    st.sampled_from([X, OUT, N, WS, buffer("y", Access.READ)]), unique=True, max_size=5
)


@given(st.lists(PARAMETERS, min_size=1, max_size=4))
def test_every_choice_takes_its_own_parameters(lists: list[list[Parameter]]) -> None:
    kernels = [kernel(f"k{i}", *each) for i, each in enumerate(lists)]
    line = ProgramBuilder().multi_kernel(kernels)
    names = [parameter.name for parameter in line.parameters]
    assert len(set(names)) == len(names)
    for definition, choice in zip(kernels, line.choices, strict=True):
        wanted = [p.name for p in runtime_parameters(definition.parameters)]
        assert [names[place] for place in choice.arguments] == wanted


def test_refusals_name_what_is_wrong() -> None:
    b = ProgramBuilder()
    with pytest.raises(ValueError, match=r"x of @small is a buffer of f32, but x of @wide"):
        b.multi_kernel([SMALL, kernel("wide", buffer("x", Access.READ, DType.F64))])
    with pytest.raises(ValueError, match="z is not a parameter of the multi-kernel"):
        b.multi_kernel([SMALL], sizes={"M": ("z", 0)})
    ws = (4, ZeroMode.ZERO_ON_CALL)
    with pytest.raises(ValueError, match="ws is not a parameter of @small"):
        b.multi_kernel([SMALL, SPLIT], workspaces={"small": {"ws": ws}})
    with pytest.raises(ValueError, match="n is a scalar"):
        b.multi_kernel([SMALL], workspaces={"small": {"n": ws}})
    with pytest.raises(ValueError, match="@absent, which is none of the kernels"):
        b.multi_kernel([SMALL], workspaces={"absent": {"ws": ws}})
    kept = {"split": {"ws": (4, ZeroMode.ZERO_PER_PROGRAM)}}
    clash = kernel("clash", WS)
    with pytest.raises(ValueError, match="@split and @clash cannot share the workspace ws"):
        b.multi_kernel([SPLIT, clash], workspaces={**kept, "clash": {"ws": ws}})
    assert b.build().definitions == ()


def tree(yes: int, no: int) -> ComputedChoice:
    condition = compare(ExprOp.LT, Symbol("n"), 9)
    return ComputedChoice(Operation(ExprOp.WHERE, (condition, yes, no)))


# Each pair picks the same of (small, other) and of (other, small).
SAME_IN_BOTH_ORDERS: list[tuple[Selection, Selection]] = [
    (BenchmarkChoice(), BenchmarkChoice()),
    (ForcedChoice(1), ForcedChoice(0)),
    (RecordedChoice(0, (1.0, 2.0), "cpu"), RecordedChoice(1, (2.0, 1.0), "cpu")),
    (NearestChoice((Hint(0, (8,)),)), NearestChoice((Hint(1, (8,)),))),
    (tree(0, 1), tree(1, 0)),
]


@pytest.mark.parametrize(("selection", "other"), SAME_IN_BOTH_ORDERS)
def test_one_set_of_kernels_is_one_line(selection: Selection, other: Selection) -> None:
    b = ProgramBuilder()
    sizes = {"rows": ("x", 0)}
    positions = {SMALL: (0, 1, 2), OTHER: (2, 1, 0)}

    def of(kernels: list[KernelDefinitionLine], by: Selection) -> MultiKernelLine:
        places = [positions[k] for k in kernels]
        return b.multi_kernel(kernels, positions=places, sizes=sizes, selection=by)

    first = of([SMALL, OTHER], selection)
    assert of([SMALL, OTHER], selection) is first
    assert of([OTHER, SMALL], other) is first
    # where names say what is one, the parameters are in another order
    apart = b.multi_kernel([OTHER, SMALL], sizes=sizes, selection=other)
    assert apart.name != first.name
    assert apart.parameters == (N, OUT, X)


def shared_tree() -> ComputedChoice:
    """Return a decision tree of few parts and very many paths, made anew."""
    made: Expr = 0
    for _ in range(60):
        condition = compare(ExprOp.LT, Symbol("n"), 9)
        made = Operation(ExprOp.WHERE, (condition, made, made))
    return ComputedChoice(made)


def shared_count() -> Expr:
    made: Expr = Symbol("n")
    for _ in range(60):
        made = Operation(ExprOp.MAX, (made, made))
    return made


def test_shared_parts_of_expressions_cost_once() -> None:
    first, again, other = (
        identity(
            ProgramBuilder().multi_kernel(
                [SPLIT],
                workspaces={"split": {"ws": (count, ZeroMode.ZERO_ON_CALL)}},
                selection=shared_tree(),
            )
        )
        for count in (shared_count(), shared_count(), shared_count() + 1)
    )
    assert first == again != other


def test_kernels_that_need_a_workspace_otherwise_are_named() -> None:
    needs = {"one": ZeroMode.UNINITIALIZED, "two": ZeroMode.ZERO_ON_CALL}
    needs |= {"three": ZeroMode.ZERO_PER_PROGRAM}
    with pytest.raises(ValueError, match="@two and @three cannot share the workspace ws: "):
        ProgramBuilder().multi_kernel(
            [kernel(name, WS) for name in needs],
            workspaces={name: {"ws": (4, mode)} for name, mode in needs.items()},
        )


def test_what_differs_stays_apart() -> None:
    b = ProgramBuilder()
    same, third = kernel("same", X, OUT, N), kernel("third", X, OUT, N)
    lines: list[MultiKernelLine] = [
        b.multi_kernel([SMALL, same]),
        b.multi_kernel([same, SMALL]),  # another is the first
        b.multi_kernel([SMALL, third]),  # the first kernel is the same
        b.multi_kernel([SMALL, same, third]),
        b.multi_kernel([SMALL, same], selection=ForcedChoice(0)),
        b.multi_kernel([SMALL, same], selection=ForcedChoice(1)),
        b.multi_kernel([SMALL, same], sizes={"M": ("x", 0)}),
        b.multi_kernel([SMALL, same], name="mine"),
    ]
    assert len({line.name for line in lines}) == len(lines)
    assert b.multi_kernel([SMALL, same], name="mine") is lines[-1]
    assert b.multi_kernel([SMALL, same]) is lines[0]
    assert b.build().definitions == tuple(lines)
    assert lines[0].selection == FirstChoice()
