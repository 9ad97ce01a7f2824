"""With debug information, the code has the address of each value's data by its name."""

from collections.abc import Sequence

import torch

from wrapperir.emit import compile_program
from wrapperir.ir import Program
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import run_passes
from wrapperir.text import parse_program
from wrapperir_cpp.emitter import CppEmitter

CHAIN = """\
wrapperir 1
program @main(%x: f32[4], %view: bf16[4]) {
  %a = extern_kernel aten.sin.default(%x) : f32[4]
  %b = extern_kernel aten.neg.default(%a) : f32[4]
  %a_ = reinterpret %a as f32[2; offset 2]
  %c = extern_kernel aten.cat.default([%a, %b]) : f32[8]
  %new = extern_kernel aten.sum.default(%c) : f32[]
  %new_ = extern_kernel aten.cos.default(%c) : f32[8]
  %d = extern_kernel aten.add.Tensor(%new_, %new) : f32[8]
  return %d, %a_
}
"""
LOOP = """\
wrapperir 1
program @main(%x: f32[4], %n: i64) {
  %r, %i = while_loop (%x, 0) (%n) : f32[4], i64 {
    condition (%c: f32[4], %ci: i64, %cn: i64) {
      symbol_definition i: int = value(%ci)
      symbol_definition most: int = value(%cn)
      return i < most
    }
    body (%d: f32[4], %di: i64, %dn: i64) {
      symbol_definition j: int = value(%di)
      %e = extern_kernel aten.add.Tensor(%d, %d) : f32[4]
      return %e, j + 1
    }
  }
  return %r
}
"""


def set_addresses(program: Program) -> Sequence[tuple[str, str]]:
    """Return the members of ``c.at`` and what is assigned to them, in order."""
    text = str(CppEmitter().debugging("code").emit(program).files["program.cpp"])
    lines = [line.strip() for line in text.split("\n")]
    found = [line[5:-1].partition(" = ") for line in lines if line.startswith("c.at.")]
    return [(name, value) for name, _, value in found]


def test_values_in_pools_and_reused_ones_have_addresses_by_their_names() -> None:
    program = run_passes(parse_program(CHAIN), MEMORY_PASSES)
    addresses = dict(reversed(set_addresses(program)))  # the first of each
    assert {"x", "view", "a", "b", "a_", "c", "new_", "d"} <= addresses.keys()
    assert addresses["x"] == "at<float>(wrapperir_data(c.t[x].get(), 0))"
    assert addresses["view"].startswith("at<void>(wrapperir_data(c.t[view")
    assert addresses["a"].startswith("at<float>(wrapperir_data(c.t[a].get(), ")
    assert addresses["a_"] == addresses["a"].replace("(), 0)", "(), 8)")
    assert addresses["b"] == "at<float>(c.arena)"
    assert addresses["d"] == addresses["new_"] == addresses["c"]
    # The word of C++ has another name, and takes none of another value's.
    assert "new" not in addresses
    assert "new__" in addresses


def test_a_value_has_no_address_from_the_line_on_that_ends_it() -> None:
    program = run_passes(parse_program(CHAIN), MEMORY_PASSES)
    live: set[str] = set()
    for name, value in set_addresses(program):
        if value == "nullptr":
            assert name in live
            live.remove(name)
        else:
            assert name not in live
            live.add(name)
    assert live == {"d", "a_"}


def test_values_of_a_loop_have_addresses_in_each_iteration_only() -> None:
    program = run_passes(parse_program(LOOP), ["insert_frees"])
    found = set_addresses(program)
    ends = [name for name, value in found if value == "nullptr"]
    assert {"c", "d", "e"} <= set(ends)
    # The loop ends after its condition, when the body's parameter has an address.
    after = found[[name for name, _ in found].index("r") - 2 :]
    assert [name for name, _ in after[:3]] == ["c", "d", "r"]
    given = torch.arange(4.0)
    for count in (0, 3):
        run = compile_program(program, emitter="cpp", debug_info="program")
        (result,) = run([given, count])
        assert isinstance(result, torch.Tensor)
        assert torch.equal(result, given * 2**count)


SET = """\
wrapperir 1
program @main(%x: f32[4]) {
  %a = extern_kernel aten.clone.default(%x) : f32[4]
  %n = extern_kernel aten.neg.default(%x) : f32[4]
  %v = reinterpret %a as f32[4]
  extern_kernel aten.set_.source_Tensor(%v, %n) writes(%v)
  free %n
  return %v, %a
}
"""


def test_an_operator_that_replaces_data_changes_the_address() -> None:
    found = set_addresses(run_passes(parse_program(SET), ["insert_frees"]))
    of_v = [index for index, (name, _) in enumerate(found) if name == "v"]
    assert len(of_v) == 2
    assert found[of_v[0]] == found[of_v[1]]
    assert [name for name, _ in found[of_v[0] + 1 : of_v[1]]] == ["a"]
