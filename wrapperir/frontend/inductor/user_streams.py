"""Streams and events of the user, as streams and events of a program.

Each stream that a compiled function enters or names becomes a side stream of the program;
the caller's current stream is stream 0.  Events and waits become event lines, which order
the work within the program.  What is outside of the program is ordered by operators:

- a side stream begins after the work that the user's stream was given before the call;
- the user's stream continues after the work of the side stream;
- the user's events are recorded where the function records them, and an event that the
  function does not record itself is waited for;
- the host waits where the function says so.

Inductor's lines name streams by numbers of its own.  Operators name streams and events by
positions in the table of :mod:`torch._dynamo.graph_bytecode_inputs`.
"""

import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from attrs import define, field
from torch._dynamo import graph_bytecode_inputs
from torch._dynamo.source import CurrentStreamSource
from torch._inductor.codegen import wrapper as inductor

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor.stream_operators import NAMESPACE
from wrapperir.frontend.inductor.values import lower_argument
from wrapperir.frontend.inductor.versions import ENTER_STREAMS

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.scope import BlockScope

_MAIN = getattr(graph_bytecode_inputs, "CURRENT_STREAM_INDEX", None)
"""Position of the caller's current stream; 2.11 keeps none for it."""

_STREAM_ARGUMENTS = {
    "streams.record_event.default": (1,),
    "streams.wait_event.default": (1,),
    "streams.wait_stream.default": (0, 1),
    "streams.sync_dealloc.default": (1,),
    "streams.record_stream.default": (1,),
    "streams.synchronize_stream.default": (0,),
    "streams.synchronize_event.default": (),
    "streams.synchronize_device.default": (),
}
"""Operators of Dynamo's that have a form in a program: their arguments that are streams."""


@define
class UserStreams:
    """The user's streams in one program, all of the GPU ``device``.

    ``numbers`` has the program's stream by position in the table, ``entered`` by Inductor's
    number.  ``events`` has the event of the last recording by position in the table.
    """

    device: wir.Device
    numbers: dict[int, int] = field(factory=dict[int, int])
    entered: dict[int, int] = field(factory=dict[int, int])
    events: dict[int, str] = field(factory=dict[int, str])

    @property
    def all(self) -> Sequence[int]:
        """The numbers of all streams of the program."""
        return tuple(dict.fromkeys((0, *self.numbers.values())))

    @property
    def outside(self) -> Sequence[tuple[int, int]]:
        """Position and number of each stream that is not known to be the current one."""
        return tuple((at, number) for at, number in self.numbers.items() if at != _MAIN)

    def add(self, position: int) -> int:
        """Return the number of the stream at a position; a new stream gets a new one."""
        known = self.numbers.get(position)
        if known is None:
            side = max(self.numbers.values(), default=0) + 1
            # Without lines that enter streams, all work is on the current one.
            known = side if ENTER_STREAMS and not _is_current(position) else 0
            self.numbers[position] = known
        return known


def uses_streams(graph: torch.fx.GraphModule) -> bool:
    """Say whether a graph, or one nested in it, enters or orders streams."""
    return any(
        "stream" in (node.meta.get("custom") or {})
        or str(node.target).startswith("streams.")
        for module in graph.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    )


def is_synchronization(node: object) -> bool:
    """Say whether a node calls an operator of Dynamo's on streams or events."""
    overload = getattr(node, "op_overload", None)
    return getattr(overload, "namespace", None) == "streams"


def find_streams(lines: Iterable[Any], graph: Any) -> UserStreams | None:
    """Return the user's streams in Inductor's lines; ``None`` if there are none.

    Raises:
        DiagnosticError: WIR651, the graph is for several GPUs, or for none.
    """
    found: UserStreams | None = None
    for line in lines:
        if isinstance(line, ENTER_STREAMS):
            found = found or UserStreams(_only_gpu(graph))
            known: dict[int, int] = line.stream_idx_to_user_obj_idx
            for number, position in known.items():
                found.entered[number] = found.add(position)
        elif type(line) is inductor.ExternKernelAllocLine and is_synchronization(line.node):
            found = found or UserStreams(_only_gpu(graph))
            for position in _streams_of(line.node):
                found.add(position)
    return found


def _only_gpu(graph: Any) -> wir.Device:
    kinds = graph.device_types - {"cpu"}
    if kinds != {"cuda"} or len(graph.device_idxs) != 1:
        count = len(graph.device_idxs)
        raise _refused(
            f"a function with streams or events works on {count} devices of the kinds"
            f" {sorted(kinds)}, not on one of kind cuda",
            "compile the work of each GPU in a function of its own",
        )
    return wir.Device("cuda", next(iter(graph.device_idxs)))


def _streams_of(node: Any) -> tuple[int, ...]:
    operator = str(node.op_overload)
    if operator not in _STREAM_ARGUMENTS:
        raise Code.INDUCTOR_OPERATOR.error(
            f"{operator} changes the current stream, which has no form in a program",
            hint="enter the stream in a with statement",
        )
    return tuple(_arguments(node)[place] for place in _STREAM_ARGUMENTS[operator])


def _arguments(node: Any) -> tuple[Any, ...]:
    values: Sequence[Any] = node.unflatten_args(node.inputs, node.constant_args)[0]
    return tuple(values)


