"""A softmax by two Triton kernels, one of which holds a row at once, in graphs."""

import copy
import pickle

import pytest
import torch

from tests.fx_emitter.choice_programs import called, undecided
from wrapperir.ir import (
    Access,
    BenchmarkChoice,
    BufferParameter,
    ComputedChoice,
    ConstexprParameter,
    Device,
    DType,
    ExprOp,
    Hint,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    NearestChoice,
    Operation,
    Program,
    ScalarParameter,
    Selection,
    SizeOf,
    Symbol,
    choose,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir_fx.choosing import choices
from wrapperir_fx.graph_module import build_graph_module

PERSISTENT = """
@triton.jit
def softmax(x, y, rows, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0).to(tl.int64) * columns
    value = tl.load(x + row + at, inside, other=float("-inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row + at, value / tl.sum(value, 0), inside)
"""
LOOPED = """
@triton.jit
def softmax(x, y, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    high = tl.full([BLOCK], float("-inf"), tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, at < columns, other=float("-inf"))
        high = tl.maximum(high, value)
    highest = tl.max(high, 0)
    total = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, at < columns, other=float("-inf"))
        total += tl.exp(value - highest)
    whole = tl.sum(total, 0)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, at < columns, other=0.0)
        tl.store(y + row + at, tl.exp(value - highest) / whole, at < columns)
"""
ROWS, COLUMNS = Symbol("s0"), Symbol("s1")
MOST = 4096
"""The columns that a row may have: what the persistent kernel holds."""
POLICIES: dict[str, Selection] = {
    "nearest": NearestChoice((Hint(0, (64, 100)), Hint(1, (64, 3000)))),
    "computed": ComputedChoice(
        Operation(ExprOp.WHERE, (Operation(ExprOp.LE, (Symbol("C"), 300)), 0, 1))
    ),
    "benchmark": BenchmarkChoice(),
}


def kernel(name: str, source: str, block: int) -> KernelDefinitionLine:
    """Return a softmax over the rows of a matrix."""
    return KernelDefinitionLine(
        name=name,
        language=Language.TRITON,
        parameters=(
            BufferParameter("x", DType.F32, Access.READ),
            BufferParameter("y", DType.F32, Access.WRITE),
            ScalarParameter("rows", DType.I32),
            ScalarParameter("columns", DType.I32),
            ConstexprParameter("BLOCK"),
        ),
        grid=(Symbol("rows"), 1, 1),
        configs=(KernelConfig((("BLOCK", block), ("num_warps", 4))),),
        entry="softmax",
        source=source,
    )


def program(selection: Selection, on: Device) -> Program:
    """Return a softmax of a matrix of any size up to 4096 columns."""
    b = ProgramBuilder()
    x = b.input(tensor("f32", (ROWS, COLUMNS), device=on), name="x")
    b.symbol("s0", SizeOf("x", 0), lower=1, upper=1 << 20)
    b.symbol("s1", SizeOf("x", 1), lower=1, upper=MOST)
    kernels = [
        b.kernel(kernel("persistent", PERSISTENT, MOST)),
        b.kernel(kernel("looped", LOOPED, 512)),
    ]
    many = b.multi_kernel(
        kernels, name="softmax", sizes={"R": ("x", 0), "C": ("x", 1)}, selection=selection
    )
    out = b.allocate(tensor("f32", (ROWS, COLUMNS), device=on), name="out")
    return b.call(many, x, out, ROWS, COLUMNS, device=on).free(x).build(out)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_softmax_of_any_size_runs_by_its_policy(
    device: torch.device, policy: str
) -> None:
    selection = POLICIES[policy]
    on = Device("cuda", 0) if device.type == "cuda" else Device("cpu")
    with fresh_choice_cache(), undecided():
        graph = build_graph_module(program(selection, on), {})
        assert called(graph) == ["softmax"]
        others = [graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))]  # noqa: S301
        cases = ((3, 7), (5, 301), (2, 4096), (64, 100), (1, 1))
        for rows, columns in cases:
            x = torch.randn(rows, columns, device=device)
            for each in others:
                torch.testing.assert_close(each(x)[0], x.softmax(-1))
        decided = choices()
    names = ("persistent", "looped")
    if isinstance(selection, BenchmarkChoice):
        (decision,) = decided
        assert decision.kernel in names
        assert all(time is not None for _, time in decision.microseconds)
        return
    wanted = [
        names[choose(selection, case, {"R": case[0], "C": case[1]})] for case in cases
    ]
    assert [decision.kernel for decision in decided] == wanted
    assert {*wanted} == {*names}


def test_an_exported_softmax_runs_by_its_policy(device: torch.device) -> None:
    on = Device("cuda", 0) if device.type == "cuda" else Device("cpu")
    sizes = {0: torch.export.Dim("r", max=1 << 16), 1: torch.export.Dim("c", max=MOST)}
    graph = build_graph_module(program(POLICIES["nearest"], on), {})
    x = torch.randn(4, 50, device=device)
    exported = torch.export.export(graph, (x,), dynamic_shapes=(sizes,)).module()
    for columns in (50, 4000):
        x = torch.randn(3, columns, device=device)
        torch.testing.assert_close(exported(x)[0], x.softmax(-1))
