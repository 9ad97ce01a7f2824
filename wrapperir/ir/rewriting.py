"""Replacing the expressions in any part of a program."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import attrs

from wrapperir.ir.expr import Expr, Operation, Symbol
from wrapperir.ir.program import Program

T = TypeVar("T")


def rewrite_expressions(node: T, rewrite: Callable[[Symbol | Operation], Expr]) -> T:
    """Return ``node`` with each outermost expression replaced by ``rewrite`` of it.

    ``node`` is anything of the IR: a line, a type, an argument, a tuple of those.
    Numbers stand for themselves and are left; what does not change is kept, not copied.
    """
    return cast(T, _rewrite(node, rewrite))


def rewrite_but_definitions(
    program: Program, rewrite: Callable[[Symbol | Operation], Expr]
) -> Program:
    """Return a program with its expressions replaced, but for those of definitions.

    Definitions have symbols of their own.
    """
    return attrs.evolve(
        program,
        inputs=rewrite_expressions(program.inputs, rewrite),
        symbols=rewrite_expressions(program.symbols, rewrite),
        constants=rewrite_expressions(program.constants, rewrite),
        lines=rewrite_expressions(program.lines, rewrite),
        outputs=rewrite_expressions(program.outputs, rewrite),
    )


def _rewrite(node: object, rewrite: Callable[[Symbol | Operation], Expr]) -> object:
    if isinstance(node, Symbol | Operation):
        return rewrite(node)
    if isinstance(node, tuple):
        items = cast("tuple[object, ...]", node)
        changed = tuple(_rewrite(item, rewrite) for item in items)
        same = all(new is old for new, old in zip(changed, items, strict=True))
        return items if same else changed
    kind: Any = type(node)
    if not attrs.has(kind):
        return node
    changes: dict[str, Any] = {}
    for name in _field_names(kind):
        old = getattr(node, name)
        new = _rewrite(old, rewrite)
        if new is not old:
            changes[name] = new
    return attrs.evolve(cast(Any, node), **changes) if changes else node


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind))
