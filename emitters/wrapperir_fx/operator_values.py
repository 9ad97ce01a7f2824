"""What calls of operators look like that return what they were given, or views of it."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
# pyright: reportUnknownArgumentType=false

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir.ir.expr import sub
from wrapperir.ir.line import ExternKernelLine
from wrapperir.ir.types import TensorType, TupleType, ValueType

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines


def look_of_result(
    lines: "FxLines", line: ExternKernelLine, operator: object, type: ValueType
) -> object:
    """Return what a result looks like: a view, where the schema says that it is one."""
    if len(line.aliases) == 1 and isinstance(operator, OpOverload) and _is_view(operator):
        source = lines.values[line.aliases[0]]
        given: object = source.node.meta.get("val")
        if isinstance(source.type, TensorType) and isinstance(given, torch.Tensor):
            return _view(lines, given, source.type, type)
    return lines.fakes.of(type, line.result or "")


def look_of_written(
    operator: object, args: tuple[Argument, ...], keywords: Mapping[str, Argument]
) -> object:
    """Return what a call looks like that returns the tensors it wrote, if it does."""
    if not isinstance(operator, OpOverload):
        return None
    looks: list[object] = []
    for place, name in _returned(operator):
        given = keywords.get(name) if place >= len(args) else args[place]
        looks.append(given.meta.get("val") if isinstance(given, Node) else None)
    return tuple(looks) if len(looks) > 1 else looks[0] if looks else None


def _view(
    lines: "FxLines", given: torch.Tensor, source: TensorType, type: ValueType
) -> object:
    if isinstance(type, TupleType):
        return tuple(_view(lines, given, source, item) for item in type.elements)
    if not isinstance(type, TensorType):
        return lines.fakes.of(type)
    if type.dtype.itemsize != source.dtype.itemsize:
        return lines.fakes.view(given, type)
    step: Any = lines.fakes.number(sub(type.offset, source.offset))
    return lines.fakes.view(given, type, given.storage_offset() + step)


@functools.lru_cache(maxsize=1024)
def _is_view(operator: OpOverload) -> bool:
    aliases = [result.alias_info for result in operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


@functools.lru_cache(maxsize=1024)
def _returned(operator: OpOverload) -> tuple[tuple[int, str], ...]:
    """Return the places and names of the arguments that are written and returned."""
    schema = operator._schema
    written = {
        frozenset(argument.alias_info.before_set): (place, argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    }
    aliases = [result.alias_info for result in schema.returns]
    found = [
        written.get(frozenset(alias.before_set)) if alias is not None else None
        for alias in aliases
    ]
    known = [place for place in found if place is not None]
    return tuple(known) if len(known) == len(found) else ()
