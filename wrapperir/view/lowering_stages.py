"""The loops and the schedule that a program was lowered from, linked with its nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir import NodeOrigin, Program
from wrapperir.lowering.explain import DecisionKind, FusionDecision
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbols
from wrapperir.lowering.loops import ExternCall, InnerLoop, LoopGraph, Nest
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.schedule import Schedule
from wrapperir.lowering.sequences import SequenceLaunch
from wrapperir.lowering.substitution import instructions
from wrapperir.lowering.text import format_graph, format_schedule
from wrapperir.view.kernel_sources import KernelRows, rows_of_launches
from wrapperir.view.link_program import origins_by_name
from wrapperir.view.links import CodeFile, CodeRange, EmittedCode, ShownDecision

_KINDS = {
    DecisionKind.FUSE: "fused",
    DecisionKind.INLINE: "inlined",
    DecisionKind.KEEP: "not fused",
}
_JOINED = "launches take time on a CPU, so that one launch runs these kernels in turn"
_NO_LOOPS = "it has no loops here, so that PyTorch's operator is called"


class StageLinks:
    """The stages of a lowering, by the nodes and kernels of the program that it made."""

    def __init__(
        self,
        program: Program,
        loops: LoopGraph,
        schedule: Schedule,
        symbols: SizeSymbols,
        joined: Sequence[SequenceLaunch] = (),
    ) -> None:
        """Number the nodes and kernels of a program; ``joined`` are some launches of it."""
        self._loops = loops
        self._schedule = schedule
        self._symbols = symbols
        self._joined = joined
        self._nodes = {name: i for i, name in enumerate(origins_by_name(program))}
        numbers = {line.name: i for i, line in enumerate(program.definitions)}
        self._kernels = {name: {number: None} for name, number in numbers.items()}
        for launch in joined:
            number = numbers[launch.kernel.name]
            for part in launch.kernel.parts:
                self._kernels.setdefault(part.kernel.name, {})[number] = None

    def kernel_rows(self) -> Mapping[str, KernelRows]:
        """Return the rows of the sources of the program's kernels, by name."""
        within = {id(part) for launch in self._joined for part in launch.launches}
        alone = [launch for launch in self._launches() if id(launch) not in within]
        return rows_of_launches((*alone, *self._joined))

    def _launches(self) -> list[KernelLaunch]:
        return [item for item in self._schedule.items if isinstance(item, KernelLaunch)]

    def codes(self) -> EmittedCode:
        """Return the texts of both stages, with what their lines are for."""
        schedule = format_schedule(self._schedule, self._symbols)
        loops = format_graph(self._loops)
        files = (
            CodeFile(
                path="schedule",
                text=schedule.text,
                ranges=tuple(self._scheduled(schedule.text, schedule.positions)),
            ),
            CodeFile(
                path="nests",
                text=loops.text,
                ranges=tuple(self._nests(loops.text, loops.positions)),
            ),
        )
        return EmittedCode(emitter="loops", files=files)

    def _scheduled(
        self, text: str, positions: Mapping[LinePath, Position]
    ) -> Iterator[CodeRange]:
        rows = text.split("\n")
        for number, item in enumerate(self._schedule.items):
            begin = positions["items", number].line
            nodes = self._nodes_of(item)
            is_launch = isinstance(item, KernelLaunch)
            yield CodeRange(begin=begin, end=begin + is_launch, nodes=nodes)
            head = positions.get(("items", number, "kernel", "nest"))
            if isinstance(item, KernelLaunch) and head is not None:
                kernels = tuple(self._kernels.get(item.kernel.name, ()))
                end = _end_of_block(rows, head.line)
                yield CodeRange(
                    begin=head.line,
                    end=end,
                    kernel=next(iter(kernels), None),
                    others=kernels[1:],
                )
                path = ("items", number, "kernel", "nest")
                yield from self._instructions(item.kernel, path, positions)

    def _instructions(
        self, kernel: LoopKernel, path: LinePath, positions: Mapping[LinePath, Position]
    ) -> Iterator[CodeRange]:
        """Yield the lines of a kernel's instructions, for the nodes of all its launches."""
        kernels = tuple(self._kernels.get(kernel.name, ()))
        bodies = [
            instructions(launch.kernel.nest.body)
            for launch in self._launches()
            if launch.kernel.name == kernel.name
        ]
        for at, *equal in zip(_instruction_paths(kernel.nest), *bodies, strict=True):
            line = positions[(*path, *at)].line
            names = (origin.name for each in equal for origin in each.origins)
            nodes = self._numbers(names)
            if nodes:
                yield CodeRange(
                    begin=line,
                    end=line,
                    kernel=next(iter(kernels), None),
                    nodes=nodes,
                    others=kernels[1:],
                )

    def _nests(
        self, text: str, positions: Mapping[LinePath, Position]
    ) -> Iterator[CodeRange]:
        rows = text.split("\n")
        for number, item in enumerate(self._loops.items):
            begin = positions["items", number].line
            end = _end_of_block(rows, begin)
            yield CodeRange(begin=begin, end=end, nodes=self._nodes_of(item))

    def decisions(self) -> tuple[ShownDecision, ...]:
        """Return what was fused, joined or not, and what operators do; reasons first."""
        nests = {x.name: x.origins for x in self._loops.items if isinstance(x, Nest)}
        decided = (self._decision(each, nests) for each in self._schedule.decisions)
        called = (
            ShownDecision(
                kind="called", subject=x.name, reason=_NO_LOOPS, nodes=self._nodes_of(x)
            )
            for x in self._schedule.items
            if isinstance(x, ExternCall)
        )
        joined = map(self._joining, self._joined)
        found = (*decided, *called, *joined)
        return tuple(sorted(found, key=lambda each: not each.reason))

    def _joining(self, launch: SequenceLaunch) -> ShownDecision:
        parts = ", ".join(part.kernel.name for part in launch.kernel.parts)
        return ShownDecision(
            kind="joined",
            subject=f"{parts} into {launch.kernel.name}",
            reason=_JOINED,
            nodes=self._nodes_of(launch),
        )

    def _decision(
        self, decision: FusionDecision, nests: Mapping[str, tuple[NodeOrigin, ...]]
    ) -> ShownDecision:
        word = "into" if decision.kind is DecisionKind.INLINE else "with"
        names = (*decision.first, *decision.second)
        of_nests = (origin.name for name in names for origin in nests.get(name, ()))
        return ShownDecision(
            kind=_KINDS[decision.kind],
            subject=f"{' '.join(decision.first)} {word} {' '.join(decision.second)}",
            bytes=decision.bytes,
            reason=decision.reason,
            nodes=self._numbers((*of_nests, *names)),
        )

    def _nodes_of(
        self, item: Nest | ExternCall | KernelLaunch | SequenceLaunch
    ) -> tuple[int, ...]:
        return self._numbers(origin.name for origin in item.origins)

    def _numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the indices of those names that are of nodes, each once."""
        found = dict.fromkeys(names)
        return tuple(self._nodes[name] for name in found if name in self._nodes)


def _instruction_paths(nest: Nest) -> Iterator[LinePath]:
    """Yield the paths of a nest's instructions, in order."""
    for number, step in enumerate(nest.body):
        if isinstance(step, InnerLoop):
            for place in range(len(step.body)):
                yield ("body", number, "body", place)
        else:
            yield ("body", number)


def _end_of_block(rows: list[str], begin: int) -> int:
    """Return the last 1-based row of the indented block below row ``begin``."""
    end = begin
    while end < len(rows) and rows[end].startswith(" "):
        end += 1
    return end
