"""Actions of streams are the same on every kind of device that an emitter names."""

import pytest

from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.stream_actions import StreamAction, StreamPlanner, stream_uses
from wrapperir.ir import (
    AllocateLine,
    Device,
    KernelCallLine,
    Language,
    Program,
    RecordEventLine,
    WaitEventLine,
)
from wrapperir.ir.renaming import replace_devices
from wrapperir.testing.conformance_kernel_pools import kernel_pool_cases

CASES = {case.name: case.program for case in kernel_pool_cases(Language.CPP)}
STREAMS = CASES["kernel_streams_cpp"]
"""It has events, and two streams that use each other's buffers."""


def actions(program: Program, kinds: frozenset[str]) -> list[StreamAction]:
    facts = ProgramFacts(program)
    planner = StreamPlanner(facts, stream_uses(facts.effects, kinds))
    found: list[StreamAction] = [*planner.fork()]
    for line in program.lines:
        match line:
            case AllocateLine():
                planner.allocate(line)
                found += planner.after_allocation(line)
            case KernelCallLine():
                found += planner.after_launch(line)
            case RecordEventLine():
                found += planner.record(line)
            case WaitEventLine():
                found += planner.wait(line)
            case _:
                pass
    return [*found, *planner.join()]


def moved(device: Device) -> Program:
    return replace_devices(STREAMS, lambda _: device)


@pytest.mark.parametrize("kind", ["acme", "xpu"])
def test_they_are_those_of_cuda(kind: str) -> None:
    cuda, other = Device("cuda", 0), Device(kind, 0)
    wanted = actions(moved(cuda), frozenset({"cuda"}))
    assert len(wanted) > 6
    found = actions(moved(other), frozenset({kind}))
    assert replace_devices(tuple(found), lambda _: cuda) == tuple(wanted)


def test_devices_that_are_not_named_need_none() -> None:
    assert actions(moved(Device("acme", 0)), frozenset({"cuda"})) == []
