"""The effects of lines, and the nested blocks that lines have."""

import inspect

from attrs import evolve

from wrapperir.ir import (
    BODY_LINES,
    KEYWORDS,
    LINES,
    Block,
    CommentLine,
    Device,
    LineVisitor,
    Stream,
    SubgraphCallLine,
    keyword,
)
from wrapperir.ir.blocks import (
    BLOCK_FIELDS,
    blocks_of,
    nested_blocks,
    rewrite_blocks,
    walk_lines,
    walk_places,
)
from wrapperir.ir.effects import Actor, Effects
from wrapperir.ir.line_effects import (
    LineEffects,
    definitions,
    drops,
    uses,
)
from wrapperir.ir.mentions import line_symbols
from wrapperir.text import parse_program

PROGRAM = parse_program("""wrapperir 1
kernel_definition @add opaque(a: read f32*, b: read_write f32*, o: write f32*, n: i32) {
  entry = add
  source {
    | opaque
  }
}

program @main(%x: f32[s0, 4], %y: mutated f32[s0, 4], %p: bool[1]) {
  symbol s0: int 1..16 = size(%x, 0)
  group "g" size 2

  %buf0 = allocate f32[s0, 4]
  %ws0 = allocate i32[8] workspace(zero_on_call)
  %ws1 = allocate i32[8] workspace(zero_per_program)
  %pool0 = allocate_pool pool[s0 * 16]
  %buf1 = place f32[s0, 4] in %pool0 at 0
  kernel_call @add(%x, %y, %x, s0 * 4)
  kernel_call @unknown(%x, 1) @cuda:1 stream(2)
  %t = extern_kernel aten.max.dim(%x, 1) : (f32[s0], i64[s0])
  %e = multi_output %t[1] : i64[s0]
  %v = extern_kernel aten.view.default(%x, [s0, 4]) aliases(%x) : f32[s0, 4]
  extern_kernel aten.add.out(%x, %x, out = %buf1) writes(%buf1)
  %view = reinterpret %buf0 as f32[4, s0]
  %next = reuse %buf0 as f32[s0, 4]
  %event = record_event @cuda stream(1)
  wait_event %event @cuda:0 stream(3)
  %w0 = collective all_to_all "g" reads(%x) writes(%buf1) read_splits(s0) write_splits(0)
  wait_collective %w0 reads(%x) writes(%buf1)
  %w1 = collective all_reduce(sum) "g" reads(%y) writes(%y) stream(1)
  symbol_definition u0: int = item(%p)
  symbol_definition u1: int = size(%x, 0)
  assert_size_stride %x (s0, 4) (4, 1)
  assert_alignment %x 16
  assert_scalar s0 > 0
  assert_not_nan %x
  %r0 = conditional %p (%x) : f32[s0, 4] {
    true (%a: f32[s0, 4]) {
      %b = extern_kernel aten.relu.default(%a) : f32[s0, 4]
      return %b
    }
    false (%c: f32[s0, 4]) {
      %d = extern_kernel aten.neg.default(%c) : f32[s0, 4]
      return %d
    }
  }
  %r1 = while_loop (%x) (%p) : f32[s0, 4] {
    condition (%f: f32[s0, 4], %q: bool[1]) {
      %g = extern_kernel aten.logical_not.default(%q) : bool[1]
      return %g
    }
    body (%h: f32[s0, 4], %i: bool[1]) {
      %j = extern_kernel aten.neg.default(%h) : f32[s0, 4]
      return %j
    }
  }
  %r2 = subgraph_call @inner(%x) : f32[s0, 4] {
    body (%k: f32[s0, 4]) {
      %l = extern_kernel aten.neg.default(%k) : f32[s0, 4]
      return %l
    }
  }
  %r3 = graph_region @region (%x) stream(2) recordings(3) : f32[s0, 4] {
    body (%m: f32[s0, 4]) {
      %n = extern_kernel aten.neg.default(%m) : f32[s0, 4]
      return %n
    }
  }
  free %view
  comment "done"
  return %r0
}
""")

