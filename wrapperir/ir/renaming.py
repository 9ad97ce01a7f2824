"""Renaming of the values that a line names."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from attrs import evolve, fields_dict

from wrapperir.ir.arguments import BufferRef, ItemOf, OffsetOf, SizeOf, StrideOf, ValueOf
from wrapperir.ir.line import BodyLine, Result

L = TypeVar("L", bound=BodyLine)

_NAMES = frozenset({"result", "source", "buffer", "pool", "event", "writes", "aliases"})
"""Fields of lines that hold names of values, not in a :class:`BufferRef`."""


def rename_values(line: L, rename: Callable[[str], str]) -> L:
    """Return ``line`` with ``rename`` applied to each value name that it uses or defines.

    Nested blocks stay as they are.
    """
    changes: dict[str, Any] = {}
    kind: Any = type(line)
    for field in _fields(kind):
        old = getattr(line, field)
        new = _renamed(old, rename, field in _NAMES)
        if new != old:
            changes[field] = new
    return evolve(line, **changes) if changes else line


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(fields_dict(kind))


def _renamed(value: object, rename: Callable[[str], str], is_name: bool) -> object:
    if is_name and isinstance(value, str):
        return rename(value)
    if isinstance(value, BufferRef | Result | ValueOf):
        return evolve(value, name=rename(value.name))
    if isinstance(value, SizeOf | StrideOf | OffsetOf | ItemOf):
        return evolve(value, buffer=rename(value.buffer))
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        return tuple(_renamed(item, rename, is_name) for item in items)
    return value
