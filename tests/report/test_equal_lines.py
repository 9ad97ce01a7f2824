"""Equal lines of equal layers, and the joined paths of these."""

import pytest

from wrapperir.ir import OriginTable
from wrapperir.report.equal_lines import equal_lines, join_modules, line_modules
from wrapperir.text import parse_program

TEXT = """\
wrapperir 1

program @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 8]) {
  %a = extern_kernel aten.mm.default(%x, %w) : f32[8, 8] from(mm)
  %b = extern_kernel aten.mm.default(%a, %v) : f32[8, 8] from(mm_1)
  %c = extern_kernel aten.mm.default(%b, %v) : f32[8, 8] from(mm_2)
  %d = extern_kernel aten.mm.default(%c, %v) : f32[8, 8] from(mm_3) by(some_pass)
  %e = extern_kernel aten.mm.default(%d, %v) : f32[8, 8] from(mm_4)
  free %x
  free %w
  return %a, %b, %c, %d, %e
}

origins {
  place 0: "model.py" 3
  place 1: "model.py" 4
  mm: aten.mm.default in "layers.0.fc" at 0
  mm_1: aten.mm.default in "layers.1.fc" at 0
  mm_2: aten.mm.default in "layers.2.out"
  mm_3: aten.mm.default in "layers.3.fc" at 0
  mm_4: aten.mm.default in "layers.4.fc" at 1
}
"""


def test_lines_are_equal_if_only_names_and_numbers_of_layers_differ() -> None:
    program = parse_program(TEXT)
    table = OriginTable(program)
    assert equal_lines(program.lines, table) == (0, 0, 2, 3, 4, 5, 6)
    assert [line_modules(line, table) for line in program.lines[:2]] == [
        ("layers.0.fc",),
        ("layers.1.fc",),
    ]


TWO_BUFFERS = """\
wrapperir 1

program @main() {
  %a0 = allocate f32[8] from(sin_0)
  %b0 = allocate f32[8] from(sin_0)
  %a1 = allocate f32[8] from(sin_1)
  %b1 = allocate f32[8] from(sin_1)
  return
}

origins {
  place 0: "model.py" 5 "forward"
  sin_0: aten.sin.default in "layers.0" at 0
  sin_1: aten.sin.default in "layers.1" at 0
}
"""


def test_two_buffers_of_one_layer_are_equal_to_those_of_another_in_order() -> None:
    program = parse_program(TWO_BUFFERS)
    assert equal_lines(program.lines, OriginTable(program)) == (0, 1, 0, 1)


@pytest.mark.parametrize(
    ("paths", "joined"),
    [
        (["layers.0.fc", "layers.1.fc", "layers.2.fc"], "layers.0-2.fc"),
        (["layers.3", "layers.0", "layers.1", "layers.1"], "layers.0-1,3"),
        (["a.0.b.0", "a.1.b.1"], "a.0.b.0, a.1.b.1"),
        (["a.0.b.0", "a.0.b.2", "a.1.b.0", "a.1.b.2"], "a.0-1.b.0,2"),
        (["fc1", "fc2"], "fc1, fc2"),
        (["a.0", "a.1.norm", "head", "a.1"], "a.0-1, a.1.norm, head"),
        (["fc"], "fc"),
        ([], ""),
    ],
)
def test_paths_of_equal_layers_are_one(paths: list[str], joined: str) -> None:
    assert join_modules(paths) == joined
