"""Checks of symbols, asserts and events, and of the streams of lines."""

import math

from wrapperir import ir as wir
from wrapperir.analysis.arithmetic import UNBOUNDED, Interval, Polynomial
from wrapperir.diagnostics import Code, Note
from wrapperir.verify.accesses import check_read
from wrapperir.verify.comparison import any_differ, certainly_differ
from wrapperir.verify.layouts import SymbolFacts, is_power_of_two
from wrapperir.verify.names import define, use, use_expression, use_tensor
from wrapperir.verify.state import Role, State, StorageFacts, ValueFacts


def check_symbol_definition(state: State, line: wir.SymbolDefinitionLine) -> None:
    """Check a source and range, and define the symbol."""
    found, computed = _check_source(state, line)
    low = -math.inf if line.lower is None else line.lower
    high = math.inf if line.upper is None else line.upper
    if low > high:
        state.report(
            Code.EMPTY_RANGE,
            f"the range of {line.symbol} is empty: {line.lower} is above {line.upper}",
            line.symbol,
        )
        low, high = UNBOUNDED
    elif found[1] < low or found[0] > high:
        state.report(
            Code.OUTSIDE_RANGE,
            f"the value of {line.symbol} is never in its range",
            line.symbol,
        )
    else:
        low, high = max(low, found[0]), min(high, found[1])
    facts = SymbolFacts(
        line.kind,
        (low, high) if line.kind is wir.SymbolKind.INT else UNBOUNDED,
        computed if line.kind is wir.SymbolKind.INT else None,
        state.place(),
    )
    _define(state, line.symbol, facts)


def _define(state: State, name: str, facts: SymbolFacts) -> None:
    first = state.symbols.get(name) or state.ended_symbols.get(name)
    if first is not None:
        if not first.poisoned:
            state.report(
                Code.SYMBOL_REDEFINITION,
                f"the symbol {name} is defined twice",
                name,
                notes=(Note(message="first defined here", path=first.defined),),
            )
            first.poisoned = True
        return
    state.check_identifier("the symbol name", name)
    if name in wir.RESERVED_SYMBOLS:
        state.report(
            Code.RESERVED_SYMBOL, f"{name} is a word of the text form, not a symbol", name
        )
    state.symbols[name] = facts
    state.scope.symbols.append(name)


def _check_source(
    state: State, line: wir.SymbolDefinitionLine
) -> tuple[Interval, Polynomial | None]:
    """Check the source of a symbol; return its range and its polynomial, if known."""
    source = line.source
    if isinstance(source, wir.SizeOf | wir.StrideOf):
        return _dimension(state, source), None
    if isinstance(source, wir.OffsetOf):
        value = use_tensor(state, source.buffer)
        return (0, math.inf) if value is not None else UNBOUNDED, None
    if isinstance(source, wir.ItemOf):
        value = use_tensor(state, source.buffer)
        if value is not None:
            check_one_element(state, value)
            check_read(state, value, "the symbol is read from")
        return UNBOUNDED, None
    if isinstance(source, wir.ValueOf):
        value = use(state, source.name)
        if value is not None and not isinstance(value.type, wir.ScalarType):
            state.report_value(
                value,
                Code.SYMBOL_SOURCE,
                f"%{source.name} is not a scalar",
                hint="the one element of a tensor is item(…)",
            )
        return UNBOUNDED, None
    return _expression(state, source)


def _expression(state: State, source: wir.Expr) -> tuple[Interval, Polynomial | None]:
    use_expression(state, source)
    expressions = state.layouts.expressions
    if isinstance(source, wir.Operation) and expressions.of(source).fault is not None:
        return UNBOUNDED, None
    if isinstance(source, float):
        return expressions.interval(source), None
    return expressions.interval(source), expressions.polynomials.of(source)


def _dimension(state: State, source: wir.SizeOf | wir.StrideOf) -> Interval:
    value = use_tensor(state, source.buffer)
    if value is None:
        return UNBOUNDED
    assert isinstance(value.type, wir.TensorType)
    rank = len(value.type.size)
    if not 0 <= source.dim < rank:
        message = f"%{source.buffer} has {rank} dimensions, and no dimension {source.dim}"
        state.report_value(value, Code.SYMBOL_SOURCE, message)
    return (0, math.inf)


