"""The names and symbols that arguments, types and lines mention."""

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import attrs

from wrapperir.ir.arguments import (
    Argument,
    BufferRef,
    ItemOf,
    OffsetOf,
    SizeOf,
    StrideOf,
    SymbolSource,
    ValueOf,
)
from wrapperir.ir.expr import Operation, Symbol, symbols_in
from wrapperir.ir.line import AnyLine, Block
from wrapperir.ir.provenance import Provenance
from wrapperir.ir.types import PoolType, TensorType, TupleType, ValueType


def buffers_in(argument: Argument) -> list[str]:
    """Return the names that an argument refers to, nested ones included."""
    names: list[str] = []
    add_buffers(argument, names)
    return names


def add_buffers(argument: Argument, names: list[str]) -> None:
    """Add the names that an argument refers to, nested ones included, to ``names``."""
    if isinstance(argument, BufferRef):
        names.append(argument.name)
    elif isinstance(argument, tuple):
        for item in argument:
            add_buffers(item, names)


def argument_symbols(argument: Argument) -> Iterator[str]:
    """Yield the names of the symbols in an argument, nested ones included."""
    return _symbols(argument)


def type_symbols(type: ValueType) -> Iterator[str]:
    """Yield the names of the symbols in a type."""
    if isinstance(type, TensorType):
        for expr in (*type.size, *type.stride, type.offset):
            yield from symbols_in(expr)
    elif isinstance(type, PoolType):
        yield from symbols_in(type.size)
    elif isinstance(type, TupleType):
        for element in type.elements:
            yield from type_symbols(element)


def line_symbols(line: AnyLine) -> Iterator[str]:
    """Yield the names of the symbols that a line uses, its nested blocks not included.

    The symbols in the types of its results are among them; the symbol that it defines is
    not.
    """
    kind: Any = type(line)
    for name in _mentioning(kind):
        yield from _symbols(getattr(line, name))


def _symbols(node: object) -> Iterator[str]:
    if isinstance(node, Symbol | Operation):
        yield from symbols_in(node)
    elif isinstance(node, tuple):
        for item in cast("tuple[object, ...]", node):
            yield from _symbols(item)
    elif not isinstance(node, Block | Provenance):
        kind: Any = type(node)
        for name in _mentioning(kind):
            yield from _symbols(getattr(node, name))


@cache
def _mentioning(kind: Any) -> tuple[str, ...]:
    """Return the fields of a class of the IR, which may mention symbols."""
    return tuple(attrs.fields_dict(kind)) if attrs.has(kind) else ()


def source_buffer(source: SymbolSource) -> str | None:
    """Return the value that a symbol's source reads, if it reads one."""
    if isinstance(source, SizeOf | StrideOf | OffsetOf | ItemOf):
        return source.buffer
    return source.name if isinstance(source, ValueOf) else None
