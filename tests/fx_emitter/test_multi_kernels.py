"""Multi-kernels in graphs: which choice a call runs, and how that is decided."""

import copy
import logging
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from tests.fx_emitter.choice_programs import (
    NAMES,
    OPAQUE,
    built,
    called,
    chosen,
    module,
    numbering,
    program,
)
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.fx import call_multi_kernel
from wrapperir.ir import (
    BenchmarkChoice,
    ComputedChoice,
    Expr,
    ExprOp,
    FirstChoice,
    ForcedChoice,
    Hint,
    NearestChoice,
    Operation,
    RecordedChoice,
    Selection,
    Symbol,
    choose,
)
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir_fx.choosing import choices
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.graph_module import build_graph_module

M, N = Symbol("M"), Symbol("N")


def where(condition: Expr, chosen: Expr, other: Expr) -> Expr:
    return Operation(ExprOp.WHERE, (condition, chosen, other))


def at_most(left: Expr, right: Expr) -> Expr:
    return Operation(ExprOp.LE, (left, right))


NEAREST = NearestChoice((Hint(0, (4, 4)), Hint(1, (64, 64)), Hint(2, (64, 4))))
COMPUTED = ComputedChoice(where(at_most(M * N, 64), 2, where(at_most(M, N), 1, 0)))


SETTLED: dict[str, tuple[Selection, int]] = {
    "first": (FirstChoice(), 0),
    "forced": (ForcedChoice(2), 2),
    "recorded": (RecordedChoice(1, (3.0, 2.0, None), "a machine"), 1),
    "computed": (ComputedChoice(2), 2),
    "nearest to one": (NearestChoice((Hint(1, (4, 4)), Hint(1, (64, 64)))), 1),
}


@pytest.mark.parametrize("name", SETTLED)
def test_what_is_settled_is_a_call_of_that_kernel(name: str) -> None:
    selection, wanted = SETTLED[name]
    with numbering():
        graph = module(selection)
        assert called(graph) == [NAMES[wanted]]
        assert chosen(graph) == chosen(graph, 300, 2) == wanted


@pytest.mark.parametrize("selection", [NEAREST, COMPUTED], ids=["nearest", "computed"])
@pytest.mark.parametrize("size", [(4, 4), (50, 64), (64, 5), (0, 7)])
def test_with_known_sizes_the_choice_is_made_when_the_graph_is(
    selection: Selection, size: tuple[int, int]
) -> None:
    wanted = choose(selection, size, {"M": size[0], "N": size[1]})
    with numbering():
        graph = module(selection, size=size)
        assert called(graph) == [NAMES[wanted]]
        assert built(graph) == [NAMES[wanted]]
        if 0 not in size:
            assert chosen(graph, *size) == wanted


def test_a_tree_that_is_known_in_part_picks_among_what_is_left() -> None:
    index = where(at_most(M, 64), where(at_most(N, 8), 2, 1), 0)
    with numbering():
        graph = module(ComputedChoice(index), size=(32, Symbol("s1")))
        assert called(graph) == ["many"]
        assert built(graph) == [NAMES[1], NAMES[2]]
        assert [chosen(graph, 32, columns) for columns in (8, 9)] == [2, 1]


def test_what_is_undecided_is_one_operator() -> None:
    with numbering():
        graph = module(NEAREST, n=16)
    (node,) = graph.graph.find_nodes(op="call_function", target=call_multi_kernel)
    key, written, read, numbers, deciding = node.args
    assert key.startswith("many:")
    assert [str(x) for x in written] == ["out"]
    assert [str(x) for x in read] == ["x", "x"]
    assert numbers == [16]
    assert deciding == []
    (line,) = node.meta["wrapperir"]
    assert line.kernel == "many"
    assert "torch.ops.wrapperir.call_multi_kernel.default('many:" in graph.code


SIZES = st.integers(0, 1 << 11)
HINTS = st.lists(
    st.builds(Hint, st.integers(0, 2), st.tuples(SIZES, SIZES)), min_size=1, max_size=4
)
CASES = st.lists(st.tuples(st.integers(1, 200), st.integers(1, 200)), max_size=4)


@settings(max_examples=30)
@given(HINTS, CASES)
def test_nearest_agrees_with_the_rule(
    hints: list[Hint], cases: list[tuple[int, int]]
) -> None:
    selection = NearestChoice(tuple(hints))
    with numbering():
        graph = module(selection)
        for case in (*cases, *cases):
            assert chosen(graph, *case) == choose(selection, case, {})


