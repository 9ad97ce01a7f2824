"""Multi-kernels in graphs that are read: definitions and calls, as they were."""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontend_fx.checked import lowered
from tests.frontend_fx.emitted import emitted, known_kernels, without_lines
from tests.fx_emitter.choice_programs import OPAQUE
from tests.fx_emitter.choice_programs import program as choosing
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.fx import lower_graph_module
from wrapperir.ir import (
    BenchmarkChoice,
    ComputedChoice,
    ExprOp,
    FirstChoice,
    ForcedChoice,
    Hint,
    KernelCallLine,
    Line,
    MultiKernelLine,
    NearestChoice,
    Operation,
    Program,
    RecordedChoice,
    Selection,
    Symbol,
    SymbolDefinitionLine,
    settled_choice,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing.inputs import example_constants
from wrapperir.text import format_line, parse_expr, parse_program
from wrapperir.verify import verify

TEXT = """\
wrapperir 1

kernel_definition @small opaque(a: read f32*, b: read f32*, c: write f32*, f: i64) {
  entry = small
  source {
    | c = a @ b * f
  }
}

kernel_definition @split opaque(f: i64, c: write f32*, ws: read_write u8*, a: read f32*) {
  entry = split
  source {
    | c = a @ a * f
  }
}

kernel_definition @same opaque(a: read f32*, b: read f32*, c: write f32*, f: i64) {
  entry = small
  source {
    | c = a @ b * f
  }
}

multi_kernel @mm(a: read f32*, b: read f32*, c: write f32*, ws: read_write u8*, f: i64) {
  size M = size(a, 0)
  size N = size(b, 1)
  choice @small(0, 1, 2, 4)
  choice @split(4, 2, 3, 0) workspace(ws, 16 * M, MODE)
  choice @same(0, 0, 2, 4)
  select SELECT
}

program @main(%x: f32[s0, s0], %flag: bool[]) {
  symbol s0: int 2..1000 = size(%x, 0)
  %ws = allocate u8[ROOM] workspace(MODE)
  %out = allocate f32[s0, s0]
  kernel_call @mm(%x, %x, %out, %ws, s0 - 2)
  kernel_call @small(%out, %out, %out, 2)
  free %ws
  %r = conditional %flag (%x, %out) : f32[s0, s0] {
    true (%a: f32[s0, s0], %b: f32[s0, s0]) {
      %w = allocate u8[ROOM] workspace(MODE)
      %c = allocate f32[s0, s0]
      kernel_call @mm(%a, %b, %c, %w, 1)
      free %w
      return %c
    }
    false (%d: f32[s0, s0], %e: f32[s0, s0]) {
      %f = extern_kernel aten.neg.default(%d) : f32[s0, s0]
      return %f
    }
  }
  free %x
  free %out
  return %r
}
"""
UNDECIDED = (
    "nearest_shape(0: (64, 64), 1: (512, 512), 2: (64, 512))",
    'computed(where(M * N <= 4096, where(f > 2, 1, 0), 2)) on "a machine"',
    "benchmark",
)


def program(
    select: str,
    mode: str = "zero_on_call",
    room: str = "s0 * 16",
    text: str = TEXT,
) -> Program:
    text = text.replace("SELECT", select).replace("MODE", mode).replace("ROOM", room)
    if mode == "zero_per_program":
        text = text.replace("  free %ws\n", "").replace("      free %w\n", "")
    parsed = parse_program(text)
    assert verify(parsed) == ()
    return parsed


def read(given: Program) -> Program:
    """Return what the nodes of a program's graph say."""
    with known_kernels(given):
        return lowered(without_lines(emitted(given, example_constants(given)))).program


def texts(lines: Any) -> set[str]:
    return {format_line(evolve(line, provenance=None)) for line in lines}


def calls(given: Program) -> list[Line]:
    return [line for line in walk_lines(given.lines) if isinstance(line, KernelCallLine)]


@pytest.mark.parametrize("select", [*UNDECIDED, "forced(2)", "recorded(1)"])
def test_a_graph_gives_the_program_that_it_was_built_of(select: str) -> None:
    given = program(select)
    assert lower_graph_module(emitted(given, {})).program == given


@pytest.mark.parametrize("select", UNDECIDED)
def test_the_nodes_say_which_multi_kernel_is_called(select: str) -> None:
    given = program(select)
    found = read(given)
    assert texts(found.definitions) == texts(given.definitions)
    assert texts(calls(found)) == texts(calls(given))


def test_a_number_that_decides_is_read_as_the_program_gives_it() -> None:
    of_floats = TEXT.replace("f: i64", "f: f32").replace("s0 - 2", "s0 / 2")
    for select, wanted in ((UNDECIDED[1], "s0 / 2"), (UNDECIDED[0], "to_float(s0 / 2)")):
        first, *_ = calls(read(program(select, text=of_floats)))
        assert isinstance(first, KernelCallLine)
        assert first.arguments[-1] == parse_expr(wanted)


def test_a_settled_call_is_read_as_one_of_that_kernel() -> None:
    found = read(program("forced(2)"))
    assert [line.kernel for line in calls(found) if isinstance(line, KernelCallLine)] == [
        "same",
        "small",
        "same",
    ]
    assert not any(isinstance(line, MultiKernelLine) for line in found.definitions)


@pytest.mark.parametrize("room", ["s0 * 16", "16384"])
def test_what_is_kept_is_read_as_a_workspace_where_a_graph_says_so(room: str) -> None:
    given = program("benchmark", "zero_per_program", room)
    found = read(given)
    (line,) = [line for line in found.definitions if isinstance(line, MultiKernelLine)]
    kept = any(choice.workspaces for choice in line.choices)
    assert kept is (room != "16384")
    assert [choice.arguments for choice in line.choices] == [
        (0, 1, 2, 4),
        (4, 2, 3, 0),
        (0, 0, 2, 4),
    ]


def test_a_multi_kernel_that_is_not_known_is_a_diagnostic() -> None:
    module = without_lines(emitted(program("benchmark"), {}))
    with pytest.raises(DiagnosticError) as caught:
        lower_graph_module(module)
    assert {d.code for d in caught.value.diagnostics} == {Code.UNKNOWN_KERNEL}


def test_a_changed_graph_is_read_with_the_definitions_that_came_with_it() -> None:
    given = program(UNDECIDED[0])
    module = emitted(given, {})
    nodes = [n for n in module.graph.nodes if "call_multi_kernel" in str(n.target)]
    with module.graph.inserting_after(nodes[0]):
        module.graph.call_function(nodes[0].target, nodes[0].args)
    found = lowered(module).program
    assert len(calls(found)) == len(calls(given)) + 1
    assert texts(found.definitions) == texts(given.definitions)


SIZES = st.tuples(st.integers(1, 999), st.integers(1, 999))
SELECTIONS: st.SearchStrategy[Selection] = st.one_of(
    st.just(FirstChoice()),
    st.builds(ForcedChoice, st.integers(0, 2)),
    st.builds(RecordedChoice, st.integers(0, 2)),
    st.just(BenchmarkChoice()),
    st.lists(st.builds(Hint, st.integers(0, 2), SIZES), min_size=1, max_size=4).map(
        lambda hints: NearestChoice(tuple(hints))
    ),
    st.builds(
        lambda name, limit, yes, no: ComputedChoice(
            Operation(ExprOp.WHERE, (Operation(ExprOp.LE, (Symbol(name), limit)), yes, no))
        ),
        st.sampled_from("MNn"),
        st.integers(0, 999),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
)


def extents(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([4, 70, Symbol(name)])


@settings(max_examples=40)
@given(SELECTIONS, st.tuples(extents("s0"), extents("s1")))
def test_every_policy_is_read_as_it_was(
    selection: Selection, size: tuple[Any, Any]
) -> None:
    given = choosing(selection, size=size)
    assert lower_graph_module(emitted(given, {})).program == given
    found = read(given)
    many = [line for line in found.definitions if isinstance(line, MultiKernelLine)]
    if settled_choice(selection) is None and many:
        assert texts(found.definitions) == texts(given.definitions)
    else:
        (kernel,) = found.definitions
        assert kernel in OPAQUE
    assert len(calls(found)) == 1
    assert len([x for x in found.symbols if isinstance(x, SymbolDefinitionLine)]) == len(
        given.symbols
    )
