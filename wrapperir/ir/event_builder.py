"""Builds the lines by which streams and ranks meet: events, and collectives."""

from collections.abc import Sequence
from typing import Self

from attrs import evolve

from wrapperir.ir import line as lines
from wrapperir.ir.collective import (
    Collective,
    CollectiveLine,
    RankReduction,
    WaitCollectiveLine,
)
from wrapperir.ir.expr import Expr
from wrapperir.ir.names import FreshNames
from wrapperir.ir.operands import NamedValue, name_of
from wrapperir.ir.provenance import Provenance
from wrapperir.ir.types import CPU, Device, EventType, ValueType


class EventBuilder:
    """Appends lines to one block; those of memory, calls and blocks are a subclass's.

    The name of a result is generated where ``name`` is not given.
    """

    def __init__(self, names: FreshNames) -> None:
        """Start an empty block, whose generated names are unique in ``names``."""
        self._names = names
        self._lines: list[lines.BodyLine] = []
        self._provenance: Provenance | None = None

    def at(self, provenance: Provenance | None) -> Self:
        """Give the lines that follow this provenance."""
        self._provenance = provenance
        return self

    def append(self, line: lines.BodyLine) -> Self:
        """Append a line as it is; the caller keeps its names unique."""
        self._lines.append(line)
        return self

    def record_event(
        self, device: Device = CPU, *, stream: int = 0, name: str | None = None
    ) -> NamedValue:
        """Name the point that a stream's work has reached."""
        value = self._value(name, "event", EventType(device))
        return self._define(
            value, lines.RecordEventLine(result=value.name, device=device, stream=stream)
        )

    def wait_event(
        self, event: NamedValue, device: Device = CPU, *, stream: int = 0
    ) -> Self:
        """Have later work on a stream wait until ``event`` is reached."""
        return self._append(
            lines.WaitEventLine(event=name_of(event), device=device, stream=stream)
        )

    def collective(
        self,
        operation: Collective | str,
        group: str,
        reads: Sequence[NamedValue] = (),
        writes: Sequence[NamedValue] | None = None,
        *,
        reduction: RankReduction | str | None = None,
        peer: int | None = None,
        read_splits: Sequence[Expr] = (),
        write_splits: Sequence[Expr] = (),
        device: Device = CPU,
        stream: int = 0,
        name: str | None = None,
    ) -> NamedValue:
        """Start a collective, in place without ``writes``, and return its handle."""
        value = self._value(name, "work", EventType(device))
        line = CollectiveLine(
            result=value.name,
            operation=Collective(operation),
            reduction=None if reduction is None else RankReduction(reduction),
            group=group,
            peer=peer,
            reads=tuple(map(name_of, reads)),
            writes=tuple(map(name_of, reads if writes is None else writes)),
            read_splits=tuple(read_splits),
            write_splits=tuple(write_splits),
            device=device,
            stream=stream,
        )
        return self._define(value, line)

    def wait_collective(self, work: NamedValue) -> Self:
        """Wait for a collective that this block started."""
        name = name_of(work)
        started = next(
            line
            for line in reversed(self._lines)
            if isinstance(line, CollectiveLine) and line.result == name
        )
        line = WaitCollectiveLine(
            work=name,
            reads=started.reads,
            writes=started.writes,
            device=started.device,
            stream=started.stream,
        )
        return self._append(line)

    def _append(self, line: lines.BodyLine) -> Self:
        if self._provenance is not None:
            line = evolve(line, provenance=self._provenance)
        return self.append(line)

    def _value(self, name: str | None, prefix: str, type: ValueType) -> NamedValue:
        return NamedValue(self._names.new(name, prefix), type)

    def _define(self, value: NamedValue, line: lines.BodyLine) -> NamedValue:
        self._append(line)
        return value
