"""Each line kind as nodes: what they are, that all of a line is in them, how they run."""

import re

import pytest
import torch
from attrs import evolve, fields

from tests.fx_emitter.line_cases import NODES
from tests.fx_emitter.running import load
from tests.python_emitter.line_cases import CASES
from tests.python_emitter.running import assert_same
from wrapperir.emit import Value
from wrapperir.fx import LINES as LINES_KEY
from wrapperir.fx import GraphParts
from wrapperir.interp import interpret
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    CommentLine,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    GraphRegionLine,
    KernelCallLine,
    KernelDefinitionLine,
    Line,
    MultiKernelLine,
    MultiOutputLine,
    PlaceLine,
    Program,
    Provenance,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_builder import build_graph

SUPPORTED = FxEmitter.support.lines

RANDOM = "a reserved word"  # its case draws random numbers


def body_of(text: str) -> str:
    """Return the code of the lines of a program, and of its nested graphs."""
    program = parse_program(text)
    assert verify(program) == ()
    code = code_of("", build_graph(program))
    found = re.search(r"\n[^\n]+check_range\([^\n]+'s0'\)\n(.*)", code, re.DOTALL)
    assert found is not None, code
    return found[1].strip()


def code_of(name: str, parts: GraphParts) -> str:
    """Return the code of a graph, without what drops values, and that of nested ones."""
    _, _, body = parts.graph.python_code("self").src.strip().partition("\n")
    lines = [re.sub(r";  [\w =]+ = None$", "", line[4:]) for line in body.splitlines()]
    text = "\n".join([name, *(line for line in lines if line)])
    nested = [
        code_of(f"{name or 'self'}.{attribute}:", graph)
        for attribute, graph in parts.attributes.graphs.items()
    ]
    return "\n".join([text, *nested])


@pytest.mark.parametrize("name", CASES)
def test_a_line_becomes_these_nodes(name: str) -> None:
    assert body_of(CASES[name].text) == NODES[name].strip()


def inputs(rows: int) -> list[Value]:
    x = torch.arange(rows * 8, dtype=torch.float32).reshape(rows, 8) - 9
    return [x, torch.full((8, 8), 2.0), 5, torch.tensor(True)]


@pytest.mark.parametrize("name", CASES)
def test_a_line_runs_as_it_is_interpreted(name: str) -> None:
    program = parse_program(CASES[name].text)
    constants = {"fc.weight": torch.eye(8)}
    call = load(program, constants)
    for rows in (2, 4, 4):
        ours, theirs = inputs(rows), inputs(rows)
        given = list(ours)
        outputs = call(given)
        assert given == []
        wanted = interpret(program, theirs, constants)
        if RANDOM not in name:
            assert_same(outputs, wanted)
            assert_same(ours, theirs)


def test_every_line_kind_has_a_case() -> None:
    assert NODES.keys() == CASES.keys()
    covered: set[type[Line]] = set()
    for case in CASES.values():
        program = parse_program(case.text)
        covered |= {type(line) for line in program.definitions}
        covered |= {type(line) for line in walk_lines(program.lines)}
    assert covered == SUPPORTED


