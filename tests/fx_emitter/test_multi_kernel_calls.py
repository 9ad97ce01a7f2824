"""What choices of multi-kernels are given and leave, in blocks and other processes too."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from attrs import evolve

from tests.forked_processes import ProcessServer
from tests.fx_emitter.choice_programs import (
    called,
    chosen,
    cpp_kernel,
    program,
    undecided,
)
from tests.fx_emitter.running import built
from tests.python_emitter.running import assert_same
from wrapperir.fx import kernel_registry
from wrapperir.interp import interpret
from wrapperir.ir import (
    BenchmarkChoice,
    Hint,
    Language,
    MultiKernelLine,
    NearestChoice,
    Program,
    RecordedChoice,
    SizeOf,
    Symbol,
    runtime_parameters,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.pipelines import run_passes
from wrapperir.testing.kernels import KernelKind, descriptor_kernel, library_kernel
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir.tuning.tune import tune_program
from wrapperir_fx.choosing import choices
from wrapperir_fx.graph_module import build_graph_module
from wrapperir_fx.kernel_functions import triton_calls

# Adds to a part of p, which q may overlap, as often as there are tensors.
ARGUMENTS = """
kernel_definition @both opaque(p: read_write f32*, q: read f32*, r: read_write f32*, n: i64) {
  entry = tests_both
  source {
    | p += q; r = n
  }
}
kernel_definition @less opaque(p: read_write f32*, n: i64, q: read f32*) {
  entry = tests_less
  source {
    | p += q
  }
}
kernel_definition @twice opaque(p: read_write f32*, other: read f32*, q: read f32*) {
  entry = tests_twice
  source {
    | p = other + q
  }
}

multi_kernel @many(p: read_write f32*, q: read f32*, r: read_write f32*, n: i64) {
  choice @both(0, 1, 2, 3)
  choice @less(0, 3, 1)
  choice @twice(0, 0, 1)
  select SELECT
}

program @main(%x: mutated f32[s0], %y: f32[s0]) {
  symbol s0: int 2..100 = size(%x, 0)
  %r = allocate f32[s0]
  extern_kernel aten.fill_.Scalar(%r, s0) writes(%r)
  kernel_call @many(%x, %y, %r, s0)
  %v = reinterpret %x as f32[s0 - 1]
  %w = reinterpret %x as f32[s0 - 1; offset 1]
  kernel_call @many(%v, %w, %r, s0)
  free %v
  free %w
  return %r
}
"""  # noqa: E501 - a line of the text form


FRACTION = """
kernel_definition @both opaque(p: read_write f32*) {
  entry = tests_both
  source {
    | p += 1
  }
}
kernel_definition @less opaque(p: read_write f32*) {
  entry = tests_less
  source {
    | p += 1
  }
}

multi_kernel @many(p: read_write f32*, n: i64) {
  choice @both(0)
  choice @less(0)
  select computed(where(n < 2, 0, 1))
}

