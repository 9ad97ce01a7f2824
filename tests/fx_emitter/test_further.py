"""What becomes of graph modules: copies, saved files, exports, and compiled again."""

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo import config as dynamo_config
from torch._inductor import config as inductor_config
from torch.fx import GraphModule

from tests.fx_emitter.running import built, copied, lines_of
from tests.python_emitter.running import assert_same
from tests.torch_release import BEFORE_2_13
from wrapperir.emit import Value


def numbers(*size: int) -> torch.Tensor:
    """Return whole numbers, of which sums and products are exact."""
    return torch.arange(torch.Size(size).numel(), dtype=torch.float32).reshape(size) % 7 - 3


STATIC = """
program @main(%x: f32[4, 8], %w: f32[8, 8]) {
  %a = allocate f32[4, 8]
  extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a)
  assert_size_stride %x (4, 8) (8, 1)
  assert_alignment %x 4
  %v = reinterpret %a as f32[32]
  free %a
  %r = extern_kernel aten.relu.default(%v) : f32[32]
  free %v
  return %r
}
"""
DYNAMIC = """
program @main(%x: f32[s, 8], %n: i64) {
  symbol s: int 2..100 = size(%x, 0)
  symbol n: int 0..9 = value(%n)
  %a = allocate f32[s, 16]
  extern_kernel aten.fill_.Scalar(%a, 1) writes(%a)
  %v = reinterpret %a as f32[s, 8; stride 16, 1; offset 8]
  %r = extern_kernel aten.add.Tensor(%v, %x, alpha = n) : f32[s, 8]
  free %v
  return %r, %a, s * 2 + n, min(s, n), where(n > 3, s, n), n / 2
}
"""
ITEMS = """
program @main(%x: i64[], %y: f32[4]) {
  symbol_definition u: int 1..4 = item(%x)
  assert_scalar u < 100
  %a = allocate f32[u]
  extern_kernel aten.fill_.Scalar(%a, 2.5) writes(%a)
  %r = extern_kernel aten.mul.Tensor(%y, %y) : f32[4]
  assert_not_nan %r
  return %a, %r, u * 2
}
"""
WORKSPACES = """
program @main(%x: mutated f32[4]) {
  %w = allocate f32[4] workspace(zero_per_program)
  %z = allocate f32[4] workspace(zero_on_call)
  extern_kernel aten.add_.Tensor(%x, %w) writes(%x)
  extern_kernel aten.add_.Scalar(%x, 1) writes(%x)
  %r = extern_kernel aten.add.Tensor(%z, %x) : f32[4]
  free %z
  return %r
}
"""
BLOCKS = """
program @main(%x: f32[4], %flag: bool[]) {
  %r = conditional %flag (%x) : f32[4] {
    true (%a: f32[4]) {
      %b = extern_kernel aten.neg.default(%a) : f32[4]
      return %b
    }
    false (%c: f32[4]) {
      %d = extern_kernel aten.abs.default(%c) : f32[4]
      return %d
    }
  }
  return %r
}
"""
POOL = """
program @main(%x: f32[4, 8], %w: f32[8, 8]) {
  %p = allocate_pool pool[512]
  %a = place f32[4, 8] in %p at 0
  %b = place f32[4, 8] in %p at 256 workspace(zero_on_call)
  extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a)
  extern_kernel aten.mm.out(%a, %w, out = %b) writes(%b)
  %c = reuse %a as f32[8, 4]
  %t = extern_kernel aten.t.default(%b) aliases(%b) : f32[8, 4; stride 1, 8]
  extern_kernel aten.neg.out(%t, out = %c) writes(%c)
  free %t
  %d = reuse %b as i32[16]
  extern_kernel aten.fill_.Scalar(%d, 7) writes(%d)
  free %p
  return %c, %d
}
"""
MIXED_POOL = """
program @main(%x: f32[n, 8]) {
  symbol n: int 2..100 = size(%x, 0)
  %p = allocate_pool pool[n * 64 + 320]
  %q = place pool[n * 64 + 64] in %p at 64
  %a = place f32[n, 8] in %q at 64
  %b = place i64[n, 2; stride 4, 2] in %q at n * 32 + 64
  %c = place bool[7] in %q at 8
  %d = place f64[] in %q at 0
  %e = place i16[2, 3] in %p at 0
  %g = place f32[8, 4; stride 1, 8] in %p at n * 64 + 192
  free %q
  free %p
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
  extern_kernel aten.fill_.Scalar(%b, 5) writes(%b)
  extern_kernel aten.fill_.Scalar(%c, true) writes(%c)
  extern_kernel aten.fill_.Scalar(%d, 2.5) writes(%d)
  extern_kernel aten.fill_.Scalar(%e, 3) writes(%e)
  extern_kernel aten.fill_.Scalar(%g, 4) writes(%g)
  extern_kernel aten.add_.Scalar(%a, 1) writes(%a)
  %r = extern_kernel aten.clone.default(%b, \
memory_format = memory_format(contiguous_format)) : i64[n, 2]
  free %b
  return %a, %r, %c, %d, %e, %g
}
"""
REUSES = """
program @main(%x: f32[4, 8], %w: mutated f32[4, 8]) {
  %a = allocate f32[4, 8]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
  %b = reuse %a as f64[4, 4]
  extern_kernel aten.fill_.Scalar(%b, 1.5) writes(%b)
  %c = reuse %b as i16[2, 9]
  extern_kernel aten.fill_.Scalar(%c, 7) writes(%c)
  %d = reinterpret %c as i16[9; offset 9]
  extern_kernel aten.add_.Scalar(%d, 1) writes(%d)
  free %d
  %e = reinterpret %w as f32[4, 2; stride 8, 1; offset 2]
  extern_kernel aten.fill_.Scalar(%e, 4) writes(%e)
  %f = reinterpret %e as i32[2, 4; offset 16]
  extern_kernel aten.fill_.Scalar(%f, 9) writes(%f)
  %g = reinterpret %f as f64[2, 4; stride 1, 2]
  extern_kernel aten.fill_.Scalar(%g, 8) writes(%g)
  %h = allocate f32[3; offset 2]
  %i = reinterpret %h as f32[5]
  extern_kernel aten.fill_.Scalar(%i, 6) writes(%i)
  free %i
  %j = extern_kernel aten.clone.default(%w) : f32[4, 8]
  %k = reuse %j as i64[2, 8]
  %kt = reinterpret %k as i64[8, 2; stride 1, 8]
  extern_kernel aten.fill_.Scalar(%kt, 3) writes(%kt)
  free %kt
  free %e
  free %f
  free %g
  return %c, %h, %k
}
"""
POOLS = """
program @main(%x: f32[4, 8], %w: f32[8, 8]) {
  %p = allocate_pool pool[512]
  %a = place f32[4, 8] in %p at 0
  %b = place f64[4] in %p at 256
  free %p
  extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a)
  extern_kernel aten.fill_.Scalar(%b, 2.5) writes(%b)
  return %a, %b
}
"""
VIEWS = """
program @main(%x: f32[4, 8; offset 1]) {
  %v = reinterpret %x as i32[32; offset 1]
  %r = extern_kernel aten.neg.default(%v) : i32[32]
  free %v
  %q = reuse %r as f64[4, 2]
  %s = extern_kernel aten.neg.default(%q) : f64[4, 2]
  free %q
  return %s
}
"""
ALIGNED = """
program @main(%x: f32[4]) {
  %a = allocate f32[4] {align = 256}
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
  %v = reinterpret %a as f32[2, 2]
  %r = extern_kernel aten.clone.default(%v) : f32[2, 2]
  free %v
  return %a, %r
}
"""
KEPT = """
program @main(%n: i64) {
  symbol s: int 1..9 = value(%n)
  %w = allocate i64[s] {align = 256} workspace(zero_per_program)
  %u = allocate i64[3] {align = 256} workspace(zero_per_program)
  assert_alignment %w 256
  assert_alignment %u 256
  %r = extern_kernel aten.add.Tensor(%u, 2) : i64[3]
  %q = extern_kernel aten.add.Tensor(%w, 2) : i64[s]
  return %r, %q
}
"""
KERNEL = """
kernel_definition @twice cpp(p: read_write f32*, n: i64) {
  entry = twice
  source {
    | extern "C" void twice(float* p, long n) { for (long i = 0; i < n; ++i) p[i] *= 2; }
  }
}

program @main(%x: mutated f32[8]) {
  kernel_call @twice(%x, 8)
  return %x
}
"""
FLAG = torch.tensor(True)
COMPILABLE: dict[str, tuple[str, tuple[Value, ...]]] = {
    "static": (STATIC, (numbers(4, 8), numbers(8, 8))),
    "dynamic": (DYNAMIC, (numbers(5, 8), 4)),
    "items": (ITEMS, (torch.tensor(3), numbers(4))),
    "workspaces": (WORKSPACES, (numbers(4),)),
    "blocks": (BLOCKS, (numbers(4), FLAG)),
    "views": (VIEWS, (numbers(40)[3:35].view(4, 8),)),
    "aligned": (ALIGNED, (numbers(4),)),
    "pool": (POOL, (numbers(4, 8), numbers(8, 8))),
    "pools": (POOLS, (numbers(4, 8), numbers(8, 8))),
    "mixed pool": (MIXED_POOL, (numbers(4, 8),)),
    "reuses": (REUSES, (numbers(4, 8), numbers(44)[6:38].view(4, 8))),
}
PROGRAMS = COMPILABLE | {
    "kept": (KEPT, (4,)),
    "kernel": (KERNEL, (numbers(8),)),
}


