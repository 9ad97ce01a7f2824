"""Memory that blocks are given, return and share, in graphs."""

import pytest
import torch
from torch.fx import GraphModule

from tests.fx_emitter.running import (
    built,
    run_both,
    without_dead_code,
)
from wrapperir.fx.kernel_registry import register_opaque_kernel

LAYOUTS = {
    "padded": "f32[3, 4; stride 8, 1]",
    "transposed": "f32[4, 3; stride 1, 4]",
    "behind others": "f32[4; offset 4]",
    "padded and behind others": "f32[2, 4; stride 8, 1; offset 3]",
    "of one row": "f32[1, 4; stride 9, 1]",
    "empty": "f32[0, 4]",
}


@pytest.mark.parametrize("go", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_loop_returns_the_declared_layout(layout: str, go: bool) -> None:
    text = """
    program @main(%x: f32[24], %go: bool[1]) {
      %v = reinterpret %x as LAYOUT
      %h, %r = while_loop (%go, %v) () : bool[1], LAYOUT {
        condition (%t: bool[1], %a: LAYOUT) {
          %u = extern_kernel aten.clone.default(%t) : bool[1]
          return %u
        }
        body (%w: bool[1], %b: LAYOUT) {
          %f = extern_kernel aten.logical_not.default(%w) : bool[1]
          %e = allocate LAYOUT
          extern_kernel aten.neg.out(%b, out = %e) writes(%e)
          return %f, %e
        }
      }
      free %v
      free %h
      return %r
    }
    """.replace("LAYOUT", layout)
    (r,) = run_both(text, torch.arange(24.0), torch.tensor([go]))
    assert isinstance(r, torch.Tensor)


@pytest.mark.parametrize("go", [False, True])
def test_what_lies_before_a_loops_result_is_there(go: bool) -> None:
    run_both(
        """
        program @main(%x: f32[8], %go: bool[]) {
          %v = reinterpret %x as f32[4; offset 4]
          %h, %r = while_loop (%go, %v) () : bool[], f32[4; offset 4] {
            condition (%c: bool[], %a: f32[4; offset 4]) {
              %t = extern_kernel aten.clone.default(%c) : bool[]
              return %t
            }
            body (%d: bool[], %b: f32[4; offset 4]) {
              %f = extern_kernel aten.logical_not.default(%d) : bool[]
              %e = allocate f32[4; offset 4]
              extern_kernel aten.neg.out(%b, out = %e) writes(%e)
              return %f, %e
            }
          }
          free %v
          free %h
          %w = reinterpret %r as f32[2; offset 6]
          %z = reinterpret %r as f32[4]
          extern_kernel aten.zero_.default(%z) writes(%z)
          free %r
          return %w, %z
        }
        """,
        torch.arange(8.0),
        torch.tensor(go),
    )


@pytest.mark.parametrize("go", [False, True])
def test_operands_may_share_memory_and_be_written(go: bool) -> None:
    x = torch.arange(8.0)
    (y,) = run_both(
        """
        program @main(%x: mutated f32[8], %go: bool[1, 1]) {
          %v = reinterpret %x as f32[4; offset 2]
          conditional %go (%x, %x, %v) {
            true (%a: f32[8], %b: f32[8], %c: f32[4; offset 2]) {
              extern_kernel aten.add_.Scalar(%a, 1) writes(%a)
              extern_kernel aten.mul_.Tensor(%c, %c) writes(%c)
              extern_kernel aten.add_.Scalar(%b, 1) writes(%b)
              return
            }
            false (%d: f32[8], %e: f32[8], %f: f32[4; offset 2]) {
              extern_kernel aten.zero_.default(%f) writes(%f)
              return
            }
          }
          free %v
          %y = extern_kernel aten.clone.default(%x) : f32[8]
          return %y
        }
        """,
        x,
        torch.tensor([[go]]),
    )
    assert isinstance(y, torch.Tensor)
    assert y.tolist() != x.tolist()


def test_blocks_that_only_write_are_no_dead_code() -> None:
    text = """
    program @main(%x: mutated f32[4], %n: i64) {
      symbol n: int = value(%n)
      subgraph_call @write(%x) {
        body (%a: f32[4]) {
          extern_kernel aten.add_.Scalar(%a, 1) writes(%a)
          return
        }
      }
      %i = while_loop (0) (%x) : i64 {
        condition (%b: i64, %c: f32[4]) {
          symbol_definition i0: int = value(%b)
          return i0 < n
        }
        body (%d: i64, %e: f32[4]) {
          symbol_definition i1: int = value(%d)
          extern_kernel aten.mul_.Scalar(%e, 2) writes(%e)
          return i1 + 1
        }
      }
      return
    }
    """
    call = without_dead_code(built(text))
    x = torch.arange(4.0)
    assert call(x, 2) == ()
    assert x.tolist() == [4, 8, 12, 16]


def test_two_results_of_one_buffer_are_views_of_it() -> None:
    text = """
    program @main(%x: f32[8]) {
      %r, %q, %s, %o = subgraph_call @half(%x) : f32[8], f32[4; offset 4], f32[8], f32[8] {
        body (%y: f32[8]) {
          %a = extern_kernel aten.neg.default(%y) : f32[8]
          %b = extern_kernel aten.neg.default(%y) : f32[8]
          %v = reinterpret %a as f32[4; offset 4]
          return %a, %v, %a, %b
        }
      }
      return %r, %q, %s, %o
    }
    """
    r, q, s, o = run_both(text, torch.arange(8.0))
    assert isinstance(r, torch.Tensor)
    assert isinstance(q, torch.Tensor)
    assert isinstance(s, torch.Tensor)
    assert isinstance(o, torch.Tensor)
    assert q.data_ptr() == r.data_ptr() + 16 == s.data_ptr() + 16
    assert o.data_ptr() != r.data_ptr()


ALIASED = """
kernel_definition @copy cpp(to: write f32*, source: read f32*) {
  entry = copy
  source {
    | extern "C" void copy(float* to, const float* source) {
    |   for (int i = 0; i < 4; ++i) to[i] = source[i] + 1; }
  }
}

program @main(%x: f32[4]) {
  %r, %s, %o = subgraph_call @same(%x) : f32[4], f32[4], f32[4] {
    body (%y: f32[4]) {
      %a = extern_kernel aten.neg.default(%y) : f32[4]
      %b = extern_kernel aten.neg.default(%y) : f32[4]
      return %a, %a, %b
    }
  }
  kernel_call @copy(%r, %s)
  kernel_call @copy(%r, %o)
  subgraph_call @inner(%r, %s, %o) {
    body (%c: f32[4], %d: f32[4], %e: f32[4]) {
      kernel_call @copy(%c, %d)
      kernel_call @copy(%c, %e)
      return
    }
  }
  free %s
  free %o
  return %r
}
"""


def test_kernels_are_told_which_operands_share_memory() -> None:
    run_both(ALIASED, torch.arange(4.0))
    module = built(ALIASED)
    for graph in (module, module.inner_graph):
        assert isinstance(graph, GraphModule)
        calls = [n for n in graph.graph.nodes if "call_kernel" in str(n.target)]
        assert [len(call.args[1]) for call in calls] == [2, 1]


SWAPPED = """
kernel_definition @k opaque(x: read f32*, out: read_write f32*) {
  entry = acme_read_and_add
  source {
    | none
  }
}

program @main(%x: mutated f32[4], %y: mutated f32[4]) {
  %r, %s, %i = while_loop (%x, %y, 0) () : f32[4], f32[4], i64 {
    condition (%a: f32[4], %a2: f32[4], %k: i64) {
      symbol_definition k: int = value(%k)
      return k < 3
    }
    body (%b: f32[4], %b2: f32[4], %l: i64) {
      symbol_definition l: int = value(%l)
      %n = extern_kernel aten.add.Tensor(%b, %b2) : f32[4]
      %n2 = <second>
      kernel_call @k(<given>)
      return %n, %n2, l + 1
    }
  }
  return %r, %s, %i
}
"""


@pytest.mark.parametrize(
    ("second", "given", "shared"),
    [
        ("reinterpret %n as f32[4]", "%b2, %b", True),
        ("extern_kernel aten.view.default(%n, [4]) aliases(%n) : f32[4]", "%b2, %b", True),
        ("extern_kernel aten.neg.default(%n) : f32[4]", "%b2, %b", False),
        ("reinterpret %n as f32[4]", "%b2, %n", False),
    ],
)
def test_what_a_loop_carries_may_share_memory_from_the_second_iteration(
    second: str, given: str, *, shared: bool
) -> None:
    register_opaque_kernel("acme_read_and_add", lambda x, out: None)
    module = built(SWAPPED.replace("<second>", second).replace("<given>", given))
    calls = [
        node
        for graph in module.modules()
        if isinstance(graph, GraphModule)
        for node in graph.graph.nodes
        if "call_kernel" in str(node.target)
    ]
    (call,) = calls
    _, written, read, _ = call.args
    assert (len(written), len(read)) == ((2, 0) if shared else (1, 1))


def test_a_workspace_of_a_block_is_kept_between_calls() -> None:
    text = """
    program @main(%x: f32[4]) {
      %r = subgraph_call @sum(%x) : f32[4] {
        body (%y: f32[4]) {
          %w = allocate f32[4] workspace(zero_per_program)
          %a = extern_kernel aten.add.Tensor(%y, %w) : f32[4]
          return %a
        }
      }
      return %r
    }
    """
    run_both(text, torch.arange(4.0))
    module = built(text)
    assert "sum_graph.w" in dict(module.named_buffers()) or hasattr(module.sum_graph, "w")


def test_a_block_lies_in_the_callers_pool() -> None:
    run_both(
        """
        program @main(%x: f32[8], %n: i64) {
          symbol n: int 1..9 = value(%n)
          %p = allocate_pool pool[n * 64 + 128]
          %q = place pool[64] in %p at n * 64
          %r = subgraph_call @use(%x, %q, %p) : f32[8] {
            body (%y: f32[8], %b: pool[64], %c: pool[n * 64 + 128]) {
              %d = place f32[8] in %b at 32
              %e = place i64[4] in %c at 0
              extern_kernel aten.neg.out(%y, out = %d) writes(%d)
              extern_kernel aten.fill_.Scalar(%e, n) writes(%e)
              %f = extern_kernel aten.add.Tensor(%d, %d) : f32[8]
              free %d
              free %e
              return %f
            }
          }
          free %q
          free %p
          return %r
        }
        """,
        torch.arange(8.0),
        3,
    )


def test_tuples_go_in_and_come_out() -> None:
    run_both(
        """
        program @main(%x: f32[4, 3], %go: bool[]) {
          %p = extern_kernel aten.max.dim(%x, 0) : (f32[3], i64[3])
          %r = conditional %go (%p) : (f32[3], i64[3]) {
            true (%a: (f32[3], i64[3])) {
              %b = multi_output %a[0] : f32[3]
              %c = extern_kernel aten.sort.default(%b) : (f32[3], i64[3])
              free %b
              return %c
            }
            false (%d: (f32[3], i64[3])) {
              %e = multi_output %d[0] : f32[3]
              %f = extern_kernel aten.sort.default(%e, 0, true) : (f32[3], i64[3])
              free %e
              return %f
            }
          }
          free %p
          %v = multi_output %r[0] : f32[3]
          %i = multi_output %r[1] : i64[3]
          free %r
          return %v, %i
        }
        """,
        torch.tensor([[3.0, 1, 2], [0, 5, 1], [7, 2, 4], [1, 1, 9]]),
        torch.tensor(True),
    )