EXPECTED = """
allocate: defines buf0 (allocated) on cpu
allocate: defines ws0 (allocated); stream 0 writes all ws0 on cpu
allocate: defines ws1 (program) on cpu
allocate_pool: defines pool0 (pool) on cpu
place: uses pool0; defines buf1 (placed pool0) on cpu
kernel_call: uses x y x; cpu:0 0 reads x; cpu:0 0 reads writes y; cpu:0 0 writes x \
on cpu, launches; may fail
kernel_call: uses x; cuda:1 2 reads writes x on cuda:1, launches; may fail
extern_kernel: uses x; defines t (operator); cpu:0 0 reads x; cpu:0 0 writes all t \
on cpu, launches; may fail
multi_output: uses t; defines e (element t (1,))
extern_kernel: uses x; defines v (operator may alias x); cpu:0 0 reads x \
on cpu, launches; may fail
extern_kernel: uses x x buf1; cpu:0 0 reads x; cpu:0 0 reads writes buf1 \
on cpu, launches; may fail
reinterpret: uses buf0; defines view (view buf0) on cpu
reuse: uses buf0; defines next (moved buf0); drops buf0 on cpu
record_event: defines event (none) on cuda, records event
wait_event: uses event on cuda:0, awaits event
collective: uses x buf1; defines w0 (none); cpu:0 0 reads x; cpu:0 0 writes all buf1 \
on cpu, launches, starts w0; may fail
wait_collective: uses w0 x buf1; cpu:0 0 reads x; cpu:0 0 reads writes buf1 \
on cpu, launches, completes w0; may fail
collective: uses y; defines w1 (none); cpu:0 1 reads writes y \
on cpu, launches, starts w1; may fail
symbol_definition: uses p; host reads p; waits; symbol u0; may fail
symbol_definition: uses x; symbol u1; may fail
assert_size_stride: uses x; may fail
assert_alignment: uses x; may fail
assert_scalar:; may fail
assert_not_nan: uses x; host reads x; waits; may fail
conditional: uses p x; defines r0 (block); host reads p; stream 0 reads writes x; \
stream 0 writes all r0; on_true returns; on_false returns; waits; may fail
while_loop: uses x p; defines r1 (block); \
stream 0 reads writes x; stream 0 reads writes p; \
stream 0 writes all r1; condition repeats is read; body repeats returns; may fail
subgraph_call: uses x; defines r2 (block); \
stream 0 reads writes x; stream 0 writes all r2; \
body returns; may fail
graph_region: uses x; defines r3 (block); \
cpu:0 2 reads writes x; cpu:0 2 writes all r3; \
body returns on cpu, launches; may fail
free: uses view; drops view
comment:
"""


def described(effects: Effects) -> str:
    parts = [f" uses {' '.join(effects.uses)}"] if effects.uses else [""]
    for made in effects.definitions:
        what = [made.origin, made.source, made.indices or None]
        what += ["may alias", *made.may_alias] if made.may_alias else []
        parts.append(f" defines {made.name} ({' '.join(str(w) for w in what if w)})")
    if effects.drops is not None:
        parts.append(f" drops {effects.drops}")
    for access in effects.accesses:
        by = access.by
        who = by.value if isinstance(by, Actor) else f"{by.device} {by.number}"
        verbs = ["reads"] * access.reads + ["writes"] * access.writes
        parts.append(f" {who} {' '.join(verbs + ['all'] * access.covers)} {access.name}")
    for nested in effects.blocks:
        verbs = ["repeats"] * nested.repeats + ["returns"] * nested.returns
        verbs += ["is read"] * nested.host_reads_result
        parts.append(f" {nested.field} {' '.join(verbs)}")
    text = ";".join(part for part in parts if part)
    text += f" on {effects.device}" if effects.device else ""
    text += ", launches" if effects.launches else ""
    text += f", records {effects.records}" if effects.records else ""
    text += f", awaits {effects.awaits}" if effects.awaits else ""
    text += f", starts {effects.starts}" if effects.starts else ""
    text += f", completes {effects.completes}" if effects.completes else ""
    text += "; waits" if effects.host_waits else ""
    text += f"; symbol {effects.symbol}" if effects.symbol else ""
    return text + ("; may fail" if effects.may_fail else "")