# Every line kind, with a value other than the default for each of its fields.
EVERYTHING = """\
wrapperir 1

kernel_definition @copy cpp(from: read f32*, to: write f32*) {
  entry = copy
  metadata "test.shape" = "flat"
  source {
    | extern "C" void copy(const float* from, float* to) { *to = *from; }
  }
}

kernel_definition @mark opaque(p: read_write f32*) {
  entry = mark
  source {
    | p[0] = 1
  }
}

kernel_definition @double triton(p: read_write f32*, XBLOCK: constexpr, EXTRA: constexpr) {
  grid = (5, 1, 1)
  constant EXTRA = 7
  config XBLOCK = 16, num_warps = 4
  entry = double
  source {
    | @triton.jit
    | def double(p, XBLOCK: tl.constexpr, EXTRA: tl.constexpr):
    |     i = tl.arange(0, XBLOCK)
    |     tl.store(p + i, tl.load(p + i) * 2)
  }
}

multi_kernel @either(p: read_write f32*, q: read_write f32*) {
  choice @mark(0)
  choice @mark(1)
  select forced(1)
}

multi_kernel @nearest(p: read_write f32*, q: read_write f32*) {
  size N = size(p, 0)
  choice @mark(0)
  choice @mark(1)
  select nearest_shape(0: (4), 1: (64))
}

program @main(%x: mutated f32[8], %y: f32[8], %flag: bool[], %n: i64, %z: mutated f32[s1]) {
  symbol s0: int = value(%n)
  symbol s1: int 0..100 = size(%z, 0)
  %alloc = allocate f32[8] workspace(zero_on_call)
  %pool = allocate_pool pool[512]
  %place = place f32[8] in %pool at 64 workspace(zero_on_call)
  free %pool
  %view = reinterpret %x as f32[2]
  %alias = extern_kernel aten.slice.Tensor(%x, 0, 0, end = 8) aliases(%x) : f32[8]
  kernel_call @copy(%alias, %x)
  %target = allocate f32[8]
  kernel_call @copy(%y, %target) @cpu stream(1)
  kernel_call @either(%place, %alloc)
  kernel_call @double(%alloc)
  %own = allocate f32[8]
  extern_kernel aten.fill_.Scalar(%own, 1) writes(%own) @cpu stream(2)
  %pair = extern_kernel aten.split.Tensor(%x, 4) aliases(%x) : (f32[4], f32[4; offset 4])
  %half = multi_output %pair[1] : f32[4; offset 4]
  free %pair
  %event = record_event @cpu stream(3)
  wait_event %event @cpu stream(4)
  symbol_definition u0: int 0..100 = size(%half, 0)
  kernel_call @nearest(%z, %x)
  assert_size_stride %half (4) (1) "layout"
  assert_alignment %x 4 "address"
  assert_scalar u0 > 3 "condition"
  assert_not_nan %x "finite"
  comment "that was all"
  free %view
  %cond = conditional %flag (%x) : f32[8] {
    true (%a: f32[8]) {
      %b = extern_kernel aten.neg.default(%a) : f32[8]
      return %b
    }
    false (%c: f32[8]) {
      %d = extern_kernel aten.abs.default(%c) : f32[8]
      return %d
    }
  }
  %loop = while_loop (%x) (%half) : f32[8] {
    condition (%e: f32[8], %f: f32[4; offset 4]) {
      return s0 > 7
    }
    body (%g: f32[8], %h: f32[4; offset 4]) {
      %i = extern_kernel aten.exp.default(%g) : f32[8]
      return %i
    }
  }
  while_loop () (%y) {
    condition (%p: f32[8]) {
      return false
    }
    body (%q: f32[8]) {
      return
    }
  }
  %sub = subgraph_call @block (%x) : f32[8] {
    body (%j: f32[8]) {
      %k = extern_kernel aten.sin.default(%j) : f32[8]
      return %k
    }
  }
  %region = graph_region @replayed (%y) @cpu recordings(4) : f32[8] {
    body (%l: f32[8]) {
      %m = extern_kernel aten.cos.default(%l) : f32[8]
      return %m
    }
  }
  free %half
  %reuse = reuse %cond as f32[6]
  return %alloc, %place, %alias, %target, %own, %reuse, %loop, %sub, %region, u0
}
"""

