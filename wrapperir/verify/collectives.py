"""Checks of groups, collectives and their waits."""

from collections.abc import Sequence

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Note
from wrapperir.verify.accesses import (
    check_overlaps,
    check_read,
    check_writable,
    note_write,
)
from wrapperir.verify.comparison import any_differ, certainly_differ, same_device
from wrapperir.verify.names import define, use, use_expression, use_tensor
from wrapperir.verify.state import Role, StartedCollective, State, StorageFacts, ValueFacts
from wrapperir.verify.symbols import check_stream


def check_group(state: State, group: wir.ProcessGroup) -> None:
    """Check a declared group, and enter it."""
    if group.name in state.groups:
        message = f"the group {group.name!r} is declared twice"
        state.report(Code.INVALID_GROUP, message, group.name)
    elif group.size < 1:
        message = f"the group {group.name!r} has {group.size} ranks, not one or more"
        state.report(Code.INVALID_GROUP, message, group.name)
    elif group.rank is not None and not 0 <= group.rank < group.size:
        message = f"the group {group.name!r} of size {group.size} has no rank {group.rank}"
        state.report(Code.INVALID_GROUP, message, group.name)
    state.groups.setdefault(group.name, group)


def check_collective(state: State, line: wir.CollectiveLine) -> None:
    """Check what a collective is given, and define its handle."""
    check_stream(state, line.device, line.stream)
    for size in (*line.read_splits, *line.write_splits):
        use_expression(state, size)
    group = state.groups.get(line.group)
    if group is None:
        known = ", ".join(repr(name) for name in state.groups) or "none"
        state.report(
            Code.UNKNOWN_GROUP,
            f"the program declares no group {line.group!r}",
            line.group,
            hint=f'it declares {known}: write `group "tp" size 2` before the lines',
        )
    fault = wir.operand_fault(line, None if group is None else group.size)
    if fault is not None:
        state.report(Code.COLLECTIVE_OPERANDS, fault, line.operation.value)
    reads, writes = _use_all(state, line.reads), _use_all(state, line.writes)
    for value in reads:
        if value is not None:
            check_read(state, value, f"{line.operation.value} reads")
    for value in dict.fromkeys((*reads, *writes)):
        if value is not None:
            _check_tensor(state, line, value)
    if fault is None and group is not None:
        _check_shapes(state, line, group.size, reads, writes)
    sound = [value for value in (*reads, *writes) if value is not None]
    if not line.operation.in_place:
        check_overlaps(state, [(value, value in writes) for value in dict.fromkeys(sound)])
    for value in writes:
        if value is not None:
            note_write(state, value)
            check_writable(state, value)
    type = state.layouts.event(line.device)
    define(state, line.result, type, Role.SCALAR, StorageFacts())
    flight = StartedCollective(
        line,
        state.place(),
        tuple([value for value in reads if value is not None]),
        tuple([value for value in writes if value is not None]),
    )
    state.scope.flights[line.result] = flight
    state.in_flight += 1


def _use_all(state: State, names: Sequence[str]) -> list[ValueFacts | None]:
    return [use_tensor(state, name) for name in names]


def _check_tensor(state: State, line: wir.CollectiveLine, value: ValueFacts) -> None:
    """Check the device and the layout of a tensor."""
    type = value.type
    assert isinstance(type, wir.TensorType)
    if not same_device(type.device, line.device):
        message = f"%{value.name} is on {type.device}, and the collective on {line.device}"
        state.report_value(value, Code.DEVICE_MISMATCH, message)
    elif not value.facts.faults and _is_scattered(type):
        message = f"%{value.name} is not row-major: {line.operation.value} needs that"
        state.report_value(value, Code.COLLECTIVE_SHAPE, message)


def _is_scattered(type: wir.TensorType) -> bool:
    """Say whether the elements of a tensor are certainly not row-major."""
    rows = zip(type.size, type.stride, wir.contiguous_stride(type.size), strict=True)
    return 0 not in type.size and any(
        isinstance(size, int) and size > 1 and isinstance(step, int) and step != wanted
        for size, step, wanted in rows
        if isinstance(wanted, int)
    )


