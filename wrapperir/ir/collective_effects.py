"""The effects of collectives: what they read and write from the start to the wait.

A start and its wait both access the tensors, so that these are alive, and are not given to
others, while the work is in flight.
"""

from wrapperir.ir.collective import CollectiveLine, WaitCollectiveLine
from wrapperir.ir.effects import ByteAccess, Effects, Origin, ValueDefinition
from wrapperir.ir.types import EventType, Stream


def start_effects(line: CollectiveLine) -> Effects:
    """Return the effects of a start: it defines a handle."""
    stream = Stream(line.device, line.stream)
    written = dict.fromkeys(line.writes)
    accesses = [
        ByteAccess(name, True, False, stream)
        for name in dict.fromkeys(line.reads)
        if name not in written
    ]
    for name in written:
        reads = name in line.reads
        accesses.append(ByteAccess(name, reads, True, stream, covers=not reads))
    handle = ValueDefinition(line.result, EventType(line.device), Origin.NONE)
    return Effects(
        uses=tuple(dict.fromkeys((*line.reads, *line.writes))),
        definitions=(handle,),
        accesses=tuple(accesses),
        device=line.device,
        stream=stream,
        launches=True,
        starts=line.result,
        may_fail=True,
    )


def wait_effects(line: WaitCollectiveLine) -> Effects:
    """Return the effects of a wait.

    It counts as a read of what was written: the start is not a write without readers.
    """
    stream = Stream(line.device, line.stream)
    names = tuple(dict.fromkeys((*line.reads, *line.writes)))
    return Effects(
        uses=(line.work, *names),
        accesses=tuple(
            [ByteAccess(name, True, name in line.writes, stream) for name in names]
        ),
        device=line.device,
        stream=stream,
        launches=True,
        completes=line.work,
        may_fail=True,
    )