def _is_current(position: int) -> bool:
    """Say whether the object at a position is the stream that is current at each call.

    Dynamo keeps functions that make the bytecode which looks the objects up.
    """
    if position == _MAIN:
        return True
    pending: list[Any] = [graph_bytecode_inputs.index_to_bytecode_constructor.get(position)]
    while pending:
        value = pending.pop()
        if isinstance(value, CurrentStreamSource):
            return True
        if inspect.isfunction(value):
            if "_codegen_current_stream" in value.__code__.co_names:
                return True
            pending += [cell.cell_contents for cell in value.__closure__ or ()]
    return False


def begin_streams(scope: "BlockScope") -> None:
    """Have each side stream begin after the work that the user's stream was given."""
    streams = scope.session.streams
    if streams is None:
        return
    for position, number in streams.outside:
        _call(scope, f"{NAMESPACE}.begin", number, position, _index(streams))


def end_streams(scope: "BlockScope", outputs: Sequence[wir.Argument]) -> None:
    """Have each of the user's streams continue after the work of the side stream.

    The caller may use results on the user's streams, so that the allocator is told: it
    knows those of the program only.
    """
    streams = scope.session.streams
    if streams is None:
        return
    for position, number in streams.outside:
        _call(scope, f"{NAMESPACE}.end", number, position, _index(streams))
    side = {number: position for position, number in streams.outside if number}
    results = [
        output
        for output in outputs
        if isinstance(output, wir.BufferRef)
        and _is_on(streams.device, scope.types.get(output.name))
    ]
    if side and results:
        for number in side:
            _order(scope, number, (0,))
        for output in results:
            for position in side.values():
                _call(scope, "streams.record_stream", 0, output, position)


def lower_enter_stream(scope: "BlockScope", line: Any) -> None:
    """Put the lines that follow on a stream."""
    scope.stream = _streams(scope).entered.get(line.stream_idx, 0)


def lower_exit_stream(scope: "BlockScope", line: Any) -> None:
    """Put the lines that follow on the caller's current stream."""
    scope.stream = 0


def lower_synchronization(scope: "BlockScope", node: Any) -> None:
    """Lower an operator of Dynamo's on streams or events."""
    streams = _streams(scope)
    scope.enter(node)
    values, numbers = _arguments(node), [streams.numbers[at] for at in _streams_of(node)]
    match str(node.op_overload):
        case "streams.record_event.default":
            streams.events[values[0]] = _record(scope, numbers[0])
            call = f"{NAMESPACE}.record_event"
            _call(scope, call, numbers[0], values[0], _index(streams))
        case "streams.wait_event.default" | "streams.sync_dealloc.default":
            if values[0] in streams.events:
                _wait(scope, streams.events[values[0]], numbers)
            else:
                call = f"{NAMESPACE}.wait_event"
                _call(scope, call, numbers[0], values[0], _index(streams))
        case "streams.wait_stream.default":
            _order(scope, numbers[1], numbers[:1])
        case "streams.record_stream.default":
            tensor = lower_argument(scope, values[0])
            _call(scope, "streams.record_stream", numbers[0], tensor, values[1])
        case "streams.synchronize_event.default":
            _call(scope, "streams.synchronize_event", 0, values[0])
            if values[0] in streams.events:
                _wait(scope, streams.events[values[0]], streams.all)
        case "streams.synchronize_stream.default":
            _call(scope, f"{NAMESPACE}.synchronize", numbers[0], _index(streams))
            _order(scope, numbers[0], streams.all)
        case "streams.synchronize_device.default":
            _call(scope, "streams.synchronize_device", 0, *values)
            for number in streams.all:
                _order(scope, number, streams.all)
        case operator:
            raise AssertionError(f"{operator} is not an operator on streams")


def order_after_main(scope: "BlockScope") -> None:
    """Have the current stream wait for stream 0, on which memory is zeroed."""
    if scope.stream:
        _order(scope, 0, (scope.stream,))


def _order(scope: "BlockScope", first: int, others: Iterable[int]) -> None:
    """Have other streams wait for the work that a stream was given."""
    waiting = [number for number in others if number != first]
    if waiting:
        _wait(scope, _record(scope, first), waiting)


def _record(scope: "BlockScope", number: int) -> str:
    name = scope.session.temporary("event")
    device = _streams(scope).device
    scope.append(
        wir.RecordEventLine(result=name, device=device, stream=number, provenance=scope.at)
    )
    return name


def _wait(scope: "BlockScope", event: str, numbers: Iterable[int]) -> None:
    device = _streams(scope).device
    for number in numbers:
        scope.append(
            wir.WaitEventLine(
                event=event, device=device, stream=number, provenance=scope.at
            )
        )


def _call(
    scope: "BlockScope", operator: str, number: int, *arguments: wir.Argument
) -> None:
    scope.append(
        wir.ExternKernelLine(
            operator=f"{operator}.default",
            arguments=arguments,
            device=_streams(scope).device,
            stream=number,
            provenance=scope.at,
        )
    )


def _index(streams: UserStreams) -> int:
    return streams.device.index or 0


def _is_on(device: wir.Device, type: wir.ValueType | None) -> bool:
    return isinstance(type, wir.TensorType) and type.device == device


def _streams(scope: "BlockScope") -> UserStreams:
    """Return the program's streams.

    Raises:
        DiagnosticError: WIR651, the line is in a nested block.
    """
    if scope.nested or scope.session.streams is None:
        raise _refused(
            "a stream or an event is used in a nested block, whose work is on one stream",
            "use streams and events outside of torch.cond, loops and nested regions",
        )
    return scope.session.streams


def _refused(message: str, hint: str) -> DiagnosticError:
    return Code.INDUCTOR_LINE.error(message, hint=hint)