def _check_shapes(
    state: State,
    line: wir.CollectiveLine,
    size: int,
    reads: Sequence[ValueFacts | None],
    writes: Sequence[ValueFacts | None],
) -> None:
    """Compare what is written with what is read."""
    for source, result in zip(reads, writes, strict=False):
        if source is None or result is None or source is result:
            continue
        if source.facts.faults or result.facts.faults:
            continue
        fault = _shape_fault(state, line, size, source, result)
        if fault is not None:
            notes = (Note(message="it is read here", path=source.defined_at()),)
            message = f"%{result.name} does not fit %{source.name}: {fault}"
            state.report(Code.COLLECTIVE_SHAPE, message, f"%{result.name}", notes=notes)


def _shape_fault(
    state: State,
    line: wir.CollectiveLine,
    size: int,
    source: ValueFacts,
    result: ValueFacts,
) -> str | None:
    read, written = source.type, result.type
    assert isinstance(read, wir.TensorType)
    assert isinstance(written, wir.TensorType)
    if read.dtype is not written.dtype:
        return f"one has {read.dtype.value}, the other {written.dtype.value}"
    many, few = _count(state, read.size), _count(state, written.size)
    if line.operation is wir.Collective.ALL_GATHER:
        many, few = few, many
    if line.operation is not wir.Collective.ALL_TO_ALL:
        wanted = wir.mul(few, size)
        state.derived.append(wanted)
        if certainly_differ(state.layouts, many, wanted):
            return f"one has {size} times as many elements as the other, a part a rank"
        return None
    return _exchange_fault(state, line, size, read, written)


def _exchange_fault(
    state: State,
    line: wir.CollectiveLine,
    size: int,
    read: wir.TensorType,
    written: wir.TensorType,
) -> str | None:
    """Return what is wrong with the tensors of an ``all_to_all``."""
    if not read.size or not written.size or len(read.size) != len(written.size):
        return "both have as many dimensions, one or more"
    if any_differ(state.layouts, read.size[1:], written.size[1:]):
        return "their dimensions but the first are equal"
    for type, splits in ((read, line.read_splits), (written, line.write_splits)):
        rows = type.size[0]
        if splits and certainly_differ(state.layouts, rows, _sum(state, splits)):
            return "the splits are not all rows"
        if not splits and isinstance(rows, int) and rows % size:
            return f"{rows} rows cannot be divided equally among {size} ranks"
    if not line.read_splits and certainly_differ(
        state.layouts, read.size[0], written.size[0]
    ):
        return "without splits, both have as many rows"
    return None


def _count(state: State, sizes: Sequence[wir.Expr]) -> wir.Expr:
    """Return the number of elements; facts of it are kept by its identity."""
    count = wir.product(tuple(sizes))
    state.derived.append(count)
    return count


def _sum(state: State, sizes: Sequence[wir.Expr]) -> wir.Expr:
    total: wir.Expr = 0
    for each in sizes:
        total = wir.add(total, each)
    state.derived.append(total)
    return total


def check_wait_collective(state: State, line: wir.WaitCollectiveLine) -> None:
    """Check that a line waits, once, for a collective of its block."""
    check_stream(state, line.device, line.stream)
    value = use(state, line.work)
    for name in dict.fromkeys((*line.reads, *line.writes)):
        use_tensor(state, name)
    flight = state.scope.flights.get(line.work)
    if value is None:
        return
    if flight is None:
        state.report_value(
            value,
            Code.NOT_A_WORK,
            f"%{line.work} is not a collective",
            hint="wait for an event with `wait_event`",
        )
    elif flight.waited is not None:
        notes = (Note(message="waited for here", path=flight.waited),)
        message = f"%{line.work} was waited for before"
        state.report(Code.WAITED_TWICE, message, f"%{line.work}", notes=notes)
    else:
        flight.waited = state.place()
        state.in_flight -= 1
        _check_same(state, line, flight)


def _check_same(
    state: State, line: wir.WaitCollectiveLine, flight: StartedCollective
) -> None:
    """Check that a wait names what its collective does."""
    started = flight.line
    if (line.reads, line.writes) != (started.reads, started.writes):
        problem = "reads and writes other tensors than the wait names"
    elif (line.device, line.stream) != (started.device, started.stream):
        problem = "was started on another stream"
    else:
        return
    notes = (Note(message="started here", path=flight.started),)
    message = f"the collective %{line.work} {problem}"
    state.report(Code.COLLECTIVE_OPERANDS, message, f"%{line.work}", notes=notes)
