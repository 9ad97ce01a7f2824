"""Collectives of a run: what is in flight, and the uses that must wait for it."""

from collections.abc import Sequence

import torch
from attrs import define, field

from wrapperir import ir as wir
from wrapperir.analysis.meetings import CollectiveCall
from wrapperir.diagnostics import Code, FaultError, LinePath, Note
from wrapperir.interp.fault import value_fault
from wrapperir.interp.frame import Frame
from wrapperir.interp.layout import integer_of
from wrapperir.interp.ranks import RankSession, Work
from wrapperir.interp.storage import elements
from wrapperir.interp.streams import Launch
from wrapperir.interp.values import TensorValue
from wrapperir.ir.line_effects import LineEffects


@define(eq=False)
class Flight:
    """A collective that was started and not waited for, and the block that started it."""

    work: Work
    line: wir.CollectiveLine
    frame: Frame
    path: LinePath
    reads: tuple[TensorValue, ...]
    writes: tuple[TensorValue, ...]


@define(eq=False)
class Flights:
    """The collectives in flight of one run; ``effects`` are those of its lines."""

    session: RankSession
    effects: LineEffects
    _flying: list[Flight] = field(factory=list[Flight])

    def __bool__(self) -> bool:
        """Return whether anything is in flight."""
        return bool(self._flying)

    def start(
        self, line: wir.CollectiveLine, frame: Frame, launch: Launch, path: LinePath
    ) -> None:
        """Start a collective.

        Raises:
            FaultError: a tensor does not fit, is not written, or is used in another order;
                or ranks of the group differ.
        """
        reads = tuple(frame.tensor(name) for name in line.reads)
        writes = tuple(frame.tensor(name) for name in line.writes)
        _note_uses(line, reads, writes, launch)
        for name, value in zip(line.reads, reads, strict=True):
            value.require_written(name)
        for name, value in zip(line.writes, writes, strict=True):
            if not value.storage.writable:
                problem = "is read-only, and the collective writes it"
                raise value_fault(Code.RUN_READ_ONLY, name, problem)
        call = CollectiveCall(
            operation=line.operation,
            reduction=line.reduction,
            peer=line.peer,
            read=_look(reads),
            written=_look(writes),
            read_splits=tuple(integer_of(n, frame.symbols) for n in line.read_splits),
            write_splits=tuple(integer_of(n, frame.symbols) for n in line.write_splits),
        )
        sent = tuple(value.tensor.clone() for value in reads)
        work = self.session.start(line.group, call, sent, path)
        _check_fit(line, work, reads, writes)
        self._flying.append(Flight(work, line, frame, path, reads, writes))

    def finish(self, line: wir.WaitCollectiveLine, frame: Frame, launch: Launch) -> None:
        """Wait for a collective, and write what it writes.

        Raises:
            FaultError: the block has no such collective in flight, or its ranks differ.
        """
        flight = self._find(line, frame)
        self._flying.remove(flight)
        _note_uses(line, flight.reads, flight.writes, launch)
        received = self.session.finish(flight.work)
        for value, got in zip(flight.writes, received, strict=True):
            value.tensor.copy_(got.reshape(value.tensor.shape))
            value.storage.mark(value.layout)

    def _find(self, line: wir.WaitCollectiveLine, frame: Frame) -> Flight:
        frame.event(line.work)
        for flight in self._flying:
            if flight.frame is frame and flight.line.result == line.work:
                if (flight.line.reads, flight.line.writes) != (line.reads, line.writes):
                    problem = "has other tensors than the wait names"
                    raise value_fault(Code.RUN_COLLECTIVE, line.work, problem)
                return flight
        problem = "is not a collective in flight: it was waited for before"
        raise value_fault(Code.RUN_WORK, line.work, problem)

    def check(self, line: wir.BodyLine, frame: Frame) -> None:
        """Check a line before it runs.

        Raises:
            FaultError: it uses or drops what a collective in flight needs.
        """
        effects = self.effects.visit(line)
        if effects.blocks:
            return  # their lines are checked
        for flight in self._flying:
            if effects.completes == flight.line.result and flight.frame is frame:
                continue
            given = {*flight.line.reads, *flight.line.writes}
            if flight.frame is frame and effects.drops in given:
                raise _fault(flight, effects.drops or "", "is dropped")
            for access in effects.accesses:
                value = frame.values.get(access.name) or frame.constants.get(access.name)
                if not isinstance(value, TensorValue):
                    continue
                if any(_overlap(value, other) for other in flight.writes):
                    raise _fault(flight, access.name, "is used")
                if access.writes and any(_overlap(value, other) for other in flight.reads):
                    raise _fault(flight, access.name, "is written")

    def check_none(self, frame: Frame) -> None:
        """Check that a block which ends has waited for its collectives.

        Raises:
            DiagnosticError: it has not; placed at the line that started the first.
        """
        for flight in self._flying:
            if flight.frame is frame:
                problem = "is a collective that nothing waited for"
                raise value_fault(Code.RUN_WORK, flight.line.result, problem).at(
                    flight.path
                )