ALTERED: dict[tuple[type[Line], str], tuple[str, str]] = {
    (KernelDefinitionLine, "name"): ("@copy", "@copied"),
    (KernelDefinitionLine, "language"): ("@copy cpp", "@copy opaque"),
    (KernelDefinitionLine, "parameters"): ("from: read f32*", "from: read_write f32*"),
    (KernelDefinitionLine, "grid"): ("grid = (5, 1, 1)", "grid = (6, 1, 1)"),
    (KernelDefinitionLine, "constants"): ("EXTRA = 7", "EXTRA = 8"),
    (KernelDefinitionLine, "configs"): ("num_warps = 4", "num_warps = 8"),
    (KernelDefinitionLine, "entry"): ("entry = copy", "entry = copies"),
    (KernelDefinitionLine, "metadata"): ('"flat"', '"round"'),
    (KernelDefinitionLine, "source"): ("*to = *from", "*to = 2 * *from"),
    (MultiKernelLine, "name"): ("@nearest", "@other"),
    (MultiKernelLine, "parameters"): ("(p: read_write f32*, q", "(p: read_write f32*, r"),
    (MultiKernelLine, "sizes"): ("size N = size(p, 0)", "size M = size(p, 0)"),
    (MultiKernelLine, "choices"): ("choice @mark(1)", "choice @mark(0)"),
    (MultiKernelLine, "selection"): ("select forced(1)", "select forced(0)"),
    (AllocateLine, "result"): ("%target", "%renamed"),
    (AllocateLine, "type"): ("%target = allocate f32[8]", "%target = allocate f32[9]"),
    (AllocateLine, "workspace"): (
        "%alloc = allocate f32[8] workspace(zero_on_call)",
        "%alloc = allocate f32[8]",
    ),
    (AllocatePoolLine, "result"): ("%pool", "%renamed"),
    (AllocatePoolLine, "type"): ("pool[512]", "pool[513]"),
    (PlaceLine, "result"): ("%place", "%renamed"),
    (PlaceLine, "type"): ("%place = place f32[8]", "%place = place f32[9]"),
    (PlaceLine, "pool"): ("f32[8] in %pool", "f32[8] in %alloc"),
    (PlaceLine, "offset"): ("at 64", "at 128"),
    (PlaceLine, "workspace"): ("at 64 workspace(zero_on_call)", "at 64"),
    (FreeLine, "buffer"): ("free %view", "free %alias"),
    (ReuseLine, "result"): ("%reuse", "%renamed"),
    (ReuseLine, "source"): ("reuse %cond", "reuse %loop"),
    (ReuseLine, "type"): ("%cond as f32[6]", "%cond as f32[7]"),
    (ReinterpretLine, "result"): ("%view", "%renamed"),
    (ReinterpretLine, "source"): ("reinterpret %x", "reinterpret %y"),
    (ReinterpretLine, "type"): ("reinterpret %x as f32[2]", "reinterpret %x as f32[3]"),
    (KernelCallLine, "kernel"): ("kernel_call @copy(%y", "kernel_call @either(%y"),
    (KernelCallLine, "arguments"): ("@copy(%alias, %x)", "@copy(%y, %x)"),
    (KernelCallLine, "device"): ("%target) @cpu stream(1)", "%target) @cpu:0 stream(1)"),
    (KernelCallLine, "stream"): ("%target) @cpu stream(1)", "%target) @cpu stream(5)"),
    (ExternKernelLine, "result"): ("%alias", "%renamed"),
    (ExternKernelLine, "type"): ("aliases(%x) : f32[8]", "aliases(%x) : f32[7]"),
    (ExternKernelLine, "operator"): ("aten.fill_.Scalar", "aten.add_.Scalar"),
    (ExternKernelLine, "arguments"): ("(%own, 1)", "(%own, 2)"),
    (ExternKernelLine, "keywords"): ("end = 8", "end = 7"),
    # Who shares memory decides what a C++ kernel is said to write.
    (ExternKernelLine, "aliases"): ("end = 8) aliases(%x)", "end = 8)"),
    (ExternKernelLine, "device"): ("@cpu stream(2)", "@cpu:0 stream(2)"),
    (ExternKernelLine, "stream"): ("@cpu stream(2)", "@cpu stream(5)"),
    (MultiOutputLine, "result"): ("%half", "%renamed"),
    (MultiOutputLine, "source"): ("multi_output %pair[1]", "multi_output %alias[1]"),
    (MultiOutputLine, "indices"): ("%pair[1]", "%pair[0]"),
    (SymbolDefinitionLine, "symbol"): ("u0", "renamed"),
    (SymbolDefinitionLine, "kind"): ("u0: int", "u0: float"),
    (SymbolDefinitionLine, "lower"): ("0..100", "1..100"),
    (SymbolDefinitionLine, "upper"): ("0..100", "0..101"),
    (SymbolDefinitionLine, "source"): ("size(%half, 0)", "size(%view, 0)"),
    (RecordEventLine, "result"): ("%event", "%renamed"),
    (RecordEventLine, "device"): ("event @cpu stream(3)", "event @cpu:0 stream(3)"),
    (RecordEventLine, "stream"): ("stream(3)", "stream(5)"),
    (WaitEventLine, "event"): ("wait_event %event", "wait_event %alloc"),
    (WaitEventLine, "device"): ("@cpu stream(4)", "@cpu:0 stream(4)"),
    (WaitEventLine, "stream"): ("stream(4)", "stream(5)"),
    (AssertSizeStrideLine, "buffer"): ("stride %half", "stride %view"),
    (AssertSizeStrideLine, "size"): ("(4) (1)", "(5) (1)"),
    (AssertSizeStrideLine, "stride"): ("(4) (1)", "(4) (2)"),
    (AssertSizeStrideLine, "message"): ('"layout"', '"other"'),
    (AssertAlignmentLine, "buffer"): ("alignment %x", "alignment %y"),
    (AssertAlignmentLine, "bytes"): ("alignment %x 4", "alignment %x 8"),
    (AssertAlignmentLine, "message"): ('"address"', '"other"'),
    (AssertScalarLine, "condition"): ("u0 > 3", "u0 > 2"),
    (AssertScalarLine, "message"): ('"condition"', '"other"'),
    (AssertNotNanLine, "buffer"): ("nan %x", "nan %y"),
    (AssertNotNanLine, "message"): ('"finite"', '"other"'),
    (ConditionalLine, "results"): ("%cond", "%renamed"),
    (ConditionalLine, "predicate"): ("conditional %flag", "conditional s0 > 1"),
    (ConditionalLine, "operands"): ("%flag (%x)", "%flag (%y)"),
    (ConditionalLine, "on_true"): ("aten.neg", "aten.relu"),
    (ConditionalLine, "on_false"): ("aten.abs", "aten.relu"),
    (WhileLoopLine, "results"): ("%loop", "%renamed"),
    (WhileLoopLine, "carried"): ("while_loop (%x)", "while_loop (%y)"),
    (WhileLoopLine, "invariant"): ("(%x) (%half)", "(%x) (%view)"),
    (WhileLoopLine, "stacked"): ("while_loop () (%y)", "while_loop stacked () (%y)"),
    (WhileLoopLine, "condition"): ("s0 > 7", "s0 > 8"),
    (WhileLoopLine, "body"): ("aten.exp", "aten.relu"),
    (SubgraphCallLine, "results"): ("%sub", "%renamed"),
    (SubgraphCallLine, "name"): ("@block", "@part"),
    (SubgraphCallLine, "operands"): ("@block (%x)", "@block (%y)"),
    (SubgraphCallLine, "body"): ("aten.sin", "aten.relu"),
    (GraphRegionLine, "results"): ("%region", "%renamed"),
    (GraphRegionLine, "name"): ("@replayed", "@part"),
    (GraphRegionLine, "operands"): ("@replayed (%y)", "@replayed (%x)"),
    (GraphRegionLine, "device"): ("@cpu recordings", "@cpu:0 recordings"),
    (GraphRegionLine, "stream"): ("recordings", "stream(6) recordings"),
    (GraphRegionLine, "recordings"): ("recordings(4)", "recordings(5)"),
    (GraphRegionLine, "body"): ("aten.cos", "aten.relu"),
}
# What is in no node, and where it is or why that is right.
ELSEWHERE = {
    (ExternKernelLine, "writes"): "the operator's schema says what it writes",
    (MultiOutputLine, "type"): "it is that of the tuple's element",
    (CommentLine, "text"): "it is in the meta of the node that comes next",
    **{(kind, "provenance"): "it is in the meta of the nodes" for kind in SUPPORTED},
}


