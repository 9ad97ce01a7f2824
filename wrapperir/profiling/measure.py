"""Profiles of programs: repeated calls of their code, with marks and as it is."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from attrs import define, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError, LinePath, Position, first_line
from wrapperir.emit import Emitter, Loaded, Value, emit_program
from wrapperir.emit.pipeline import load_artifact
from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.passes import open_graph_regions
from wrapperir.profiling.build_profile import build_profile
from wrapperir.profiling.clocks import ProfileClock, clock_for
from wrapperir.profiling.line_times import CallTimes
from wrapperir.profiling.marks import with_marks
from wrapperir.profiling.recording import CallRecorder
from wrapperir.report import Profile
from wrapperir.trace.inserted_lines import emit_with_operators
from wrapperir.trace.runs import copy_value

REPEATS = 10
"""How many calls the medians are of."""

_WARM_UP = 3
"""Calls before those that count: the first ones compile, choose kernels and fill caches."""

_AHEAD = 1.5
"""How long a stream is held, as a part of the time that the host takes for a call."""


def profile_program(
    program: wir.Program,
    inputs: Sequence[Value],
    constants: Mapping[str, torch.Tensor],
    emitter: Emitter,
    *,
    positions: Mapping[LinePath, Position] | None = None,
    repeats: int = REPEATS,
    clock: ProfileClock | None = None,
) -> Profile:
    """Return where the time of a verified program's calls goes, as ``emitter`` emits it.

    The program as it is, and the program with marks between its lines, take turns
    ``repeats`` times, after a few calls that do not count.  On a GPU there are also calls
    in which streams are held until the host has given them all work, so that the time of
    each line on the device is known apart from the time that the device waits for the host.
    Graph regions are opened where there are marks.

    Inputs and constants that a call may write are copied before, untimed, and random
    numbers of later calls are as if there were no profile.  ``positions`` are those of the
    lines in a text, without graph regions, for their numbers.  ``clock`` is by default that
    of the devices of the program.  This executes the program's kernels.

    Raises:
        DiagnosticError: the emitter lacks something, operators of others among it; or what
            is emitted does not load; or WIR906, it raises an error.
    """
    opened = open_graph_regions(program)
    marked = with_marks(opened)
    clock = clock_for(marked.streams) if clock is None else clock
    plain = load_artifact(
        program, emit_program(program, emitter), emitter, _copies(program, constants)
    )
    observed = load_artifact(
        marked.program,
        emit_with_operators(marked.program, emitter),
        emitter,
        _copies(program, constants),
    )
    calls = _TimedCalls(
        program, emitter, inputs, plain, observed, CallRecorder(clock, marked.marks)
    )
    fork_rng = cast(Any, torch.random).fork_rng  # torch gives it no types
    with fork_rng(devices=[*map(torch_device, clock.devices)]):
        times = calls.times(repeats, is_on_gpu=bool(marked.streams))
    return build_profile(
        opened,
        marked,
        times,
        emitter=emitter.name,
        positions={} if positions is None else positions,
        opened_regions=opened != program,
    )


@define(eq=False)
class _TimedCalls:
    """Calls a program as it is and with marks, on inputs that stay as they are."""

    program: wir.Program
    emitter: Emitter
    inputs: Sequence[Value]
    plain: Loaded
    marked: Loaded
    recorder: CallRecorder
    _host_ns: list[int] = field(factory=list[int], init=False)

    def times(self, repeats: int, *, is_on_gpu: bool) -> CallTimes:
        """Return the times of calls, which take turns."""
        times = CallTimes()
        for turn in range(-_WARM_UP, repeats):
            kept = times if turn >= 0 else CallTimes()
            kept.plain.append(self._time_plain(kept))
            found = self.recorder.record(self._call(self.marked))
            kept.marked.append(found)
            self._host_ns.append(found.returned - found.begin)
            if is_on_gpu:
                hold = round(_AHEAD * statistics.median(self._host_ns[-_WARM_UP:]))
                kept.held.append(self.recorder.record(self._call(self.marked), hold))
        return times

    def _time_plain(self, kept: CallTimes) -> int:
        clock = self.recorder.clock
        call = self._call(self.plain)
        clock.begin()
        begin = clock.now()
        call()
        clock.wait()
        ns = clock.now() - begin
        kept.allocator_peak = clock.allocator_peak()
        return ns

    def _call(self, loaded: Loaded) -> Callable[[], object]:
        pairs = zip(self.program.inputs, self.inputs, strict=True)
        given = [
            copy_value(value) if item.mutated or item.donated else value
            for item, value in pairs
        ]

        def call() -> None:
            try:
                loaded(given)
            except DiagnosticError:
                raise
            except Exception as error:  # whatever emitted code raises
                cause = f"{type(error).__name__}: {first_line(error)}"
                raise Code.EMITTED_CODE_FAILED.error(
                    f"the code of emitter {self.emitter.name} raised {cause}"[:1000],
                    hint="the interpreter says which line of the program it is",
                ) from error

        return call


def _copies(
    program: wir.Program, constants: Mapping[str, torch.Tensor]
) -> Mapping[str, torch.Tensor]:
    """Return the constants, in copies if the program writes them."""
    written = {item.key for item in program.constants if item.mutated}
    return {
        key: value.clone() if key in written else value for key, value in constants.items()
    }
