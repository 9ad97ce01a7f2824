"""Remove lines whose results nothing uses."""

from collections.abc import Iterable

from wrapperir.analysis import Body, rewrite_bodies
from wrapperir.ir import BodyLine, ExternKernelLine, FreeLine, Program, ReuseLine
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import buffers_in
from wrapperir.operators import may_leave_out


def remove_dead_lines(program: Program) -> Program:
    """Return the program without lines that only define a value that nothing uses.

    Before::

        program @main(%x: f32[8]) {
          %buf0 = allocate f32[8]
          %buf1 = extern_kernel aten.relu.default(%x) : f32[8]
          %view0 = reinterpret %buf1 as f32[4]
          free %buf0
          free %buf1
          free %view0
          comment "x goes back as it came"
          return %x
        }

    After::

        program @main(%x: f32[8]) {
          comment "x goes back as it came"
          return %x
        }

    A ``free`` is not a use.  Allocations, views, placements, events and operator calls
    are removed; operator calls stay if they write to an argument, advance a random
    generator, check something, or are not PyTorch's own.  A ``reuse`` whose result is
    dead becomes a ``free`` of its source.
    """
    return rewrite_bodies(program, _without_dead)


_EFFECTS = LineEffects(None)


def _without_dead(body: Body) -> Iterable[BodyLine]:
    live = {name for result in body.results for name in buffers_in(result)}
    removed: set[str] = set()
    backward: list[BodyLine] = []
    for line in reversed(body.lines):
        if isinstance(line, FreeLine):
            backward.append(line)
            continue
        effects = _EFFECTS.visit(line)
        result = _removable_result(line, effects)
        if result is not None and result not in live:
            removed.add(result)
            if isinstance(line, ReuseLine):
                backward.append(FreeLine(buffer=line.source, provenance=line.provenance))
            continue
        live.update(effects.uses)
        backward.append(line)
    if not removed:
        return reversed(backward)
    return [
        line
        for line in reversed(backward)
        if not (isinstance(line, FreeLine) and line.buffer in removed)
    ]


def _removable_result(line: BodyLine, effects: Effects) -> str | None:
    """Return the only name that ``line`` defines, if it has no other effect."""
    if len(effects.definitions) != 1 or effects.blocks:
        return None
    name = effects.definitions[0].name
    for access in effects.accesses:
        if access.writes and access.name != name:
            return None
    if isinstance(line, ExternKernelLine):
        return name if may_leave_out(line.operator) else None
    return None if effects.may_fail else name