def appearance(text: str) -> list[str]:
    """Return all that says what the graphs of a program do: code and values."""
    parts = build_graph(parse_program(text))
    return [code_of("", parts), *values_of(parts)]


def values_of(parts: GraphParts) -> list[str]:
    values: list[str] = []
    for node in parts.graph.nodes:
        val = node.meta.get("val")
        values += [
            f"{node.name}: {tuple(x.shape)} {x.stride()} {x.storage_offset()} {x.dtype}"
            for x in (val if isinstance(val, tuple) else (val,))
            if isinstance(x, torch.Tensor)
        ]
    for nested in parts.attributes.graphs.values():
        values += values_of(nested)
    return values


def test_every_field_of_every_line_kind_is_altered_or_accounted_for() -> None:
    everything = {(kind, item.name) for kind in SUPPORTED for item in fields(kind)}
    assert ALTERED.keys() | ELSEWHERE.keys() == everything
    assert not ALTERED.keys() & ELSEWHERE.keys()


def test_the_program_of_everything_is_valid() -> None:
    assert verify(parse_program(EVERYTHING)) == ()


@pytest.mark.parametrize(
    ("kind", "name"),
    ALTERED,
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_no_field_of_a_line_is_dropped_silently(kind: type[Line], name: str) -> None:
    old, new = ALTERED[kind, name]
    text = EVERYTHING.replace(old, new)
    program, altered = parse_program(EVERYTHING), parse_program(text)
    pairs = zip(all_lines(program), all_lines(altered), strict=True)
    assert any(
        isinstance(line, kind) and getattr(line, name) != getattr(other, name)
        for line, other in pairs
    )
    assert appearance(text) != appearance(EVERYTHING)


def all_lines(program: Program) -> list[Line]:
    return [*program.definitions, *walk_lines(program.lines)]


def test_what_is_in_no_node_is_in_a_meta() -> None:
    program = parse_program(EVERYTHING)
    lines = tuple(
        evolve(line, provenance=Provenance(origins=(f"op{index}",)))
        for index, line in enumerate(program.lines)
    )
    parts = build_graph(evolve(program, lines=lines))
    metas = [node.meta for node in parts.graph.nodes]
    assert tuple(line for meta in metas for line in meta.get(LINES_KEY, ())) == lines
    assert {meta["provenance"] for meta in metas if "provenance" in meta} == {
        line.provenance for line in lines if not isinstance(line, CommentLine)
    }
    for meta in metas:
        if LINES_KEY in meta:
            assert meta["provenance"] is meta[LINES_KEY][-1].provenance


def test_no_line_is_dropped_silently() -> None:
    program = parse_program(EVERYTHING)
    whole = code_of("", build_graph(program))
    for index, line in enumerate(program.lines):
        rest = (*program.lines[:index], *program.lines[index + 1 :])
        try:
            code = code_of("", build_graph(evolve(program, lines=rest)))
        except KeyError:  # the result that other lines need is missing
            continue
        assert (code == whole) is isinstance(line, CommentLine), line


@pytest.mark.parametrize("name", CASES)
def test_every_line_is_in_the_graph_once_and_in_order(name: str) -> None:
    program = parse_program(CASES[name].text)
    nodes = build_graph(program).graph.nodes
    found = tuple(line for node in nodes for line in node.meta.get(LINES_KEY, ()))
    assert found == program.lines
