"""Programs run through the driver, as the Python emitter runs them without."""

import pytest
import torch
from wrapperir_acme import runtime
from wrapperir_acme.plugin import AcmeEmitter

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import compile_program
from wrapperir.ir import Device, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.plugin import plugin_manager
from wrapperir.testing import CASES, Case, Outcome, check_case
from wrapperir.text import parse_program
from wrapperir.tuning.choice_cache import fresh_choice_cache

PROGRAM = """\
wrapperir 1

kernel_definition @add_one cpp(p: read_write f32*, n: i64) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(float* p, int64_t n) {
    |   for (int64_t i = 0; i < n; ++i) p[i] += 1;
    | }
  }
}

program @main(%x: f32[4, 4], %allocate: f32[4, 4]) {
  %a = allocate f32[4, 4]
  extern_kernel aten.mm.out(%x, %allocate, out = %a) writes(%a)
  kernel_call @add_one(%a, 16)
  %b = allocate f32[4, 4]
  extern_kernel aten.mm.out(%x, %a, out = %b) writes(%b)
  free %a
  kernel_call @add_one(%b, 16)
  return %b
}
"""


def test_the_plugin_is_installed() -> None:
    (plugin,) = [p for p in plugin_manager().plugins if p.name == "acme"]
    assert plugin.distribution == "wrapperir-emitter-acme"
    assert isinstance(plugin_manager().emitter("acme"), AcmeEmitter)


def test_allocations_and_launches_go_through_the_driver() -> None:
    program = parse_program(PROGRAM)
    inputs = [torch.rand(4, 4), torch.rand(4, 4)]
    wanted = compile_program(program)(list(inputs))
    runtime.reset()
    outputs = compile_program(program, emitter="acme")(list(inputs))
    torch.testing.assert_close(outputs, wanted, rtol=0, atol=0)
    assert runtime.account == runtime.Account(launches=2, live=64, peak=128)
    del outputs
    assert runtime.account.live == 0


def test_what_the_accelerator_lacks_is_refused() -> None:
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (2,), device=Device("cuda", 0)))
    with pytest.raises(DiagnosticError) as caught:
        compile_program(builder.build(x), emitter="acme")
    assert [d.code for d in caught.value.diagnostics] == [Code.UNSUPPORTED_DEVICE]


def test_torch_compile_reaches_the_emitter() -> None:
    runtime.reset()
    function = torch.compile(
        lambda x: torch.relu(x + 1), backend="wrapperir", options={"emitter": "acme"}
    )
    x = torch.randn(8, 8)
    with torch.no_grad():
        assert torch.equal(function(x), torch.relu(x + 1))
    assert runtime.account.launches == 1


CHOICES = """\
wrapperir 1

kernel_definition @up cpp(p: read_write f32*, n: i64) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(float* p, int64_t n) {
    |   for (int64_t i = 0; i < n; ++i) p[i] += 1;
    | }
  }
}

kernel_definition @down cpp(n: i64, p: read_write f32*) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(int64_t n, float* p) {
    |   for (int64_t i = n - 1; i >= 0; --i) p[i] += 1;
    | }
  }
}

multi_kernel @add_one(p: read_write f32*, n: i64) {
  size N = size(p, 0)
  choice @up(0, 1)
  choice @down(1, 0)
  select SELECT
}

program @main(%x: mutated f32[s0], %y: mutated f32[4]) {
  symbol s0: int 1..100 = size(%x, 0)
  kernel_call @add_one(%x, s0)
  kernel_call @add_one(%y, 4)
  return
}
"""
POLICIES = [
    *("first", "forced(1)", "recorded(1)", "benchmark"),
    *("nearest_shape(0: (4), 1: (40))", "computed(where(N <= 8, 1, 0))"),
]


@pytest.mark.parametrize("select", POLICIES)
def test_what_is_chosen_is_launched_through_the_driver(select: str) -> None:
    program = parse_program(CHOICES.replace("SELECT", select))
    call = compile_program(program, emitter=AcmeEmitter())
    with fresh_choice_cache():
        for size in (3, 60):
            x, y = torch.zeros(size), torch.zeros(4)
            runtime.reset()
            call([x, y])
            assert runtime.account.launches == 2
            assert torch.equal(x, torch.ones(size))
            assert torch.equal(y, torch.ones(4))


NAMES = {
    "multi_kernel_forced_cpp",
    "selection_dynamic_sizes_cpp",
    "selection_in_blocks_cpp",
}
MULTI_KERNELS = [case for case in CASES if case.name in NAMES]


@pytest.mark.parametrize("case", MULTI_KERNELS, ids=lambda case: case.name)
def test_conformance_with_multi_kernels(case: Case) -> None:
    assert len(MULTI_KERNELS) == len(NAMES)
    with fresh_choice_cache():
        assert check_case(AcmeEmitter(), case) is Outcome.PASSED
