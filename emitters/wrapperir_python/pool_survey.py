"""Which places of each pool a program uses, found before its first line is written."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from attrs import define, field

from wrapperir.ir.expr import Expr, add, mul
from wrapperir.ir.line import (
    AllocatePoolLine,
    BlockParameter,
    BodyLine,
    BufferRef,
    ConditionalLine,
    KernelArgument,
    PlaceLine,
    SubgraphCallLine,
    WhileLoopLine,
)
from wrapperir.ir.types import DType, PoolType, TensorType

Layout: TypeAlias = tuple[Expr, DType, tuple[Expr, ...], tuple[Expr, ...]]
"""The byte of a pool that a tensor's first element is at, dtype, size and stride."""


def layout_at(begin: Expr, type: TensorType) -> Layout:
    """Return the layout of a tensor whose storage begins at byte ``begin`` of a pool."""
    first = add(begin, mul(type.offset, type.dtype.itemsize))
    return first, type.dtype, type.size, type.stride


@define
class PoolUse:
    """What is placed in an allocated pool, and in the pools that are placed in it."""

    type: PoolType
    dtypes: Counter[DType] = field(factory=Counter[DType])
    layouts: set[Layout] = field(factory=set[Layout])


class PoolSurvey:
    """Collects the uses of pools from lines, each followed by those of its blocks."""

    def __init__(self) -> None:
        """Start with no pools."""
        self.uses: dict[str, PoolUse] = {}
        self._places: dict[str, tuple[PoolUse, Expr]] = {}

    def note(self, line: BodyLine) -> None:
        """Take account of one line."""
        match line:
            case AllocatePoolLine():
                use = self.uses[line.result] = PoolUse(line.type)
                self._places[line.result] = use, 0
            case PlaceLine():
                use, outer = self._places[line.pool]
                begin = add(outer, line.offset)
                if isinstance(line.type, PoolType):
                    self._places[line.result] = use, begin
                else:
                    use.dtypes[line.type.dtype] += 1
                    use.layouts.add(layout_at(begin, line.type))
            case ConditionalLine():
                self._lend(line.on_true.parameters, line.operands)
                self._lend(line.on_false.parameters, line.operands)
            case WhileLoopLine():
                operands = (*line.carried, *line.invariant)
                self._lend(line.condition.parameters, operands)
                self._lend(line.body.parameters, operands)
            case SubgraphCallLine():
                self._lend(line.body.parameters, line.operands)
            case _:
                pass

    def _lend(
        self, parameters: Iterable[BlockParameter], operands: Iterable[KernelArgument]
    ) -> None:
        for parameter, operand in zip(parameters, operands, strict=True):
            if isinstance(parameter.type, PoolType):
                assert isinstance(operand, BufferRef)  # verified
                self._places[parameter.name] = self._places[operand.name]
