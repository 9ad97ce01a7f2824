"""Move every free right after the last use of its name."""

from collections.abc import Sequence

from wrapperir.analysis import rewrite_bodies
from wrapperir.ir import BodyLine, FreeLine, Program
from wrapperir.ir.line_effects import LineEffects


def free_early(program: Program) -> Program:
    """Return the program with each of its frees right after the last use of the name.

    Before::

        program @main(%x: f32[8]) {
          %buf0 = extern_kernel aten.relu.default(%x) : f32[8]
          %buf1 = extern_kernel aten.neg.default(%buf0) : f32[8]
          free %x
          free %buf0
          return %buf1
        }

    After::

        program @main(%x: f32[8]) {
          %buf0 = extern_kernel aten.relu.default(%x) : f32[8]
          free %x
          %buf1 = extern_kernel aten.neg.default(%buf0) : f32[8]
          free %buf0
          return %buf1
        }

    Frees after the same line keep their order; an unused input is freed before the first
    line.  ``insert_frees`` adds missing frees.
    """
    return rewrite_bodies(program, lambda body: freed_early(body.lines))


_EFFECTS = LineEffects(None)


def freed_early(lines: Sequence[BodyLine]) -> list[BodyLine]:
    """Return the lines of a block with each free right after the last use of the name."""
    last: dict[str, int] = {}
    for index, line in enumerate(lines):
        if not isinstance(line, FreeLine):
            effects = _EFFECTS.visit(line)
            for name in effects.uses:
                last[name] = index
            for made in effects.definitions:
                last[made.name] = index
    frees: dict[int, list[FreeLine]] = {}
    for line in lines:
        if isinstance(line, FreeLine):
            frees.setdefault(last.get(line.buffer, -1), []).append(line)
    result: list[BodyLine] = [*frees.get(-1, ())]
    for index, line in enumerate(lines):
        if not isinstance(line, FreeLine):
            result.append(line)
            result.extend(frees.get(index, ()))
    return result