def check_one_element(state: State, value: ValueFacts) -> None:
    """Report a tensor that certainly has more or fewer elements than one."""
    type = value.type
    assert isinstance(type, wir.TensorType)
    if any(certainly_differ(state.layouts, size, 1) for size in type.size):
        state.report_value(
            value, Code.NOT_ONE_ELEMENT, f"%{value.name} does not have exactly one element"
        )


def check_assert_size_stride(state: State, line: wir.AssertSizeStrideLine) -> None:
    """Check the ranks, and that the declared type does not make the assert fail."""
    for expr in (*line.size, *line.stride):
        use_expression(state, expr)
    value = use_tensor(state, line.buffer)
    if len(line.size) != len(line.stride):
        state.report(
            Code.RANK_MISMATCH,
            f"the assert's size has {len(line.size)} dimensions, its stride "
            f"{len(line.stride)}",
        )
        return
    if value is None or value.facts.faults:
        return
    type = value.type
    assert isinstance(type, wir.TensorType)
    layouts = state.layouts
    if len(type.size) != len(line.size):
        found = f"%{line.buffer} has {len(type.size)} dimensions, not {len(line.size)}"
    elif any_differ(layouts, type.size, line.size):
        found = f"%{line.buffer} has another size"
    elif not value.facts.empty and any(
        certainly_differ(layouts, size, 0)
        and certainly_differ(layouts, size, 1)
        and certainly_differ(layouts, a, b)
        for size, a, b in zip(type.size, type.stride, line.stride, strict=True)
    ):
        found = f"%{line.buffer} has another stride"
    else:
        return
    message = f"the assert contradicts the declared type: {found}"
    state.report_value(value, Code.FALSE_ASSERT, message)


def check_assert_alignment(state: State, line: wir.AssertAlignmentLine) -> None:
    """Check the tensor, and that the alignment is a power of two."""
    use_tensor(state, line.buffer)
    if not is_power_of_two(line.bytes):
        state.report(
            Code.INVALID_ALIGNMENT,
            f"the alignment {line.bytes} is not a power of two",
            str(line.bytes),
        )


def check_assert_scalar(state: State, line: wir.AssertScalarLine) -> None:
    """Check the condition's symbols."""
    use_expression(state, line.condition)


def check_assert_not_nan(state: State, line: wir.AssertNotNanLine) -> None:
    """Check the tensor, whose elements the host reads."""
    value = use_tensor(state, line.buffer)
    if value is not None:
        check_read(state, value, "the assert reads")


def check_stream(state: State, device: wir.Device, stream: int) -> None:
    """Check the device and the stream of a line."""
    fault = state.layouts.device_fault(device)
    if fault is not None:
        state.report_fault(fault)
    if stream == 0:
        return
    if stream < 0:
        state.report(
            Code.INVALID_PLACEMENT, f"{stream!r} is not the number of a stream", str(stream)
        )
    elif state.scope.depth and not state.scope.any_stream:
        state.report(
            Code.NESTED_STREAM,
            f"a block is on stream 0, not on stream {stream}",
            f"stream({stream})",
            hint="move the line out of the block, or leave the stream out",
        )
    else:
        state.streams = True


def check_record_event(state: State, line: wir.RecordEventLine) -> None:
    """Define an event."""
    check_stream(state, line.device, line.stream)
    type = state.layouts.event(line.device)
    define(state, line.result, type, Role.SCALAR, StorageFacts())


def check_wait_event(state: State, line: wir.WaitEventLine) -> None:
    """Check that a line waits for an event of the same kind of device."""
    check_stream(state, line.device, line.stream)
    value = use(state, line.event)
    if value is None:
        return
    if not isinstance(value.type, wir.EventType):
        state.report_value(
            value,
            Code.NOT_AN_EVENT,
            f"%{value.name} is not an event",
            hint="record one with `record_event`",
        )
    elif line.event in state.scope.flights:
        state.report_value(
            value,
            Code.NOT_A_WORK,
            f"%{value.name} is a collective, not an event",
            hint="wait for it with `wait_collective`",
        )
    elif value.type.device.kind != line.device.kind:
        state.report_value(
            value,
            Code.EVENT_ELSEWHERE,
            f"%{value.name} is an event of {value.type.device}, "
            f"for which no stream of {line.device} can wait",
        )
