"""Building of a graph region from a run of lines."""

from collections.abc import Sequence
from typing import assert_never

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Effects, Origin
from wrapperir.ir.line_effects import uses
from wrapperir.ir.renaming import rename_values
from wrapperir.passes.capture_reasons import is_plain
from wrapperir.passes.capture_survey import Survey

_LONGEST = 200
"""Characters of a name that names in the block begin with."""


@define
class BuiltRegion:
    """A region and the lines around it that stand for a run.

    ``freed`` names the values that the region frees
    although the run does not: their frees are to be left out of the lines after the run.
    """

    before: list[wir.BodyLine]
    line: wir.GraphRegionLine
    after: list[wir.BodyLine]
    freed: frozenset[str]

    @property
    def lines(self) -> list[wir.BodyLine]:
        """The lines that replace the run."""
        return [*self.before, self.line, *self.after]


def build_region(
    lines: Sequence[wir.BodyLine],
    run: range,
    survey: Survey,
    name: str,
    names: wir.FreshNames,
    constants: frozenset[str],
) -> BuiltRegion:
    """Return the region of a run of lines, whose calls are on one stream.

    Values that the run makes and uses alone are made in the region.  Buffers that outlive
    the run are allocated before it, and results of operators that do are returned.  In the
    block, these and the operands have fresh names; their views, moves and frees are made
    again after the region.  ``constants`` are names that blocks see.
    """
    builder = _RegionBuilder(lines, run, survey, names, constants)
    for index in run:
        builder.take(index)
    return builder.finish(name)


