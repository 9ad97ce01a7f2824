"""Renaming of the values that programs and lines name, and replacing of devices."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar, cast

from attrs import evolve, fields_dict, has

from wrapperir.ir.arguments import (
    Argument,
    BufferRef,
    ItemOf,
    OffsetOf,
    SizeOf,
    StrideOf,
    ValueOf,
)
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.ir.line import Block, BodyLine, Result
from wrapperir.ir.program import Program
from wrapperir.ir.types import Device

L = TypeVar("L", bound=BodyLine)
P = TypeVar("P")

_NAMES = frozenset(
    ["result", "source", "buffer", "pool", "event", "work", "reads", "writes", "aliases"]
)
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


def rename_program(program: Program, rename: Callable[[str], str]) -> Program:
    """Return ``program`` with ``rename`` applied to each value name, in nested blocks too.

    The names of the program itself, of symbols and of kernels stay.
    """
    return evolve(
        program,
        inputs=tuple([evolve(each, name=rename(each.name)) for each in program.inputs]),
        symbols=tuple([rename_values(line, rename) for line in program.symbols]),
        constants=tuple(
            [evolve(each, name=rename(each.name)) for each in program.constants]
        ),
        lines=_renamed_lines(program.lines, rename),
        outputs=cast("tuple[Argument, ...]", _renamed(program.outputs, rename, False)),
    )


def _renamed_lines(
    lines: Iterable[BodyLine], rename: Callable[[str], str]
) -> tuple[BodyLine, ...]:
    def in_block(block: Block) -> Block:
        return evolve(
            block,
            parameters=tuple(
                [evolve(each, name=rename(each.name)) for each in block.parameters]
            ),
            lines=_renamed_lines(block.lines, rename),
            results=cast("tuple[Argument, ...]", _renamed(block.results, rename, False)),
        )

    return tuple([rewrite_blocks(rename_values(line, rename), in_block) for line in lines])


def replace_devices(part: P, replace: Callable[[Device], Device]) -> P:
    """Return a program, line, type or argument with ``replace`` applied to each device."""
    return cast(P, _with_devices(part, replace))


def replace_cpu(part: P, kind: str | None) -> P:
    """Return a part with the device of a kind in place of the CPU; ``None`` is the CPU."""
    if kind is None:
        return part
    device = Device(kind, 0)
    return replace_devices(part, lambda each: device if each.kind == "cpu" else each)


def _with_devices(part: object, replace: Callable[[Device], Device]) -> object:
    if isinstance(part, Device):
        return replace(part)
    if isinstance(part, tuple):
        items = cast("tuple[object, ...]", part)
        return tuple([_with_devices(item, replace) for item in items])
    kind: Any = type(part)
    if not has(kind):
        return part
    whole: Any = part
    changes: dict[str, Any] = {}
    for name in _fields(kind):
        old: object = getattr(part, name)
        new = _with_devices(old, replace)
        if new != old:
            changes[name] = new
    return evolve(whole, **changes) if changes else part
