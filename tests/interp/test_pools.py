"""Pools and placements when they run."""

import pytest
import torch

from tests.interp.running import code, fault, read, run
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value
from wrapperir.interp import interpret, storage
from wrapperir.ir import Block, BlockParameter, BufferRef, PoolType, Result, WhileLoopLine
from wrapperir.ir.builder import ProgramBuilder

ONES = torch.ones(8)

FILL = """
    kernel_definition @fill cpp(out: write f32*, count: i64) {
      entry = fill
      source {
        | extern "C" void fill(float* out, long count) {
        |   for (long i = 0; i < count; ++i) out[i] = 7;
        | }
      }
    }
"""


def values(*outputs: Value) -> list[list[float]]:
    lists: list[list[float]] = []
    for output in outputs:
        assert isinstance(output, torch.Tensor)
        lists.append(output.tolist())
    return lists


def test_placements_share_the_pools_bytes() -> None:
    first, second = run(
        """
    program @main(%x: f32[8]) {
      %pool = allocate_pool pool[64] {align = 256}
      %a = place f32[8] in %pool at 0
      assert_alignment %a 256
      extern_kernel aten.neg.out(%x, out = %a) writes(%a)
      %b = place f32[8] in %pool at 32
      free %pool
      extern_kernel aten.add.out(%a, %x, out = %b) writes(%b)
      return %a, %b
    }
    """,
        torch.arange(8.0),
    )
    assert values(first, second) == [[-float(i) for i in range(8)], [0.0] * 8]
    assert isinstance(first, torch.Tensor)
    assert isinstance(second, torch.Tensor)
    assert second.data_ptr() == first.data_ptr() + 32  # the pool's own bytes