def test_each_line_kind_has_its_effects() -> None:
    find = LineEffects.of_program(PROGRAM)
    found = [f"{keyword(line)}:{described(find.visit(line))}" for line in PROGRAM.lines]
    assert found == EXPECTED.strip().split("\n")
    assert {type(line) for line in PROGRAM.lines} == set(BODY_LINES)


def test_names_are_those_of_the_effects() -> None:
    find = LineEffects.of_program(PROGRAM)
    for line in PROGRAM.lines:
        effects = find.visit(line)
        assert uses(line) == effects.uses
        assert definitions(line) == tuple((d.name, d.type) for d in effects.definitions)
        assert drops(line) == effects.drops


def test_a_kernel_is_looked_up_once() -> None:
    find = LineEffects.of_program(PROGRAM)
    assert find.kernel("add") is find.kernel("add")


def test_a_line_names_its_symbols_and_not_its_blocks_symbols() -> None:
    found: dict[str, set[str]] = {}
    for line in PROGRAM.lines:
        found.setdefault(keyword(line), set()).update(line_symbols(line))
    without = {"assert_alignment", "assert_not_nan", "comment", "free"}
    without |= {"record_event", "symbol_definition", "wait_collective", "wait_event"}
    assert found == {name: set() if name in without else {"s0"} for name in found}
    inner = Block(lines=PROGRAM.lines)
    (call,) = (line for line in PROGRAM.lines if keyword(line) == "subgraph_call")
    bare = rewrite_blocks(call, lambda _: inner)
    assert isinstance(bare, SubgraphCallLine)
    bare = evolve(bare, results=())
    assert list(line_symbols(bare)) == []


def test_streams_of_a_device_are_equal_with_and_without_its_index() -> None:
    assert Stream(Device("cuda"), 1) == Stream(Device("cuda", 0), 1)
    assert hash(Stream(Device("cuda"), 1)) == hash(Stream(Device("cuda", 0), 1))
    assert Stream(Device("cuda", 1), 1) != Stream(Device("cuda"), 1)


def test_the_effects_of_blocks_list_every_block_field() -> None:
    find = LineEffects.of_program(PROGRAM)
    seen = set()
    for line in PROGRAM.lines:
        listed = [(nested.field, nested.block) for nested in find.visit(line).blocks]
        assert listed == list(nested_blocks(line))
        assert [block for _, block in listed] == list(blocks_of(line))
        for nested in find.visit(line).blocks:
            assert len(nested.operands) == len(nested.block.parameters)
        if listed:
            seen.add(type(line))
    assert seen == set(BLOCK_FIELDS)


def test_blocks_are_walked_after_their_line_with_their_places() -> None:
    walked = list(walk_places(PROGRAM.lines))
    assert [line for line, _ in walked] == list(walk_lines(PROGRAM.lines))
    for line, (*outer, field, index) in walked:
        found: object = PROGRAM
        for step in (*outer, field):
            found = found[step] if isinstance(step, int) else getattr(found, step)  # type: ignore[index]
        assert found[index] is line  # type: ignore[index]


def test_deep_nesting_is_walked() -> None:
    (call,) = (line for line in PROGRAM.lines if keyword(line) == "subgraph_call")
    for _ in range(5_000):
        assert isinstance(call, SubgraphCallLine)
        call = evolve(call, body=Block(lines=(call, CommentLine(text="after"))))
    assert sum(1 for _ in walk_lines((call,))) == 10_002


def test_rewriting_blocks_keeps_lines_without_any() -> None:
    line = CommentLine(text="")
    assert rewrite_blocks(line, lambda block: evolve(block, lines=())) is line


def test_the_visitor_has_a_method_for_each_kind_and_no_other() -> None:
    wanted = {f"visit_{name}" for name in KEYWORDS.values()}
    assert LineVisitor.__abstractmethods__ == wanted
    for kind in LINES:
        method = getattr(LineVisitor, f"visit_{KEYWORDS[kind]}")
        assert inspect.signature(method).parameters["line"].annotation is kind