def trees() -> st.SearchStrategy[Expr]:
    amounts = st.sampled_from([M, N, M * N, M + N, M - N, Symbol("n")])
    operators = st.sampled_from([ExprOp.LE, ExprOp.GT, ExprOp.EQ])
    conditions = st.builds(
        lambda op, left, right: Operation(op, (left, right)),
        operators,
        amounts,
        st.one_of(st.integers(-10, 20_000), amounts),
    )
    return st.recursive(
        st.integers(0, 2), lambda inner: st.builds(where, conditions, inner, inner)
    )


@settings(max_examples=30)
@given(trees(), CASES)
def test_computed_agrees_with_the_rule(tree: Expr, cases: list[tuple[int, int]]) -> None:
    selection = ComputedChoice(tree)
    with numbering():
        graph = module(selection, n=Symbol("s0") * 2)
        for rows, columns in (*cases, *cases):
            values = {"M": rows, "N": columns, "n": rows * 2}
            wanted = choose(selection, (rows, columns), values)
            assert chosen(graph, rows, columns) == wanted


def test_equal_numbers_of_two_types_decide_apart() -> None:
    """A product of 54 bits is odd; as a float it is not."""
    odd = Operation(ExprOp.MOD, ((Symbol("n") + M) * ((1 << 53) + 1), 2))
    selection = ComputedChoice(where(Operation(ExprOp.EQ, (odd, 1)), 0, 1))
    with numbering():
        for n in (2, 2.0, True, 1, 1.0, 0.0, False, 2):
            wanted = choose(selection, (1, 4), {"M": 1, "N": 4, "n": n})
            assert chosen(module(selection, n=n), 1, 4) == wanted


def test_choices_by_floats_are_said_where_they_change() -> None:
    selection = ComputedChoice(where(at_most(Symbol("n"), M), 0, 1))
    with numbering():
        for n in (0.0, 1.0, 3.0, 2.0, 1.0):
            chosen(module(selection, n=n), 1, 1)
        told = [(decision.kernel, decision.sizes) for decision in choices()]
    assert told == [
        ("zeroth", (1, 1, 0.0)),
        ("first", (1, 1, 3.0)),
        ("zeroth", (1, 1, 1.0)),
    ]


def test_many_shapes_are_decided_again_and_not_wrongly() -> None:
    with numbering() as launched:
        graph = module(NEAREST)
        for rows in range(1, 4200):
            graph(torch.empty(rows, 1))
        wanted = [choose(NEAREST, (rows, 1), {}) for rows in range(1, 4200)]
        assert launched == wanted
        assert chosen(graph) == 0


def slow_but(fast: int) -> Callable[[int], object]:
    """Return what makes all kernels but one take 3 ms."""
    return lambda number: None if number == fast else time.sleep(0.003)


@pytest.mark.parametrize("fast", [0, 1, 2])
def test_a_benchmark_picks_the_fastest_once(fast: int) -> None:
    with fresh_choice_cache(), numbering(slow_but(fast)) as launched:
        graph = module(BenchmarkChoice())
        assert chosen(graph) == fast
        assert set(launched) == {0, 1, 2}
        launched.clear()
        assert [chosen(graph, rows) for rows in (4, 5, 4)] == [fast] * 3
        assert launched == [fast] * 3


def test_a_call_without_elements_decides_nothing_for_others() -> None:
    with fresh_choice_cache(), numbering(slow_but(2)) as launched:
        graph = module(BenchmarkChoice())
        graph(torch.empty(0, 4))
        assert launched == [0]
        assert choices() == ()
        assert chosen(graph) == 2


def test_a_choice_that_fails_when_it_is_timed_is_not_taken() -> None:
    def fail(number: int) -> None:
        if number != 1:
            raise RuntimeError("not on this machine")

    with fresh_choice_cache(), numbering(fail) as launched:
        assert chosen(module(BenchmarkChoice())) == 1
        assert set(launched) == {1}


def test_threads_that_come_at_once_time_once() -> None:
    with fresh_choice_cache(), numbering(slow_but(1)) as launched:
        graph = module(BenchmarkChoice())
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda _: chosen(graph), range(16))) == [1] * 16
        alone = len([number for number in launched if number == 1]) - 16
        assert launched[-16:] == [1] * 16
        assert 0 < alone <= 60  # what timing it once takes at most


