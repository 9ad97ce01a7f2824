"""Programs whose constant sizes are smaller."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import attrs
from attrs import evolve

from wrapperir.ir import (
    Argument,
    AssertSizeStrideLine,
    BodyLine,
    BufferRef,
    Expr,
    ExternKernelLine,
    KernelCallLine,
    Program,
    TensorType,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import value_types

N = TypeVar("N")

_Number = Callable[[Expr], Expr]


def sizes_of(program: Program) -> list[int]:
    """Return the constant sizes of values that can be smaller, the greatest first."""
    found = {
        extent
        for type in value_types(program).values()
        if isinstance(type, TensorType)
        for extent in type.size
        if isinstance(extent, int) and extent > 1
    }
    return sorted(found, reverse=True)


def with_smaller_size(program: Program, size: int) -> Iterator[Program]:
    """Yield programs with a smaller number in place of a size.

    It is replaced in all types, first where it is a size by itself, and then in all its
    multiples too; in the lists of numbers that operators are given, or not.  Dense types
    stay dense.  What kernels are given keeps its type, as their sources may have sizes in
    them.  The programs need not be valid.
    """
    for smaller in dict.fromkeys((1, 2, size // 2)):
        if smaller >= size:
            continue
        for replace in (_replacing(size, smaller), _scaling(size, smaller)):
            for in_arguments in (True, False):
                changed = _Change(replace, in_arguments).program(program)
                if _same_for_kernels(program, changed):
                    yield changed


def _replacing(size: int, smaller: int) -> _Number:
    return lambda number: smaller if type(number) is int and number == size else number


def _scaling(size: int, smaller: int) -> _Number:
    def scale(number: Expr) -> Expr:
        if type(number) is not int or number % size:
            return number
        return number // size * smaller

    return scale


def _same_for_kernels(old: Program, new: Program) -> bool:
    """Return whether all values that kernels are given have the same types as before."""
    before, after = value_types(old), value_types(new)
    names = {
        argument.name
        for line in walk_lines(old.lines)
        if isinstance(line, KernelCallLine)
        for argument in line.arguments
        if isinstance(argument, BufferRef)
    }
    return all(before.get(name) == after.get(name) for name in names)


class _Change:
    """Replaces numbers in the types and lines of a program."""

    def __init__(self, replace: _Number, in_arguments: bool) -> None:
        self._replace = replace
        self._in_arguments = in_arguments

    def program(self, program: Program) -> Program:
        """Return the program with other numbers."""
        return evolve(
            program,
            inputs=self._node(program.inputs),
            constants=self._node(program.constants),
            lines=self._node(program.lines),
        )

    def _node(self, node: N) -> N:
        """Return a part of a program with the types in it changed."""
        if isinstance(node, TensorType):
            size, stride = self._layout(node.size, node.stride)
            offset = self._replace(node.offset)
            return cast(N, evolve(node, size=size, stride=stride, offset=offset))
        if isinstance(node, AssertSizeStrideLine):
            size, stride = self._layout(node.size, node.stride)
            return cast(N, evolve(node, size=size, stride=stride))
        if isinstance(node, tuple):
            items = cast("tuple[object, ...]", node)
            return cast(N, tuple([self._node(item) for item in items]))
        kind: Any = type(node)
        if not attrs.has(kind):
            return node
        changes: dict[str, Any] = {
            name: new
            for name in attrs.fields_dict(kind)
            if (new := self._node(getattr(node, name))) != getattr(node, name)
        }
        changed: Any = evolve(cast(Any, node), **changes) if changes else node
        if self._in_arguments and isinstance(changed, ExternKernelLine):
            return cast(N, self._with_arguments(changed))
        return cast(N, changed)

    def _layout(
        self, size: Sequence[Expr], stride: Sequence[Expr]
    ) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        new = tuple([self._replace(extent) for extent in size])
        order = _dense_order(size, stride)
        if order is None:
            return new, tuple([self._replace(step) for step in stride])
        steps: list[Expr] = list(stride)
        step = 1
        for dim in order:
            extent = new[dim]
            assert isinstance(extent, int)
            steps[dim] = step
            step *= max(extent, 1)
        return new, tuple(steps)

    def _with_arguments(self, line: ExternKernelLine) -> BodyLine:
        return evolve(
            line,
            arguments=tuple([self._list(each) for each in line.arguments]),
            keywords=tuple([(name, self._list(each)) for name, each in line.keywords]),
        )

    def _list(self, argument: Argument) -> Argument:
        """Return a list of numbers with others; single ones may be dimensions."""
        if not isinstance(argument, tuple):
            return argument
        return tuple(
            [self._replace(each) if type(each) is int else each for each in argument]
        )


def _dense_order(size: Sequence[Expr], stride: Sequence[Expr]) -> list[int] | None:
    """Return the dimensions from the innermost on; ``None`` if the type is not dense."""
    numbers = [(s, t) for s, t in zip(size, stride, strict=False) if _is_number(s, t)]
    if len(numbers) != len(size) or len(size) != len(stride):
        return None
    order = sorted(
        range(len(size)),
        key=lambda dim: (cast(int, stride[dim]), cast(int, size[dim]), -dim),
    )
    step = 1
    for dim in order:
        extent = cast(int, size[dim])
        if extent != 1 and stride[dim] != step:
            return None
        step *= max(extent, 1)
    return order


def _is_number(*numbers: Expr) -> bool:
    return all(type(each) is int for each in numbers)
