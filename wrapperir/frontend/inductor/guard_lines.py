# sympy says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Checks of what was taken as given of sizes while a graph was traced and compiled."""

from typing import Any

from attrs import evolve
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from wrapperir.frontend.lowered import Lowered
from wrapperir.ir.expr import symbols_in
from wrapperir.ir.line import AssertScalarLine
from wrapperir.symbolic import lower_sympy


def with_guards(lowered: Lowered, shapes: ShapeEnv | None) -> Lowered:
    """Return the program with a check of each guard that ranges of symbols do not imply.

    Code was chosen by these, for the sizes of the example; ``torch.compile`` would check
    them before each call and compile again.

    Raises:
        DiagnosticError: WIR600, a guard has no form in a program.
    """
    if shapes is None:
        return lowered
    known = {line.symbol for line in lowered.program.symbols}
    checks: dict[Any, None] = {}
    for guard in shapes.guards:
        # Not simplified with what the guards themselves say.
        expr: Any = guard.expr.xreplace(shapes.replacements)
        if expr.free_symbols and not shapes.bound_sympy(expr).is_singleton():
            checks[expr] = None
    lines: list[AssertScalarLine] = []
    for expr in checks:
        condition = lower_sympy(expr)
        if known.issuperset(symbols_in(condition)):
            message = f"compiled for sizes with {expr}"
            lines.append(AssertScalarLine(condition=condition, message=message))
    program = evolve(lowered.program, lines=(*lines, *lowered.program.lines))
    return Lowered(program, lowered.constants)