@define
class _RegionBuilder:
    lines: Sequence[wir.BodyLine]
    run: range
    survey: Survey
    names: wir.FreshNames
    constants: frozenset[str]
    first: int = field(init=False)
    last: int = field(init=False)
    device: wir.Device = field(init=False)
    stream: wir.Stream = field(init=False)
    needed: dict[str, int] = field(factory=dict[str, int])
    """For each storage that moved lines use, by its first name, the last such line."""
    before: list[wir.BodyLine] = field(factory=list[wir.BodyLine])
    inside: list[wir.BodyLine] = field(factory=list[wir.BodyLine])
    after: list[wir.BodyLine] = field(factory=list[wir.BodyLine])
    local: dict[str, bool] = field(factory=dict[str, bool])
    """Whether values that are of the region alone are still alive."""
    inner: dict[str, str] = field(factory=dict[str, str])
    """The name in the block of each other value that the block names."""
    views: dict[str, None] = field(factory=dict[str, None])
    """The values of ``inner`` that the block has to free: views that it makes."""
    made_inside: set[str] = field(factory=set[str])
    """The values of ``inner`` that are not operands."""
    returned: list[str] = field(factory=list[str])
    named_after: set[str] = field(factory=set[str])
    """Names that lines after the region use or define."""

    def __attrs_post_init__(self) -> None:
        streams = [
            (index, stream)
            for index in self.run
            if index not in self.survey.moved
            and (stream := self.survey.effects[index].stream) is not None
        ]
        self.first, self.stream = streams[0]
        self.last = streams[-1][0]
        device = self.survey.effects[self.first].device
        self.device = self.stream.device if device is None else device
        for index in self.run:
            if index in self.survey.moved:
                for name in self.survey.effects[index].uses:
                    self.needed[self.survey.root(name)] = index

    def take(self, index: int) -> None:
        """Put a line of the run before, into or after the region."""
        line, effects = self.lines[index], self.survey.effects[index]
        if index in self.survey.moved or self._is_needed(index, effects):
            self.before.append(line)
        elif effects.launches:
            self._launch(line, effects)
        elif effects.drops is not None and not effects.definitions:
            self._free(line, effects.drops, effects)
        elif effects.definitions:
            (made,) = effects.definitions
            match made.origin:
                case Origin.ALLOCATED | Origin.PROGRAM:
                    self._allocate(index, line, made.name, effects)
                case Origin.VIEW | Origin.MOVED:
                    assert isinstance(line, wir.ReinterpretLine | wir.ReuseLine)
                    self._name_storage(index, line, effects)
                case Origin.ELEMENT:
                    assert isinstance(line, wir.MultiOutputLine)
                    self._take_element(index, line, effects)
                case (
                    Origin.POOL
                    | Origin.PLACED
                    | Origin.OPERATOR
                    | Origin.BLOCK
                    | Origin.NONE
                ):
                    raise AssertionError(f"{made.origin} in a run")
                case _:
                    assert_never(made.origin)
        else:
            self._check(index, line, effects)

    def _is_needed(self, index: int, effects: Effects) -> bool:
        """Say whether a line names or checks memory that a moved line uses later.

        A line that names it may drop another name, which a check in the region would use.
        """
        if effects.launches:
            return False
        names = [made.name for made in effects.definitions]
        if not names and effects.drops is None:
            names += effects.uses
        return any(index < self.needed.get(self.survey.root(name), -1) for name in names)

    def _launch(self, line: wir.BodyLine, effects: Effects) -> None:
        for made in effects.definitions:
            if isinstance(made.type, wir.TupleType) or not self._outlives(made.name):
                self.local[made.name] = True
            else:
                self._return(made.name)
        self._add_inside(line)

    def _free(self, line: wir.BodyLine, name: str, effects: Effects) -> None:
        if name in self.local:
            self.inside.append(line)
            self.local[name] = False
        elif name in self.inner or name in self.named_after:
            self._free_view(name)
            self._add_after(line, effects)
        else:
            self.before.append(line)

    def _free_view(self, name: str) -> None:
        """Free the view in the block that has the name ``name`` outside, if it is one."""
        view = self.inner.get(name)
        if view in self.views:
            del self.views[view]
            self.inside.append(wir.FreeLine(buffer=view))

    def _allocate(
        self, index: int, line: wir.BodyLine, name: str, effects: Effects
    ) -> None:
        if index > self.last:
            self._add_after(line, effects)
        elif self._outlives(name) or not self._is_plain(line):
            self.before.append(line)
        else:
            self.inside.append(line)
            self.local[name] = True

    def _is_plain(self, line: wir.BodyLine) -> bool:
        """Say whether a region may allocate a buffer of its own."""
        assert isinstance(line, wir.AllocateLine)
        type, workspace = line.type, line.workspace
        zeroed_here = workspace is wir.ZeroMode.ZERO_ON_CALL and self.stream.number == 0
        is_usual = workspace is None or zeroed_here
        return is_usual and is_plain(type, self.stream.device)

    def _name_storage(
        self, index: int, line: wir.ReinterpretLine | wir.ReuseLine, effects: Effects
    ) -> None:
        moves = isinstance(line, wir.ReuseLine)
        if line.source in self.local:
            self.inside.append(line)
            self.local[line.result] = True
            if moves:
                self.local[line.source] = False
            return
        if index < self.last:
            view = wir.ReinterpretLine(
                result=line.result,
                source=line.source,
                type=line.type,
                provenance=line.provenance,
            )
            self.made_inside.add(line.result)
            self._add_inside(view)
            self.views[self.inner[line.result]] = None
        if moves:
            self._free_view(line.source)
        self._add_after(line, effects)

    def _take_element(
        self, index: int, line: wir.MultiOutputLine, effects: Effects
    ) -> None:
        if line.source not in self.local:
            if index < self.last:
                self.before.append(line)
            else:
                self._add_after(line, effects)
            return
        if self._outlives(line.result):
            self._return(line.result)
        else:
            self.local[line.result] = True
        self._add_inside(line)

    def _check(self, index: int, line: wir.BodyLine, effects: Effects) -> None:
        """Place an assert or a comment."""
        is_local = not self.local.keys().isdisjoint(effects.uses)
        if index > self.last and not is_local:
            self._add_after(line, effects)
        elif is_local or not self.made_inside.isdisjoint(effects.uses):
            self._add_inside(line)
        elif effects.reads_address:
            self.before.append(line)
        else:
            self._add_inside(line)

    def _add_inside(self, line: wir.BodyLine) -> None:
        self.inside.append(rename_values(line, self._inner))

    def _add_after(self, line: wir.BodyLine, effects: Effects) -> None:
        self.after.append(line)
        self.named_after.update(effects.uses)
        self.named_after.update(made.name for made in effects.definitions)

    def _outlives(self, name: str) -> bool:
        """Say whether a line outside of the region uses the storage of a name."""
        root = self.survey.root(name)
        return root in self.needed or self.survey.last[root] >= self.run.stop

    def _inner(self, name: str) -> str:
        """Return the name in the block of a value; a new operand if it has none."""
        if name in self.local or name in self.constants:
            return name
        return self.inner.get(name) or self._new_inner(name)

    def _new_inner(self, name: str) -> str:
        inner = self.inner[name] = self.names.new(None, f"{name[:_LONGEST]}_")
        return inner

    def _return(self, name: str) -> None:
        self.returned.append(name)
        self.made_inside.add(name)
        self._new_inner(name)

    def finish(self, name: str) -> BuiltRegion:
        """Return the region."""
        kept = [local for local, is_alive in self.local.items() if is_alive]
        self.inside += [wir.FreeLine(buffer=each) for each in (*kept, *self.views)]
        inside = _without_unused_views(self.inside)
        used = {each for line in inside for each in uses(line)}
        given = [
            (outer, inner)
            for outer, inner in self.inner.items()
            if inner in used and outer not in self.made_inside
        ]
        types = self.survey.types
        line = wir.GraphRegionLine(
            results=tuple(wir.Result(each, types[each]) for each in self.returned),
            name=name,
            operands=tuple(wir.BufferRef(outer) for outer, _ in given),
            device=self.device,
            stream=self.stream.number,
            body=wir.Block(
                parameters=tuple(wir.BlockParameter(n, types[outer]) for outer, n in given),
                lines=tuple(inside),
                results=tuple(wir.BufferRef(self.inner[each]) for each in self.returned),
            ),
            provenance=_provenance_of(inside),
        )
        after = _without_unused_views(self.after)
        return BuiltRegion(self.before, line, after, frozenset(kept))


def _provenance_of(lines: Sequence[wir.BodyLine]) -> wir.Provenance | None:
    """Return the origins of all lines of a region, each once."""
    names = {
        name: None
        for line in walk_lines(lines)
        if line.provenance is not None
        for name in line.provenance.origins
    }
    return wir.Provenance(origins=tuple(names)) if names else None


def _without_unused_views(lines: Sequence[wir.BodyLine]) -> list[wir.BodyLine]:
    """Return the lines without views that they free and do not use otherwise."""
    freed: set[str] = set()
    used: set[str] = set()
    unused: set[str] = set()
    for line in reversed(lines):
        if isinstance(line, wir.FreeLine):
            freed.add(line.buffer)
        elif (
            isinstance(line, wir.ReinterpretLine)
            and line.result in freed
            and line.result not in used
        ):
            unused.add(line.result)
        else:
            used.update(uses(line))
    return [
        line
        for line in lines
        if not (isinstance(line, wir.ReinterpretLine) and line.result in unused)
        and not (isinstance(line, wir.FreeLine) and line.buffer in unused)
    ]
