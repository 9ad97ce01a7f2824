"""The names that tuning gives to sizes stay where the policy goes by them, only."""

from collections.abc import Mapping, Sequence

import pytest

from wrapperir.ir import (
    ComputedChoice,
    KernelSize,
    MultiKernelLine,
    Number,
    Program,
    RecordedChoice,
)
from wrapperir.text import parse_program
from wrapperir.tuning.measure import Times
from wrapperir.tuning.tune import tune_program


def program(sizes: str = "") -> Program:
    kernels = "".join(
        f"kernel_definition @{name} cpp(x: read f32*, y: write f32*) {{\n"
        f"  entry = {name}\n  source {{\n    | {name}\n  }}\n}}\n\n"
        for name in ("a", "b")
    )
    return parse_program(
        f"wrapperir 1\n\n{kernels}"
        f"multi_kernel @m(x: read f32*, y: write f32*) {{\n{sizes}"
        "  choice @a(0, 1)\n  choice @b(0, 1)\n  select benchmark\n}\n\n"
        "program @main(%x: f32[s0, s1]) {\n"
        "  symbol s0: int 1..1000 = size(%x, 0)\n"
        "  symbol s1: int 1..1000 = size(%x, 1)\n\n"
        "  %y = allocate f32[s0, s1]\n  kernel_call @m(%x, %y)\n  return %y\n}\n"
    )


def tuned(before: Program, symbol: str) -> MultiKernelLine:
    """Tune with times that are better for the second choice where a symbol is large."""

    def timer(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        return Times((9.0, 1.0 if values.get(symbol, 999) > 100 else 99.0), (None, None))

    after = tune_program(before, samples=64, timer=timer).program
    (line,) = (a for a in after.definitions if isinstance(a, MultiKernelLine))
    return line


def test_a_choice_for_all_sizes_leaves_none_behind() -> None:
    line = tuned(program(), "none of them")
    assert isinstance(line.selection, RecordedChoice)
    assert line.sizes == ()


@pytest.mark.parametrize(("symbol", "dim"), [("s0", 0), ("s1", 1)])
def test_a_tree_has_the_sizes_that_it_mentions(symbol: str, dim: int) -> None:
    line = tuned(program(), symbol)
    assert isinstance(line.selection, ComputedChoice)
    assert line.sizes == (KernelSize(f"x_size{dim}", 0, dim),)


def test_the_sizes_of_before_stay() -> None:
    line = tuned(program("  size N = size(y, 1)\n"), "s0")
    assert line.sizes == (KernelSize("N", 1, 1), KernelSize("x_size0", 0, 0))
    assert tuned(program("  size N = size(y, 1)\n"), "").sizes == line.sizes[:1]