program @main(%x: mutated f32[s0]) {
  symbol s0: int 2..100 = size(%x, 0)
  kernel_call @many(%x, s0 / 2)
  return
}
"""


def test_a_number_that_no_choice_takes_need_not_fit_its_parameter() -> None:
    launched: list[str] = []
    functions = {
        "tests_both": lambda p: launched.append("both"),
        "tests_less": lambda p: launched.append("less"),
    }
    with undecided(), mock.patch.dict(kernel_registry._OPAQUE, functions):
        graph = built(FRACTION)
        for rows in (3, 5, 4):
            graph(torch.ones(rows))
    assert launched == ["both", "less", "less"]


class Kernels:
    """The kernels of ``ARGUMENTS``; all but one raise after they wrote, or are slow."""

    def __init__(self, fast: str) -> None:
        self.fast = fast
        self.launched: list[str] = []

    def both(self, p: torch.Tensor, q: torch.Tensor, r: torch.Tensor, n: int) -> None:
        self._note("both")
        r.fill_(n)
        p.copy_(p + q)

    def less(self, p: torch.Tensor, n: int, q: torch.Tensor) -> None:
        assert isinstance(n, int)
        self._note("less")
        p.copy_(p + q)

    def twice(self, p: torch.Tensor, other: torch.Tensor, q: torch.Tensor) -> None:
        assert p.data_ptr() == other.data_ptr()
        self._note("twice")
        p.copy_(other + q)

    def _note(self, name: str) -> None:
        self.launched.append(name)
        if name != self.fast:
            torch.full((4000, 250), 1.5).exp()  # much longer than to add four numbers


@pytest.mark.parametrize("name", ["both", "less", "twice"])
def test_what_is_timed_leaves_arguments_as_one_launch_does(name: str) -> None:
    kernels = Kernels(name)
    functions = {f"tests_{n}": getattr(kernels, n) for n in ("both", "less", "twice")}
    x, y = torch.arange(5.0), torch.full((5,), 10.0)
    with (
        fresh_choice_cache(),
        undecided(),
        mock.patch.dict(kernel_registry._OPAQUE, functions),
    ):
        graph = built(ARGUMENTS.replace("SELECT", "benchmark"))
        (r,) = graph(x, y)
    # The second call adds what lies one further, which is not yet changed there.
    first = torch.arange(5.0) + 10
    wanted = first.clone()
    wanted[:-1] += first[1:]
    assert torch.equal(x, wanted)
    assert torch.equal(y, torch.full((5,), 10.0))
    assert torch.equal(r, torch.full((5,), 5.0))
    assert {*kernels.launched} == {"both", "less", "twice"}
    assert kernels.launched[-2:] == [name, name]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_each_choice_is_given_what_it_takes(index: int) -> None:
    kernels = Kernels("")
    functions = {f"tests_{n}": getattr(kernels, n) for n in ("both", "less", "twice")}
    text = ARGUMENTS.replace(
        "SELECT", f"computed(where(n < 50, {index}, {(index + 1) % 3}))"
    )
    x, y = torch.arange(5.0), torch.full((5,), 10.0)
    with undecided(), mock.patch.dict(kernel_registry._OPAQUE, functions):
        graph = built(text)
        graph(x, y)
    assert called(graph) == ["many", "many"]
    assert kernels.launched == [["both", "less", "twice"][index]] * 2
    assert x[-1] == 14


def test_what_may_overlap_what_is_written_is_written() -> None:
    graph = built(ARGUMENTS.replace("SELECT", "benchmark"))
    apart, beside = [
        node.args for node in graph.graph.nodes if "call_multi" in str(node.target)
    ]
    assert [len(lists) for lists in apart[1:]] == [2, 1, 1, 0]
    assert [len(lists) for lists in beside[1:]] == [3, 0, 1, 0]
    assert beside[0] == f"{apart[0]}:q"


BLOCKS = """
kernel_definition @zeroth opaque(a: read f32*, out: write f32*, n: i64) {
  entry = tests_zeroth
  source {
    | out = a + 1
  }
}
kernel_definition @first opaque(out: write f32*, n: i64, a: read f32*) {
  entry = tests_first
  source {
    | out = a + 100
  }
}

multi_kernel @many(a: read f32*, out: write f32*, n: i64) {
  size N = size(a, 0)
  choice @zeroth(0, 1, 2)
  choice @first(1, 2, 0)
  select SELECT
}

