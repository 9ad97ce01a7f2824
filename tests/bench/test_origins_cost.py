"""The bench of what origins cost: it times functions that are there, and compares texts."""

import pytest

from bench.compile.origins import FINDERS, text_sizes
from wrapperir.ir import Program
from wrapperir.text import parse_program

TEXT = """\
wrapperir 1

kernel_definition @fused cpp(in0: read f32*, out0: write f32*) {
  entry = fused
  metadata "copies.out0.in0" = "all"
  source {
    | void fused(const float* p0, float* p1) {}
  }
}

program @main(%x: f32[8]) {
  %y = allocate f32[8] from(clone)
  kernel_call @fused(%x, %y) from(clone)
  return %y
}

origins {
  place 0: "model.py" 6 "forward"
  clone: aten.clone.default at 0
}
"""


@pytest.mark.parametrize(("owner", "name"), FINDERS, ids=lambda part: str(part)[:60])
def test_what_is_timed_is_there(owner: object, name: str) -> None:
    assert callable(getattr(owner, name))


def test_texts_have_origins_and_facts_or_not() -> None:
    program: Program = parse_program(TEXT)
    now, bare, before = text_sizes(program)
    facts = '  metadata "copies.out0.in0" = "all"\n'
    without = TEXT.replace(" from(clone)", "").partition("\norigins {")[0]
    assert now == len(TEXT)
    assert bare in (len(without) - len(facts), len(without) - len(facts) - 1)
    assert bare < min(before, now)
