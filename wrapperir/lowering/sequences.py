"""Join launches that follow each other into one, where a kernel may run several nests.

On a CPU a launch costs as much as moving some kilobytes, and short kernels are many in the
backward of a model.  Inductor does the same (``KernelGroup`` in ``codegen/cpp.py``).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias, Union

from attrs import define, evolve, field, frozen

from wrapperir.ir import Access, NodeOrigin, ScalarParameter
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import ExternCall
from wrapperir.lowering.renderer import (
    KernelBuffer,
    KernelPart,
    KernelSequence,
    LoopKernel,
    Renderer,
)
from wrapperir.lowering.schedule import Schedule, SchedulingOptions
from wrapperir.lowering.schedule_memory import ScheduleMemory

_MOST_BUFFERS = 96
_MOST_KERNELS = 16


@frozen(kw_only=True)
class SequenceLaunch:
    """A sequence of kernels and its arguments, as in a :class:`~.kernel.KernelLaunch`.

    ``launches`` are those that were joined.
    """

    kernel: KernelSequence
    launches: tuple[KernelLaunch, ...]
    buffers: tuple[str, ...]
    symbols: tuple[str, ...] = ()
    in_place: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages of all checks, in order."""
        return tuple(message for each in self.launches for message in each.messages)

    @property
    def origins(self) -> tuple[NodeOrigin, ...]:
        """What all kernels compute."""
        return tuple(origin for each in self.launches for origin in each.origins)

    @property
    def checked(self) -> tuple[tuple[NodeOrigin, ...], ...]:
        """What each check comes from."""
        return tuple(origins for each in self.launches for origins in each.checked)

    def origins_of(self, buffer: str) -> tuple[NodeOrigin, ...]:
        """Return what the kernels compute that write a buffer."""
        final = _final_names(self.launches)
        return tuple(
            origin
            for launch in self.launches
            for name in launch.written
            if final.get(name, name) == buffer
            for origin in launch.origins_of(name)
        )


ProgramItem: TypeAlias = Union[KernelLaunch, SequenceLaunch, ExternCall]


def join_launches(
    schedule: Schedule,
    inputs: Iterable[str],
    renderer_of: Callable[[LoopKernel], Renderer],
    options: SchedulingOptions | None = None,
) -> list[ProgramItem]:
    """Return the items of a schedule, launches that follow each other joined.

    Memory of a launch is allocated before it and freed after it, so launches are not joined
    where that would need more memory than the schedule does.
    ``inputs`` are buffers that exist before the first item.  Equal sequences have one
    name, and each its own origins.
    """
    known = set(inputs)
    found: list[ProgramItem] = []
    named: dict[KernelSequence, str] = {}
    memory = ScheduleMemory.of(schedule, options or SchedulingOptions(), known)
    for run in _runs(schedule, renderer_of, memory):
        if isinstance(run, ExternCall):
            found.append(run)
            known.update(run.writes)
            continue
        found.append(_joined(run, known, named) if len(run) > 1 else run[0])
        known.update(name for launch in run for name in launch.buffers)
    return found


def _runs(
    schedule: Schedule,
    renderer_of: Callable[[LoopKernel], Renderer],
    memory: ScheduleMemory,
) -> Iterator[list[KernelLaunch] | ExternCall]:
    """Yield calls, and the launches between them in lists that may be joined."""
    run: list[KernelLaunch] = []
    last: Renderer | None = None
    for place, item in enumerate(schedule.items):
        renderer = None if isinstance(item, ExternCall) else renderer_of(item.kernel)
        joins = renderer is not None and renderer is last and renderer.writes_sequences
        if isinstance(item, ExternCall) or not (
            joins
            and _fits(run, item)
            and memory.joined(place - len(run), place) <= memory.most
        ):
            if run:
                yield run
            run = []
        if isinstance(item, ExternCall):
            yield item
        else:
            run.append(item)
        last = renderer
    if run:
        yield run


def _fits(run: list[KernelLaunch], item: KernelLaunch) -> bool:
    """Say whether a sequence may have one launch more; only one part may have checks."""
    buffers = {name for each in (*run, item) for name in each.buffers}
    checks = sum(each.kernel.fault is not None for each in (*run, item))
    return checks < 2 and len(buffers) <= _MOST_BUFFERS and len(run) < _MOST_KERNELS


def _final_names(launches: Iterable[KernelLaunch]) -> dict[str, str]:
    """Return for each buffer whose memory is taken the last buffer that takes it."""
    found: dict[str, str] = {}
    for launch in launches:
        for result, source in launch.in_place:
            for name in [name for name, last in found.items() if last == source]:
                found[name] = result
            found[source] = result
    return found


@define
class _SequenceArguments:
    """The arguments of a sequence, by their names in the graph.

    ``final`` has the name that a buffer's memory has in the end, if it is another;
    ``known`` are the final names of memory that exists before.
    """

    known: Collection[str]
    final: Mapping[str, str]
    buffers: dict[str, KernelBuffer] = field(factory=dict[str, KernelBuffer])
    symbols: dict[str, ScalarParameter] = field(factory=dict[str, ScalarParameter])

    def part(self, launch: KernelLaunch) -> KernelPart:
        """Return a kernel as the next part; its arguments are added."""
        kernel = launch.kernel
        names = [self.final.get(name, name) for name in launch.buffers]
        for buffer, name in zip(kernel.buffers, names, strict=True):
            before = self.buffers.get(name)
            new = evolve(buffer, name=f"b{len(self.buffers)}")
            if before is not None:
                new = evolve(before, access=self._both(name, before.access, buffer.access))
            self.buffers[name] = new
        for symbol, name in zip(kernel.symbols, launch.symbols, strict=True):
            new_symbol = evolve(symbol, name=f"n{len(self.symbols)}")
            self.symbols.setdefault(name, new_symbol)
        places = {name: place for place, name in enumerate(self.buffers)}
        sizes = {name: place for place, name in enumerate(self.symbols)}
        return KernelPart(
            kernel=kernel,
            buffers=tuple(places[name] for name in names),
            symbols=tuple(sizes[name] for name in launch.symbols),
        )

    def _both(self, name: str, first: Access, second: Access) -> Access:
        is_new = first is Access.WRITE and name not in self.known
        return first if is_new or first is second else Access.READ_WRITE


def _joined(
    launches: list[KernelLaunch],
    known: Collection[str],
    named: dict[KernelSequence, str],
) -> SequenceLaunch:
    final = _final_names(launches)
    arguments = _SequenceArguments({final.get(name, name) for name in known}, final)
    parts = tuple(map(arguments.part, launches))
    faults = [each.kernel.fault for each in launches if each.kernel.fault is not None]
    sequence = KernelSequence(
        name="",
        buffers=tuple(arguments.buffers.values()),
        symbols=tuple(arguments.symbols.values()),
        fault=next(iter(faults), None),
        parts=parts,
    )
    name = f"{launches[0].kernel.name}_and_{len(launches) - 1}_more_{len(named)}"
    name = named.setdefault(sequence, name)
    return SequenceLaunch(
        kernel=evolve(sequence, name=name),
        launches=tuple(launches),
        buffers=tuple(arguments.buffers),
        symbols=tuple(arguments.symbols),
        in_place=tuple((last, name) for name, last in final.items() if name in known),
    )