def test_a_view_counts_from_the_placement_and_keeps_it() -> None:
    text = """
    program @main(%x: f32[8]) {
      %pool = allocate_pool pool[96]
      %a = place f32[8; offset 8] in %pool at 32
      extern_kernel aten.neg.out(%x, out = %a) writes(%a)
      %v = reinterpret %a as f32[2; offset 9]
      free %a
      NEXT
      free %pool
      return %v
    }
    """
    assert values(*run(text.replace("NEXT", ""), torch.arange(8.0))) == [[-1, -2]]
    below = "%b = place f32[8] in %pool at 0\nfree %b"
    assert values(*run(text.replace("NEXT", below), torch.arange(8.0))) == [[-1, -2]]
    overlapping = "%b = place f32[8] in %pool at 64\nfree %b"
    found = fault(text.replace("NEXT", overlapping), ONES)
    assert found.code is Code.RUN_PLACEMENT_OVERLAP
    assert found.path == ("lines", 5)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("%a = place f32[8] in %pool at 36", Code.RUN_PLACEMENT_OUT_OF_BOUNDS),
        ("%a = place f32[8] in %pool at 0 - 4", Code.RUN_PLACEMENT_OUT_OF_BOUNDS),
        ("%a = place f32[8; offset 9] in %pool at 0", Code.RUN_PLACEMENT_OUT_OF_BOUNDS),
        ("%a = place f32[0] in %pool at 68", Code.RUN_PLACEMENT_OUT_OF_BOUNDS),
        ("%a = place pool[65] in %pool at 0", Code.RUN_PLACEMENT_OUT_OF_BOUNDS),
        ("%a = place pool[0 - 8] in %pool at 0", Code.RUN_EVALUATION),
        ("%a = place f32[8] in %pool at q", Code.RUN_EVALUATION),
        ("%a = place f32[8] in %pool at 2", Code.RUN_PLACEMENT_MISMATCH),
        ("%a = place f32[4] {align = 64} in %pool at 32", Code.RUN_PLACEMENT_MISMATCH),
        ("%a = place f32[4] {align = 128} in %pool at 0", Code.RUN_PLACEMENT_MISMATCH),
        ("%a = place pool[4] in %pool at 32", Code.RUN_PLACEMENT_MISMATCH),
        ("%a = place f32[4] {pinned} in %pool at 0", Code.RUN_PLACEMENT_MISMATCH),
        ("%a = place f32[4] {space = comm} in %pool at 0", Code.RUN_PLACEMENT_MISMATCH),
        ("%a = place f32[4]@cuda:0 in %pool at 0", Code.RUN_PLACEMENT_MISMATCH),
        (
            "%a = place f32[4] {layout = acme.tiled(2)} in %pool at 0",
            Code.RUN_PLACEMENT_MISMATCH,
        ),
        (
            "%a = place f32[4] in %pool at 0 workspace(zero_per_program)",
            Code.RUN_PLACEMENT_MISMATCH,
        ),
        (
            "%a = place pool[64] in %pool at 0 workspace(zero_on_call)",
            Code.RUN_PLACEMENT_MISMATCH,
        ),
        ("%a = place f32[4] in %x at 0", Code.RUN_VALUE_KIND),
        ("%a = place f32[4] in %nothing at 0", Code.RUN_UNDEFINED_NAME),
        ("free %pool\n%a = place f32[4] in %pool at 0", Code.RUN_USE_AFTER_FREE),
        ("%a = reuse %pool as f32[4]", Code.RUN_VALUE_KIND),
        ("%a = reinterpret %pool as f32[4]", Code.RUN_VALUE_KIND),
        ("extern_kernel aten.relu_.default(%pool) writes(%pool)", Code.RUN_VALUE_KIND),
        ("free %pool\nfree %pool", Code.RUN_DOUBLE_FREE),
        (
            "%a = place f32[8] in %pool at 0\n%b = place f32[1] in %pool at 28",
            Code.RUN_PLACEMENT_OVERLAP,
        ),
        (
            "%a = place pool[64] in %pool at 0\n%b = place f32[1] in %pool at 28",
            Code.RUN_PLACEMENT_OVERLAP,
        ),
        (
            "%a = place f32[8] in %pool at 0\n"
            "%y = extern_kernel aten.relu.default(%a) : f32[8]",
            Code.RUN_UNINITIALIZED_READ,
        ),
        (
            "%a = place f32[8] in %pool at 0\n"
            "extern_kernel aten.fill_.Scalar(%a, 1) writes(%a)\nfree %a\n"
            "%b = place f32[8] in %pool at 0\n"
            "%y = extern_kernel aten.relu.default(%b) : f32[8]",
            Code.RUN_UNINITIALIZED_READ,
        ),
        ("", Code.RUN_LEAK),
        ("%a = place f32[8] in %pool at 0\nfree %pool", Code.RUN_LEAK),
        (
            "%z = subgraph_call @f (%pool) : f32[8] {\nbody (%p: pool[64]) {\n"
            "%q = place f32[8] in %p at 0 workspace(zero_on_call)\nreturn %q\n}\n}",
            Code.RUN_BORROWED,
        ),
        (
            "%z = subgraph_call @f (%pool) : f32[8] {\nbody (%p: pool[64]) {\n"
            "%r = place pool[64] in %p at 0\n"
            "%q = place f32[8] in %r at 0 workspace(zero_on_call)\nfree %r\n"
            "return %q\n}\n}",
            Code.RUN_BORROWED,
        ),
        (
            "%z = subgraph_call @f (%pool) : pool[64] {\nbody (%p: pool[64]) {\n"
            "return %p\n}\n}",
            Code.RUN_VALUE_KIND,
        ),
        (
            "subgraph_call @f (%pool) {\nbody (%p: pool[64]) {\nfree %p\nreturn\n}\n}",
            Code.RUN_BORROWED,
        ),
        (
            "subgraph_call @f (%pool) {\nbody (%p: pool[32]) {\nreturn\n}\n}",
            Code.RUN_BLOCK,
        ),
        (
            "subgraph_call @f (%pool) {\nbody (%p: pool[64] {align = 128}) {\nreturn\n}\n}",
            Code.RUN_BLOCK,
        ),
        (
            "subgraph_call @f (%pool) {\nbody (%p: f32[8]) {\nreturn\n}\n}",
            Code.RUN_BLOCK,
        ),
        (
            "subgraph_call @f (%x) {\nbody (%p: pool[64]) {\nreturn\n}\n}",
            Code.RUN_BLOCK,
        ),
    ],
)
def test_a_line_faults(lines: str, expected: Code) -> None:
    program = read(
        f"program @main(%x: f32[8]) {{\n%pool = allocate_pool pool[64]\n{lines}\nreturn\n}}"
    )
    with pytest.raises(DiagnosticError) as caught:
        interpret(program, [ONES], {})
    assert caught.value.diagnostics[0].code is expected