def test_decisions_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with (
        fresh_choice_cache(),
        numbering(slow_but(2)),
        caplog.at_level(logging.INFO, "wrapperir.choices"),
    ):
        chosen(module(NEAREST), 60, 60)
        chosen(module(BenchmarkChoice()))
        nearest, timed = choices()
    assert nearest[:2] == ("many", "first")
    assert nearest.sizes == (60, 60)
    assert timed.kernel == "second"
    assert [name for name, _ in timed.microseconds] == list(NAMES)
    times = [time for _, time in timed.microseconds]
    assert min(t for t in times[:2] if t is not None) > 2500
    assert [record.getMessage() for record in caplog.records] == [str(nearest), str(timed)]


def test_a_decision_is_kept_in_the_cache_of_choices() -> None:
    with fresh_choice_cache() as cache:
        with numbering(slow_but(1)):
            assert chosen(module(BenchmarkChoice())) == 1
        with numbering(slow_but(2)) as launched:  # as in a process that begins later
            assert chosen(module(BenchmarkChoice())) == 1
            assert launched == [1]
        with numbering(slow_but(2)):  # another case
            assert chosen(module(BenchmarkChoice()), 5) == 2
        assert cache.directory


def test_without_the_cache_every_process_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPERIR_CHOICE_CACHE", "0")
    for fast in (1, 2):
        with numbering(slow_but(fast)):
            assert chosen(module(BenchmarkChoice())) == fast


def test_copies_share_what_was_decided_in_their_process() -> None:
    with fresh_choice_cache(), numbering(slow_but(2)) as launched:
        graph = module(BenchmarkChoice())
        assert chosen(graph) == 2
        launched.clear()
        others = [copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))]  # noqa: S301
        assert [chosen(other, 7) for other in others] == [2, 2]
        assert launched == [2, 2]


def test_multi_kernels_of_one_name_are_told_apart() -> None:
    with numbering():
        first = module(NearestChoice((Hint(0, (4, 4)), Hint(1, (64, 64)))))
        second = module(NearestChoice((Hint(1, (4, 4)), Hint(2, (64, 64)))))
        third = module(NEAREST, kernels=(OPAQUE[2], OPAQUE[1], OPAQUE[0]))
        assert [chosen(graph, 60, 60) for graph in (first, second, third)] == [1, 2, 1]
        assert [chosen(graph) for graph in (first, second, third)] == [0, 1, 2]


def test_a_call_whose_multi_kernel_is_not_registered_is_a_diagnostic() -> None:
    with pytest.raises(DiagnosticError) as caught:
        call_multi_kernel("many:0123456789abcdef", [torch.zeros(1)], [], [], [])
    assert caught.value.diagnostics[0].code is Code.UNREGISTERED_KERNEL


def test_symbolic_sizes_stay_symbolic_where_a_graph_is_traced() -> None:
    with numbering():
        graph = module(COMPUTED, n=Symbol("s0") * 2)
        traced = make_fx(graph, tracing_mode="symbolic")(torch.ones(5, 6))
        for case in ((3, 4), (80, 90), (90, 80)):
            values = {"M": case[0], "N": case[1]}
            assert chosen(traced, *case) == choose(COMPUTED, case, values)
    # Of the range that the program declares, and of nothing that decides.
    env = traced.shape_env
    assert env is not None
    assert {str(guard.expr).split()[-1] for guard in env.guards} == {str(1 << 20)}


@pytest.mark.parametrize(
    ("selection", "strict"), [(NEAREST, True), (COMPUTED, False)], ids=["strict", "not"]
)
def test_what_was_exported_decides_by_its_sizes(selection: Selection, strict: bool) -> None:
    sizes = {0: torch.export.Dim("rows", max=512), 1: torch.export.Dim("columns", max=512)}
    with numbering():
        exported = torch.export.export(
            module(selection), (torch.ones(5, 6),), dynamic_shapes=(sizes,), strict=strict
        )
        for graph in (exported.module(), exported.run_decompositions().module()):
            for case in ((3, 4), (80, 90), (90, 8)):
                values = {"M": case[0], "N": case[1]}
                assert chosen(graph, *case) == choose(selection, case, values)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_was_compiled_again_decides_by_its_sizes(backend: str) -> None:
    torch._dynamo.reset()
    with numbering():
        graph = module(NEAREST)
        again = torch.compile(graph, backend=backend, fullgraph=True, dynamic=True)
        for case in ((3, 4), (80, 90), (90, 8)):
            assert chosen(again, *case) == choose(NEAREST, case, {})


def test_emitting_builds_and_runs_nothing() -> None:
    with numbering() as launched:
        parts = build_graph(program(BenchmarkChoice()))
        graph = build_graph_module(program(BenchmarkChoice()), {})
        assert len(parts.graph.nodes) == len(graph.graph.nodes)
        assert launched == []
