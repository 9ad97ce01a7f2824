"""Storages of a block: their names, lifetimes and uses."""

from wrapperir import parse_program
from wrapperir.analysis import (
    BlockStorages,
    Storage,
    StorageKind,
    find_storages,
    program_entry,
)
from wrapperir.analysis.storages import Use
from wrapperir.ir import CPU, Stream
from wrapperir.ir.line_effects import LineEffects


def storages(lines: str) -> BlockStorages:
    program = parse_program(f"wrapperir 1\n\nprogram @main(%x: f32[16]) {{\n{lines}}}\n")
    effects = LineEffects.of_program(program)
    return find_storages(program.lines, program.outputs, program_entry(program), effects)


def only(found: BlockStorages, name: str) -> Storage:
    (storage,) = found.of_name[name]
    return storage


def test_views_and_reuse_share_a_storage() -> None:
    found = storages("""\
  %a = allocate f32[16]
  %v = reinterpret %a as f32[4]
  free %a
  %b = reuse %v as f32[8]
  free %b
  return
""")
    storage = only(found, "a")
    assert only(found, "b") is only(found, "v") is storage
    assert (storage.kind, storage.begin, storage.end) == (StorageKind.ALLOCATED, 0, 4)
    assert storage.names == ["a", "v", "b"]
    assert not storage.escapes


def test_outputs_escape_and_inputs_end_when_they_are_freed() -> None:
    found = storages("""\
  %y = extern_kernel aten.neg.default(%x) : f32[16]
  free %x
  return %y
""")
    result, given = only(found, "y"), only(found, "x")
    assert (result.kind, result.end, result.escapes) == (StorageKind.OPERATOR, 2, True)
    assert (given.kind, given.begin, given.end) == (StorageKind.INPUT, 0, 1)


def test_a_result_that_may_be_a_view_is_perhaps_its_own_memory() -> None:
    found = storages("""\
  %a = allocate f32[16]
  %y = extern_kernel aten.t.default(%a) aliases(%a) : f32[16]
  free %a
  free %y
  return
""")
    own, shared = found.of_name["y"]
    assert own.perhaps
    assert shared is only(found, "a")
    assert shared.end == 3


def test_elements_of_tuples_are_storages_of_their_own() -> None:
    found = storages("""\
  %t = extern_kernel aten.max.dim(%x, 0) : (f32[1], i64[1])
  %a = multi_output %t[1] : i64[1]
  free %t
  free %a
  return
""")
    values, indices = found.of_name["t"]
    assert (values.name, values.end) == ("t[0]", 2)
    assert (indices.name, indices.end) == ("t[1]", 3)
    assert only(found, "a") is indices


def test_placed_memory_keeps_its_pool() -> None:
    found = storages("""\
  %pool = allocate_pool pool[128]
  %a = place f32[16] in %pool at 64
  free %pool
  free %a
  return
""")
    placed, pool = only(found, "a"), only(found, "pool")
    assert placed.pool is pool
    assert placed.offset == 64
    assert placed.end == pool.end == 3


def test_uses_say_stream_and_access() -> None:
    found = storages("""\
  %a = allocate f32[16]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a) stream(2)
  assert_not_nan %a
  subgraph_call @f (%a) {
    body (%p: f32[16]) {
      return
    }
  }
  assert_size_stride %a (16) (1)
  free %a
  return
""")
    assert only(found, "a").uses == [
        Use(1, True, Stream(CPU, 2)),
        Use(2, False, None),
        Use(3, True, Stream(CPU, 0)),
    ]
    assert only(found, "x").uses == [Use(1, False, Stream(CPU, 2))]


def test_a_workspace_of_the_program_does_not_end() -> None:
    found = storages("""\
  %w = allocate f32[16] workspace(zero_per_program)
  %v = reinterpret %w as f32[1]
  free %v
  return
""")
    assert only(found, "w").kind is StorageKind.PROGRAM
    assert only(found, "w").end == 3