def test_a_pool_is_neither_output_nor_carried() -> None:
    b = ProgramBuilder()
    pool = b.allocate_pool(PoolType(size=64))
    with pytest.raises(DiagnosticError) as caught:
        interpret(b.build(pool), [], {})
    assert caught.value.diagnostics[0].code is Code.RUN_VALUE_KIND
    block = Block(parameters=(BlockParameter("p", pool.type),), results=(0,))
    given = (BufferRef(pool.name),)
    result = Result("q", pool.type)
    loop = WhileLoopLine(results=(result,), carried=given, condition=block, body=block)
    with pytest.raises(DiagnosticError) as caught:
        interpret(b.append(loop).free(pool).build(), [], {})
    assert caught.value.diagnostics[0].code is Code.RUN_BLOCK


def test_what_has_no_bytes_overlaps_nothing() -> None:
    (y,) = run(
        """
    program @main(%x: f32[8]) {
      %pool = allocate_pool pool[64]
      %a = place f32[8] in %pool at 0
      %none = place f32[0, 4] in %pool at 16
      %end = place f32[0] in %pool at 64
      extern_kernel aten.neg.out(%x, out = %a) writes(%a)
      free %none
      free %end
      free %pool
      return %a
    }
    """,
        ONES,
    )
    assert values(y) == [[-1.0] * 8]


def test_zeros_are_for_the_asking() -> None:
    (y,) = run("""
    program @main() {
      %pool = allocate_pool pool[64]
      %a = place f32[8] in %pool at 0
      extern_kernel aten.fill_.Scalar(%a, 3) writes(%a)
      free %a
      %b = place f32[8] in %pool at 0 workspace(zero_on_call)
      free %pool
      return %b
    }
    """)
    assert values(y) == [[0.0] * 8]


def test_a_block_places_in_the_callers_pool() -> None:
    text = """
    program @main(%x: f32[8]) {
      %pool = allocate_pool pool[128]
      %a = place f32[8] in %pool at 0
      extern_kernel aten.neg.out(%x, out = %a) writes(%a)
      %inner = place pool[64] in %pool at 64
      subgraph_call @twice (%a, %inner) {
        body (%p: f32[8], %q: pool[64]) {
          %t = place f32[8] in %q at 0
          extern_kernel aten.add.out(%p, %p, out = %t) writes(%t)
          %u = place f32[8] in %q at 32
          extern_kernel aten.add.out(%t, %t, out = %u) writes(%u)
          %y = extern_kernel aten.sum.default(%u) : f32[]
          free %t
          free %u
          free %y
          return
        }
      }
      free %inner
      %b = place f32[16] in %pool at 64 workspace(zero_on_call)
      free %b
      free %pool
      return %a
    }
    """
    assert values(*run(text, ONES)) == [[-1.0] * 8]


def test_a_result_may_lie_in_the_blocks_own_pool() -> None:
    text = """
    program @main(%x: f32[8]) {
      %y = subgraph_call @f (%x) : f32[8] {
        body (%p: f32[8]) {
          %pool = allocate_pool pool[64]
          %t = place f32[8] in %pool at 32
          extern_kernel aten.neg.out(%p, out = %t) writes(%t)
          free %pool
          return %t
        }
      }
      return %y
    }
    """
    assert values(*run(text, ONES)) == [[-1.0] * 8]


def test_reuse_keeps_a_placement_alive_until_its_last_name() -> None:
    text = """
    program @main(%x: f32[8]) {
      %pool = allocate_pool pool[32]
      %a = place f32[8] in %pool at 0
      extern_kernel aten.neg.out(%x, out = %a) writes(%a)
      %b = reuse %a as f32[4]
      FIRST
      free %b
      %c = place f32[8] in %pool at 0 workspace(zero_on_call)
      free %pool
      return %c
    }
    """
    assert values(*run(text.replace("FIRST", ""), ONES)) == [[0.0] * 8]
    early = "%d = place f32[1] in %pool at 28"
    assert code(text.replace("FIRST", early), ONES) is Code.RUN_PLACEMENT_OVERLAP