def saved(module: GraphModule) -> GraphModule:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert isinstance(loaded, GraphModule)
    return loaded


def exported(module: GraphModule, inputs: list[Any], *, strict: bool) -> Callable[..., Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, tuple(inputs), strict=strict)
        return program.module()


def compiled(module: GraphModule, backend: str) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(module, backend=backend, fullgraph=True)


def check(
    name: str, further: Callable[[GraphModule, list[Any]], Callable[..., Any]]
) -> None:
    """Check that what ``further`` makes of a module runs as the module does, twice."""
    text, inputs = PROGRAMS[name]
    module = built(text)
    with (
        dynamo_config.patch(capture_scalar_outputs=True),
        inductor_config.patch(fallback_random=True),
    ):
        call = further(module, copied(inputs))
        for _ in range(2):
            ours, theirs = copied(inputs), copied(inputs)
            assert_same(tuple(call(*ours)), module(*theirs))
            assert_same(ours, theirs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_copy_runs(name: str) -> None:
    def deep(module: GraphModule, _: list[Any]) -> GraphModule:
        other = copy.deepcopy(module)
        assert other.meta["wrapperir"] == module.meta["wrapperir"]
        assert lines_of(other) == lines_of(module)
        return other

    check(name, deep)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_saved_runs(name: str) -> None:
    check(name, lambda module, _: saved(module))


def test_a_copy_has_memory_of_its_own() -> None:
    text = """
    program @main() {
      %w = allocate i64[2] workspace(zero_per_program)
      extern_kernel aten.add_.Scalar(%w, 1) writes(%w)
      %r = extern_kernel aten.clone.default(%w) : i64[2]
      return %r
    }
    """
    module = built(text)
    module()
    others = [copy.deepcopy(module), saved(module)]
    module()
    for other in others:
        assert other()[0].tolist() == [2, 2]


NO_MINIMUM = pytest.mark.xfail(
    BEFORE_2_13, reason="Dynamo of torch 2.11 does not trace sym_min", strict=True
)
NO_NARROW_VIEWS = pytest.mark.xfail(
    BEFORE_2_13,
    reason="Inductor of torch 2.11 gets views as another type wrong",
    strict=True,
)


@pytest.mark.parametrize(
    ("name", "strict"),
    [
        pytest.param(name, strict, marks=NO_MINIMUM if strict and name == "dynamic" else ())
        for name in PROGRAMS
        if name != "kept"
        for strict in (False, True)
    ],
)
def test_what_was_exported_runs(name: str, strict: bool) -> None:
    check(name, lambda module, inputs: exported(module, inputs, strict=strict))


SWEPT = ("mixed pool", "pool", "reuses", "workspaces")
"""Programs that only the sweep has Inductor compile, for which it takes the longest."""


def _compilations() -> Iterator[Any]:
    for name in COMPILABLE:
        for backend in ("eager", "aot_eager", "inductor", "wrapperir"):
            is_lowered = backend in ("inductor", "wrapperir")
            is_viewed = name in ("pools", "mixed pool", "reuses")
            marks: list[Any] = [NO_NARROW_VIEWS] if is_lowered and is_viewed else []
            if name == "dynamic":
                marks = [NO_MINIMUM]
            if backend == "inductor" and name in SWEPT:
                marks.append(pytest.mark.sweep)
            yield pytest.param(name, backend, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), _compilations())
def test_what_was_compiled_again_runs(name: str, backend: str) -> None:
    # Kernels in Triton take no time to build; Inductor itself runs none on a CPU.
    kind = "triton" if backend == "wrapperir" else "cpp"
    with inductor_config.patch(cpu_backend=kind):
        check(name, lambda module, _: compiled(module, backend))


def test_sizes_stay_symbols_where_a_graph_is_exported() -> None:
    text, (x, _) = PROGRAMS["dynamic"]
    module = built(text)
    rows = torch.export.Dim("rows", min=2, max=100)
    sizes = ({0: rows}, torch.export.Dim.DYNAMIC)
    program = torch.export.export(module, (x, 4), dynamic_shapes=sizes)
    for count, n in ((5, 4), (9, 7)):
        given = numbers(count, 8), n
        assert_same(tuple(program.module()(*given)), module(*given))
