"""Waits between streams that Inductor leaves out.

Inductor fuses and moves operators across the waits of the user, and loses the stream of
some that it decomposes.  Its own code then races.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis import Storage, find_storages, program_entry
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects

_Clock = dict[wir.Stream, int]
"""By stream: the last line whose work on that stream is done."""


@frozen(eq=False)
class _PastUse:
    """A use of a storage by work on ``stream``, which began after ``clock``."""

    line: int
    stream: wir.Stream
    writes: bool
    clock: _Clock


@define(eq=False)
class _Orderer:
    """Walks the lines, and collects the events and waits to add.

    ``name`` returns new names of events.  ``history`` has the uses of each storage since
    its last write.  ``records`` has the event to record after a line, ``waits`` the waits
    to put before one.
    """

    name: Callable[[], str]
    clocks: dict[wir.Stream, _Clock] = field(factory=lambda: defaultdict(_Clock))
    events: dict[str, _Clock] = field(factory=dict[str, _Clock])
    history: dict[int, list[_PastUse]] = field(factory=lambda: defaultdict(list))
    records: dict[int, wir.RecordEventLine] = field(factory=dict[int, wir.RecordEventLine])
    waits: dict[int, list[wir.WaitEventLine]] = field(factory=lambda: defaultdict(list))
    host_waited: int = -1

    def follow(self, index: int, effects: Effects) -> None:
        """Note the order that a line itself establishes."""
        if effects.host_waits:
            self.host_waited = index
        if effects.stream is None:
            return
        if effects.records is not None:
            known = self.clocks[effects.stream]
            self.events[effects.records] = {**known, effects.stream: index}
        elif effects.awaits is not None:
            self._join(effects.stream, self.events.get(effects.awaits, {}))

    def order(self, storage: Storage, use: _PastUse) -> None:
        """Have a use wait for the earlier ones that conflict with it."""
        for past in self.history[id(storage)]:
            known = self.clocks[use.stream].get(past.stream, -1)
            if (
                (use.writes or past.writes)
                and past.stream != use.stream
                and past.stream.device == use.stream.device
                and past.line > max(known, self.host_waited)
            ):
                self._wait(use, past)

    def _wait(self, use: _PastUse, past: _PastUse) -> None:
        event = self.records.get(past.line)
        if event is None:
            event = self.records[past.line] = wir.RecordEventLine(
                result=self.name(), device=past.stream.device, stream=past.stream.number
            )
        self.waits[use.line].append(
            wir.WaitEventLine(
                event=event.result, device=use.stream.device, stream=use.stream.number
            )
        )
        self._join(use.stream, {**past.clock, past.stream: past.line})

    def _join(self, stream: wir.Stream, done: _Clock) -> None:
        known = self.clocks[stream]
        for other, line in done.items():
            known[other] = max(known.get(other, -1), line)

    def add(self, storage: Storage, use: _PastUse) -> None:
        """Add a use to the history of its storage."""
        history = self.history[id(storage)]
        if use.writes:
            history.clear()
        clock = dict(self.clocks[use.stream])
        history.append(_PastUse(use.line, use.stream, use.writes, clock))


def add_missing_waits(program: wir.Program, name: Callable[[], str]) -> wir.Program:
    """Order uses of memory on several streams as their lines come.

    ``name`` returns new names of events.

    Before::

        kernel_call @sin(%x, %a) @cuda:0 stream(1)
        kernel_call @add(%a, %b) @cuda:0

    After::

        kernel_call @sin(%x, %a) @cuda:0 stream(1)
        %event0 = record_event @cuda:0 stream(1)
        wait_event %event0 @cuda:0
        kernel_call @add(%a, %b) @cuda:0
    """
    effects = LineEffects.of_program(program)
    entry = program_entry(program)
    found = find_storages(program.lines, program.outputs, entry, effects)
    uses: dict[int, list[tuple[Storage, _PastUse]]] = defaultdict(list)
    for storage in found.storages:
        for use in storage.uses:
            if use.stream is not None:
                past = _PastUse(use.line, use.stream, use.writes, {})
                uses[use.line].append((storage, past))
    orderer = _Orderer(name)
    for index, of_line in enumerate(found.effects):
        orderer.follow(index, of_line)
        for storage, past in uses[index]:
            orderer.order(storage, past)
        for storage, past in uses[index]:
            orderer.add(storage, past)
    return evolve(program, lines=tuple(_with_waits(program.lines, orderer)))


def _with_waits(lines: Sequence[wir.BodyLine], orderer: _Orderer) -> list[wir.BodyLine]:
    result: list[wir.BodyLine] = []
    for index, line in enumerate(lines):
        result += [*orderer.waits[index], line]
        if index in orderer.records:
            result.append(orderer.records[index])
    return result