def _look(values: Sequence[TensorValue]) -> tuple[tuple[wir.DType, int | None], ...]:
    return tuple((value.layout.dtype, value.tensor.numel()) for value in values)


def _note_uses(
    line: wir.CollectiveLine | wir.WaitCollectiveLine,
    reads: Sequence[TensorValue],
    writes: Sequence[TensorValue],
    launch: Launch,
) -> None:
    for name, value in zip(line.reads, reads, strict=True):
        launch.read(value.storage.history, f"%{name}")
    for name, value in zip(line.writes, writes, strict=True):
        launch.write(value.storage.history, f"%{name}")


def _overlap(value: TensorValue, other: TensorValue) -> bool:
    """Say whether two tensors share a byte."""
    if value.storage is not other.storage:
        return False
    mask = torch.zeros(value.storage.nbytes, dtype=torch.bool)
    for each in (value, other):
        if each.layout.is_empty:
            return False
    elements(mask, value.layout).fill_(True)
    return bool(elements(mask, other.layout).any())


def _fault(flight: Flight, name: str, verb: str) -> FaultError:
    note = Note(message=f"%{flight.line.result} is started here", path=flight.path)
    problem = f"{verb} before the wait for %{flight.line.result}"
    return value_fault(Code.RUN_IN_FLIGHT, name, problem, note)


def _check_fit(
    line: wir.CollectiveLine,
    work: Work,
    reads: Sequence[TensorValue],
    writes: Sequence[TensorValue],
) -> None:
    """Check the tensors of a collective.

    Raises:
        FaultError: one is not row-major, or they do not fit the group's size.
    """
    fault = wir.operand_fault(line, work.group.size)
    for value in (*reads, *writes):
        if fault is None and not value.tensor.is_contiguous():
            fault = "a tensor is not row-major"
    for source, result in zip(reads, writes, strict=False):
        if fault is None:
            fault = _shape_fault(work, source.tensor, result.tensor)
    if fault is not None:
        raise FaultError(Code.RUN_COLLECTIVE, fault, subject=f"%{line.result}")


def _shape_fault(work: Work, source: torch.Tensor, result: torch.Tensor) -> str | None:
    call, size = work.call, work.group.size
    if source.dtype != result.dtype:
        return "the tensors have different dtypes"
    many, few = source.numel(), result.numel()
    match call.operation:
        case wir.Collective.ALL_GATHER:
            return None if few == many * size else f"a result has the parts of {size} ranks"
        case wir.Collective.REDUCE_SCATTER:
            return None if many == few * size else f"a result is one of {size} parts"
        case wir.Collective.ALL_TO_ALL:
            return _exchange_fault(call, size, source, result)
        case (
            wir.Collective.ALL_REDUCE
            | wir.Collective.BROADCAST
            | wir.Collective.SEND
            | wir.Collective.RECEIVE
        ):
            return None


def _exchange_fault(
    call: CollectiveCall, size: int, source: torch.Tensor, result: torch.Tensor
) -> str | None:
    if source.dim() != result.dim() or source.shape[1:] != result.shape[1:]:
        return "the tensors have different rows"
    for rows, splits in (
        (source.shape[0], call.read_splits),
        (result.shape[0], call.write_splits),
    ):
        given = [each or 0 for each in splits]
        if splits and (sum(given) != rows or min(given) < 0):
            return "the splits are not all rows"
        if not splits and rows % size:
            return f"{rows} rows cannot be divided equally among {size} ranks"
    return None if call.read_splits or source.shape == result.shape else "rows differ"
