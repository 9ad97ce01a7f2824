"""Builds the lines that allocate, place, view, reuse and free memory."""

from typing import Self

from wrapperir.ir.expr import Expr
from wrapperir.ir.fresh_names import Names
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    BodyLine,
    FreeLine,
    PlaceLine,
    Provenance,
    ReinterpretLine,
    ReuseLine,
    ZeroMode,
)
from wrapperir.ir.operands import Value
from wrapperir.ir.types import PoolType, TensorType


class MemoryBuilder:
    """Appends lines to one block; names are made unique with ``names``."""

    def __init__(self, names: Names) -> None:
        """Start an empty block."""
        self._names = names
        self._lines: list[BodyLine] = []
        self._provenance: Provenance | None = None

    def at(self, provenance: Provenance | None) -> Self:
        """Give the lines that follow this provenance."""
        self._provenance = provenance
        return self

    def allocate(
        self,
        type: TensorType,
        *,
        name: str | None = None,
        workspace: ZeroMode | None = None,
    ) -> Value:
        """Allocate a buffer, or with a zero mode a workspace."""
        result = self._names.new(name, "buf")
        self._append(
            AllocateLine(
                result=result, type=type, workspace=workspace, provenance=self._provenance
            )
        )
        return Value(result, type)

    def allocate_pool(self, type: PoolType, *, name: str | None = None) -> Value:
        """Allocate memory to place buffers in."""
        result = self._names.new(name, "pool")
        self._append(
            AllocatePoolLine(result=result, type=type, provenance=self._provenance)
        )
        return Value(result, type)

    def place(
        self,
        pool: Value,
        offset: Expr,
        type: TensorType | PoolType,
        *,
        name: str | None = None,
        workspace: ZeroMode | None = None,
    ) -> Value:
        """Begin a buffer, or a smaller pool, at byte ``offset`` of ``pool``."""
        result = self._names.new(name, "buf" if isinstance(type, TensorType) else "pool")
        self._append(
            PlaceLine(
                result=result,
                type=type,
                pool=pool.name,
                offset=offset,
                workspace=workspace,
                provenance=self._provenance,
            )
        )
        return Value(result, type)

    def free(self, *values: Value) -> Self:
        """Drop names."""
        for value in values:
            self._append(FreeLine(buffer=value.name, provenance=self._provenance))
        return self

    def reuse(self, source: Value, type: TensorType, *, name: str | None = None) -> Value:
        """Give the memory of ``source`` a new name and type; ``source`` is dropped."""
        result = self._names.new(name, "buf")
        self._append(
            ReuseLine(
                result=result, source=source.name, type=type, provenance=self._provenance
            )
        )
        return Value(result, type)

    def reinterpret(
        self, source: Value, type: TensorType, *, name: str | None = None
    ) -> Value:
        """Name a view of ``source``."""
        result = self._names.new(name, "view")
        self._append(
            ReinterpretLine(
                result=result, source=source.name, type=type, provenance=self._provenance
            )
        )
        return Value(result, type)

    def append(self, line: BodyLine) -> Self:
        """Append a line made elsewhere; its names are the caller's to keep unique."""
        self._append(line)
        return self

    def _append(self, line: BodyLine) -> None:
        self._lines.append(line)
