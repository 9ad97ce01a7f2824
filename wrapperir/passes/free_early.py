"""Move every free right after the last use of its name."""

from wrapperir.analysis import Body, rewrite_bodies
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
    return rewrite_bodies(program, _freed_early)


_EFFECTS = LineEffects(None)


def _freed_early(body: Body) -> list[BodyLine]:
    last: dict[str, int] = {}
    for index, line in enumerate(body.lines):
        if not isinstance(line, FreeLine):
            effects = _EFFECTS.visit(line)
            for name in effects.uses:
                last[name] = index
            for made in effects.definitions:
                last[made.name] = index
    frees: dict[int, list[FreeLine]] = {}
    for line in body.lines:
        if isinstance(line, FreeLine):
            frees.setdefault(last.get(line.buffer, -1), []).append(line)
    result: list[BodyLine] = [*frees.get(-1, ())]
    for index, line in enumerate(body.lines):
        if not isinstance(line, FreeLine):
            result.append(line)
            result.extend(frees.get(index, ()))
    return result