program @main(%x: f32[s0], %flag: bool[]) {
  symbol s0: int 2..100 = size(%x, 0)
  %c = conditional %flag (%x) : f32[s0] {
    true (%a: f32[s0]) {
      %b = allocate f32[s0]
      kernel_call @many(%a, %b, s0)
      return %b
    }
    false (%d: f32[s0]) {
      %e = extern_kernel aten.neg.default(%d) : f32[s0]
      return %e
    }
  }
  %n = while_loop (%c) () : f32[s0] {
    condition (%f: f32[s0]) {
      %m = extern_kernel aten.amax.default(%f) : f32[]
      %l = extern_kernel aten.lt.Scalar(%m, 150) : bool[]
      free %m
      return %l
    }
    body (%g: f32[s0]) {
      %h = allocate f32[s0]
      kernel_call @many(%g, %h, s0)
      return %h
    }
  }
  free %c
  %r = subgraph_call @part (%n) : f32[s0] {
    body (%i: f32[s0]) {
      %j = allocate f32[s0 + 20]
      extern_kernel aten.fill_.Scalar(%j, 1) writes(%j)
      %k = allocate f32[s0 + 20]
      kernel_call @many(%j, %k, s0)
      free %j
      %o = reinterpret %k as f32[s0]
      %p = extern_kernel aten.add.Tensor(%i, %o) : f32[s0]
      free %o
      free %k
      return %p
    }
  }
  free %n
  return %r
}
"""


SELECTS: dict[str, Callable[[int, int], int]] = {
    "nearest_shape(0: (4), 1: (40))": lambda size, n: int(size * size > 160),
    "computed(where(n + N > 30, 1, 0))": lambda size, n: int(n + size > 30),
}


@pytest.mark.parametrize("select", SELECTS)
def test_calls_in_nested_graphs_decide_there(select: str) -> None:
    def wanted(x: torch.Tensor, flag: bool) -> torch.Tensor:
        rows = len(x)
        added = (1, 100)[SELECTS[select](rows, rows)]
        x = x + added if flag else -x
        while x.max() < 150:
            x = x + added
        return x + 1 + (1, 100)[SELECTS[select](rows + 20, rows)]

    functions = {
        "tests_zeroth": lambda a, out, n: out.copy_(a + 1),
        "tests_first": lambda out, n, a: out.copy_(a + 100),
    }
    with undecided(), mock.patch.dict(kernel_registry._OPAQUE, functions):
        graph = built(BLOCKS.replace("SELECT", select))
        assert called(graph) == ["many"] * 3
        for rows, flag in ((3, True), (3, False), (12, True), (60, True), (60, False)):
            x = torch.arange(float(rows))
            assert_same(graph(x, torch.tensor(flag)), (wanted(x, flag),))


def test_a_number_decides_as_the_program_gives_it() -> None:
    text = """
    kernel_definition @zeroth opaque(out: write f32*, f: f32, b: bool) {
      entry = tests_zeroth
      source {
        | out = 0
      }
    }
    kernel_definition @first opaque(out: write f32*, f: f32, b: bool) {
      entry = tests_first
      source {
        | out = 1
      }
    }
    multi_kernel @many(out: write f32*, f: f32, b: bool) {
      choice @zeroth(0, 1, 2)
      choice @first(0, 1, 2)
      select computed(where(b == 2, where(f // 4 == 1, 0, 1), 1))
    }
    program @main(%n: i64) {
      symbol n: int = value(%n)
      %out = allocate f32[1]
      kernel_call @many(%out, n, n - 4)
      return %out
    }
    """
    given: list[tuple[float, bool]] = []

    def writing(number: int) -> Callable[..., None]:
        def write(out: torch.Tensor, f: float, b: bool) -> None:
            given.append((f, b))
            out.fill_(number)

        return write

    functions = {"tests_zeroth": writing(0), "tests_first": writing(1)}
    with undecided(), mock.patch.dict(kernel_registry._OPAQUE, functions):
        graph = built(text)
        (node,) = [x for x in graph.graph.nodes if "call_multi" in str(x.target)]
        assert [str(number) for number in node.args[4]] == ["given_int", "sub"]
        numbers = [int(graph(n)[0]) for n in (6, 7, 4)]
    assert numbers == [0, 1, 1]
    assert [(type(f), f, b) for f, b in given] == [
        (float, 6.0, True),
        (float, 7.0, True),
        (float, 4.0, False),
    ]


SPINNING = tuple(cpp_kernel(number, spin) for number, spin in ((0, 2000), (1, 0)))
LOAD = """
import os, sys, torch
from wrapperir_fx.choosing import choices
modules, given = torch.load(sys.argv[1], weights_only=False)
for module in modules:
    (out,) = module(given)
    print(int(out.max()), choices()[-1].reason)
    os.environ["WRAPPERIR_CHOICE_CACHE"] = "0"
"""


def test_a_saved_module_keeps_a_choice_that_is_in_the_cache_or_decides_anew(
    tmp_path: Path, process_server: ProcessServer
) -> None:
    modules = [
        build_graph_module(program(BenchmarkChoice(), kernels), {})
        for kernels in (SPINNING, SPINNING[::-1])
    ]
    with undecided(), fresh_choice_cache():
        path = tmp_path / "module"
        torch.save((modules, torch.zeros(4, 4)), path)
        (again, _), given = torch.load(path, weights_only=False)
        assert chosen(again) == 1
        assert given.shape == (4, 4)
        done = process_server.run("-c", LOAD, str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "1 the fastest when it was timed before",
        "1 the fastest",
    ]


def test_a_slow_kernel_in_cpp_is_not_chosen() -> None:
    for kernels, fast in ((SPINNING, 1), (SPINNING[::-1], 1)):
        with undecided(), fresh_choice_cache():
            graph = build_graph_module(program(BenchmarkChoice(), kernels), {})
            assert chosen(graph) == fast


def sums(kernels: Sequence[Any], selection: Any) -> Program:
    """Return a program that adds by a multi-kernel whose sizes only the run knows."""
    b = ProgramBuilder()
    rows = Symbol("s0")
    x, y = (b.input(tensor("f32", (rows, 8)), name=name) for name in "xy")
    b.symbol("s0", SizeOf("x", 0), lower=1, upper=9)
    for kernel in kernels:
        b.kernel(kernel)
    sizes = {"N": (kernels[0].parameters[0].name, 0)}
    many = b.multi_kernel(kernels, name="many", sizes=sizes, selection=selection)
    out = b.allocate(tensor("f32", (rows, 8)), name="out")
    scalars = [rows * 8] if len(kernels[0].parameters) < 6 else [rows, 8]
    b.call(many, x, y, out, *scalars)
    return b.build(out)


TWO = NearestChoice((Hint(0, (2,)), Hint(1, (8,))))


def test_choices_in_triton_are_launched_by_the_operator() -> None:
    kinds = (KernelKind.ADD, KernelKind.ADD_REVERSED)
    text = sums([library_kernel(kind, Language.TRITON) for kind in kinds], TWO)
    graph = build_graph_module(text, {})
    assert called(graph) == ["many"]
    for rows in (1, 8):
        x, y = torch.rand(rows, 8), torch.rand(rows, 8)
        assert_same(graph(x, y), (x + y,))
        assert_same(graph(x, y), interpret(text, [x, y], {}))


def test_choices_may_be_in_several_languages() -> None:
    triton = library_kernel(KernelKind.ADD, Language.TRITON)
    opaque = evolve(
        triton,
        name="opaque_add",
        language=Language.OPAQUE,
        parameters=runtime_parameters(triton.parameters),
        grid=(),
        configs=(),
        entry="tests_add",
    )
    calls: list[int] = []

    def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, n: int) -> None:
        calls.append(n)
        torch.add(x, y, out=out)

    graph = build_graph_module(sums([triton, opaque], TWO), {})
    with undecided(), mock.patch.dict(kernel_registry._OPAQUE, {"tests_add": add}):
        graph = build_graph_module(sums([triton, opaque], TWO), {})
        for rows in (1, 8, 2, 7):
            x, y = torch.rand(rows, 8), torch.rand(rows, 8)
            assert_same(graph(x, y), (x + y,))
    assert calls == [64, 56]


def test_choices_may_take_tensors_behind_descriptors() -> None:
    kernel = descriptor_kernel()
    text = sums([kernel, evolve(kernel, name="other", metadata=(("a.b", 1),))], TWO)
    graph = build_graph_module(text, {})
    assert called(graph) == ["many"]
    for rows in (1, 8):
        x, y = torch.rand(rows, 8), torch.rand(rows, 8)
        assert_same(graph(x, y), (x + y,))


def test_configs_are_choices() -> None:
    """The first config is launched, unless the pass made choices of them."""
    kernel = library_kernel(KernelKind.ADD, Language.TRITON)
    b = ProgramBuilder()
    x, y = (b.input(tensor("f32", (16,)), name=name) for name in "xy")
    out = b.allocate(tensor("f32", (16,)), name="out")
    whole = b.call(b.kernel(kernel), x, y, out, 16).build(out)
    split = run_passes(whole, ["split_configs"])
    many = split.definitions[-1]
    assert isinstance(many, MultiKernelLine)
    recorded = evolve(many, selection=RecordedChoice(1))
    tuned = evolve(split, definitions=(*split.definitions[:-1], recorded))
    blocks = [dict(config.values)["XBLOCK"] for config in kernel.configs]
    given = torch.rand(16), torch.rand(16)
    for of, block in ((whole, blocks[0]), (tuned, blocks[1])):
        graph = build_graph_module(of, {})
        ((_, node),) = triton_calls(graph)
        kwargs = node.kwargs["kwargs"]
        assert isinstance(kwargs, dict)
        assert kwargs["XBLOCK"] == block
        assert_same(graph(*given), (given[0] + given[1],))
    with undecided(), fresh_choice_cache():
        graph = build_graph_module(split, {})
        assert called(graph) == [many.name]
        assert_same(graph(*given), (given[0] + given[1],))


def test_a_benchmark_finds_what_tuning_has_timed() -> None:
    given = program(BenchmarkChoice(), SPINNING, size=(4, 4))
    with undecided(), fresh_choice_cache() as cache:
        tuned = tune_program(given, emitter="fx", cache=cache, seconds=0.01)
        (many,) = (x for x in tuned.program.definitions if isinstance(x, MultiKernelLine))
        assert isinstance(many.selection, RecordedChoice)
        assert called(build_graph_module(tuned.program, {})) == ["first"]
        assert chosen(build_graph_module(given, {})) == 1
        assert choices()[-1].reason == "the fastest when it was timed before"
