"""Launch grids of calls as expressions over the parameters of the kernel."""

import re
from collections.abc import Mapping
from functools import reduce

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.frontend.fx.numbers import apply_operation


class _NotOverParametersError(Exception):
    """A grid uses a symbol that is not the value of a parameter."""


def lower_launch(
    definition: wir.KernelDefinitionLine,
    arguments: Mapping[str, wir.Expr],
    grid: tuple[wir.Expr, ...],
) -> tuple[wir.KernelDefinitionLine, Mapping[str, wir.Expr]]:
    """Return a kernel with the grid of a call, and the arguments for new parameters.

    ``arguments`` has the values of the scalar parameters.  The kernel's own grid is kept if
    it has the same value.  Otherwise arguments in the expression are replaced by their
    parameters; an extent that still has other symbols becomes a parameter itself.
    """
    own = (*definition.grid, 1, 1, 1)[:3]
    if definition.grid and _same(definition, own, arguments, grid):
        return definition, {}
    parameters = {_folded(argument): name for name, argument in arguments.items()}
    counts: list[wir.Expr] = []
    extra: dict[str, wir.Expr] = {}
    taken = {parameter.name for parameter in definition.parameters}
    for axis, count in zip("xyz", grid, strict=True):
        try:
            counts.append(_over_parameters(_folded(count), parameters))
        except _NotOverParametersError:
            name = f"grid_{axis}"
            while name in taken or name in definition.source:
                name += "_"
            extra[name] = count
            counts.append(wir.Symbol(name))
    added = [wir.ScalarParameter(name, wir.DType.I32) for name in extra]
    launched = evolve(
        definition,
        grid=tuple(counts),
        parameters=(*added, *definition.parameters),
        source=_with_parameters(definition, tuple(extra)),
    )
    return launched, extra


def _same(
    definition: wir.KernelDefinitionLine,
    own: tuple[wir.Expr, ...],
    arguments: Mapping[str, wir.Expr],
    grid: tuple[wir.Expr, ...],
) -> bool:
    values: dict[str, wir.Expr] = dict(arguments)
    bound = (
        *definition.constants,
        *(definition.configs[0].values if definition.configs else ()),
    )
    values.update((k, v) for k, v in bound if isinstance(v, int | float))
    return all(
        _folded(_plain(wir.substitute(mine, values))) == _folded(_plain(theirs))
        for mine, theirs in zip(own, grid, strict=True)
    )


def _plain(expr: wir.Expr) -> wir.Expr:
    """Return an expression without conversions, which do not change an extent."""
    if not isinstance(expr, wir.Operation):
        return expr
    args = tuple(map(_plain, expr.args))
    return args[0] if expr.op in _CONVERSIONS else wir.Operation(expr.op, args)


_CONVERSIONS = (wir.ExprOp.TRUNC, wir.ExprOp.TO_FLOAT)


def _over_parameters(expr: wir.Expr, parameters: Mapping[wir.Expr, str]) -> wir.Expr:
    if isinstance(expr, int | float):
        return expr
    if expr in parameters:
        return wir.Symbol(parameters[expr])
    if isinstance(expr, wir.Symbol):
        raise _NotOverParametersError
    return wir.Operation(expr.op, tuple(_over_parameters(a, parameters) for a in expr.args))


_PAIRED = {wir.ExprOp.ADD: wir.add, wir.ExprOp.MUL: wir.mul}


def _folded(expr: wir.Expr) -> wir.Expr:
    """Return an expression with constants folded and binary sums and products."""
    if not isinstance(expr, wir.Operation):
        return expr
    args = [_folded(arg) for arg in expr.args]
    paired = _PAIRED.get(expr.op)
    return reduce(paired, args) if paired else apply_operation(expr.op, args)


def _with_parameters(definition: wir.KernelDefinitionLine, names: tuple[str, ...]) -> str:
    if not names:
        return definition.source
    head = re.compile(rf"\bdef {re.escape(definition.entry)}\s*\(")
    return head.sub(lambda found: f"{found[0]}{', '.join(names)}, ", definition.source, 1)