def test_a_cpp_kernel_that_writes_into_its_neighbour_is_noticed() -> None:
    text = f"""{FILL}
    program @main() {{
      %pool = allocate_pool pool[64]
      %a = place f32[8] in %pool at 0
      %b = place f32[8] in %pool at 32 workspace(zero_on_call)
      kernel_call @fill(%a, COUNT)
      free %pool
      return %a, %b
    }}
    """
    first, second = run(text.replace("COUNT", "8"))
    assert values(first, second) == [[7.0] * 8, [0.0] * 8]
    assert code(text.replace("COUNT", "9")) is Code.RUN_ACCESS_OUT_OF_BOUNDS


def test_an_overlap_that_no_check_saw_would_corrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from wrapperir.interp.pool import Pool

    monkeypatch.setattr(Pool, "_check", lambda *_: None)
    text = """
    program @main(%x: f32[8]) {
      %pool = allocate_pool pool[64]
      %a = place f32[8] in %pool at 0
      extern_kernel aten.neg.out(%x, out = %a) writes(%a)
      %b = place f32[8] in %pool at 16
      extern_kernel aten.neg.out(%x, out = %b) writes(%b)
      free %b
      free %pool
      return %a
    }
    """
    (y,) = run(text, ONES)
    assert isinstance(y, torch.Tensor)
    assert y[:4].tolist() == [-1.0] * 4
    poison = torch.full((16,), storage.POISON, dtype=torch.uint8)
    assert torch.equal(y[4:].view(torch.uint8), poison)


def test_a_loop_gives_back_what_the_iteration_before_last_made() -> None:
    text = """
    program @main(%x: f32[8]) {
      %n = extern_kernel aten.full.default([], 0, dtype = dtype(i64)) : i64[]
      %i, %y = while_loop (%n, %x) () : i64[], f32[8] {
        condition (%c: i64[], %p: f32[8]) {
          %more = extern_kernel aten.lt.Scalar(%c, 4) : bool[]
          return %more
        }
        body (%d: i64[], %q: f32[8]) {
          %next = extern_kernel aten.add.Scalar(%d, 1) : i64[]
          %r = extern_kernel aten.neg.default(%q) : f32[8]
          return %next, %r
        }
      }
      free %n
      free %i
      return %y
    }
    """
    live = most = 0
    keep, drop = storage.ShadowStorage.keep, storage.ShadowStorage.drop

    def counted_keep(one: storage.ShadowStorage) -> None:
        nonlocal live, most
        keep(one)
        live += one.nbytes == 32 and one.owner is storage.Owner.BLOCK and one.names == 1
        most = max(most, live)

    def counted_drop(one: storage.ShadowStorage) -> None:
        nonlocal live
        live -= one.nbytes == 32 and one.owner is storage.Owner.BLOCK and one.names == 1
        drop(one)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.ShadowStorage, "keep", counted_keep)
        patch.setattr(storage.ShadowStorage, "drop", counted_drop)
        assert values(*run(text, ONES)) == [[1.0] * 8]
    assert (live, most) == (1, 2)


TRITON = """
    kernel_definition @write triton(none: write f32*, out: write f32*, COUNT: constexpr) {
      grid = (1)
      constant COUNT = LANES
      entry = write
      source {
        | @triton.jit
        | def write(none, out, COUNT: tl.constexpr):
        |     tl.store(out + tl.arange(0, COUNT), 7.0)
      }
    }
    program @main() {
      %pool = allocate_pool pool[64]
      %none = place f32[0] in %pool at 0
      %a = place f32[8] in %pool at 0
      %b = place f32[8] in %pool at 32 workspace(zero_on_call)
      kernel_call @write(%none, %a)
      free %none
      free %pool
      return %a, %b
    }
"""


def test_a_triton_kernel_stays_within_its_placements() -> None:
    assert values(*run(TRITON.replace("LANES", "8"))) == [[7.0] * 8, [0.0] * 8]
    assert code(TRITON.replace("LANES", "16")) is Code.RUN_ACCESS_OUT_OF_BOUNDS
