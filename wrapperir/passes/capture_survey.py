"""The runs of lines that graph regions may hold, and why other lines are outside them."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.analysis import order_streams
from wrapperir.ir.effects import Effects, Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import buffers_in, line_symbols, source_buffer, type_symbols
from wrapperir.passes.capture_reasons import (
    STAYING,
    LineReasons,
    Outside,
    Reason,
    behind_descriptors,
    is_returnable,
)
from wrapperir.passes.replay_cost import OPERATOR_CALL, REPLAY, copy_cost

_MOST_ROUNDS = 8
"""Rounds in which collectives are excluded because of others; after these, all are."""


@define
class Survey:
    """Facts about a program's own list of lines.

    A line that no region may hold is moved before the region of the lines around it, if it
    does not use what their calls before it write, and writes nothing that they use.

    Attributes:
        effects: The effects of each line; those of a line with nested blocks that a region
            may hold are those of a call.
        types: The type of each value.
        roots: For a view, or a name that was moved, the first name of its storage.
        last: For each first name of a storage, the last line that uses any of its names
            other than to free it; the number of lines for outputs.
        outside: The lines that no region may hold, and why.
        moved: Those that are moved before the region.
        runs: Consecutive lines without others that are outside, whose work is on one
            stream.
        collectives: For the start of each collective that may be recorded, its wait.
    """

    effects: list[Effects]
    types: dict[str, wir.ValueType]
    roots: dict[str, str] = field(factory=dict[str, str])
    last: dict[str, int] = field(factory=dict[str, int])
    outside: dict[int, Outside] = field(factory=dict[int, Outside])
    moved: set[int] = field(factory=set[int])
    runs: list[range] = field(factory=list[range])
    collectives: dict[int, int] = field(factory=dict[int, int])

    def root(self, name: str) -> str:
        """Return the first name of the storage of a name."""
        return self.roots.get(name, name)


def survey_lines(
    program: wir.Program,
    devices: Container[str] | None,
    operators: Container[str] | None = None,
    *,
    collectives: bool = False,
) -> Survey:
    """Return the runs of a program's own lines; linear in the program.

    ``devices`` are the kinds of devices that have graphs, and ``operators`` those that may
    be recorded; ``None`` is all.  With ``collectives``, these may be recorded too.
    """
    surveyor = _Surveyor(program, devices, operators, collectives)
    for index, line in enumerate(program.lines):
        surveyor.take(index, line)
    for output in program.outputs:
        for name in buffers_in(output):
            surveyor.use(name, len(program.lines))
    surveyor.exclude_escaping()
    surveyor.survey.runs = list(surveyor.runs())
    for _ in range(_MOST_ROUNDS):
        if not surveyor.exclude_collectives():
            return surveyor.survey
        surveyor.exclude_escaping()
        surveyor.survey.runs = list(surveyor.runs())
    return survey_lines(program, devices, operators)


@define
class _Surveyor:
    program: wir.Program
    devices: Container[str] | None
    operators: Container[str] | None
    collectives: bool
    survey: Survey = field(init=False)
    reasons: LineReasons = field(init=False)
    inputs: frozenset[str] = field(init=False)
    """Inputs and constants."""
    lent: frozenset[str] = field(init=False)
    """Inputs and constants whose memory no line gives to another value."""
    elements: dict[str, list[wir.MultiOutputLine]] = field(
        factory=dict[str, list[wir.MultiOutputLine]]
    )
    is_in_order: bool = field(init=False)
    """Whether all work is in program order, without waits of the host."""
    stream: wir.Stream | None = None
    """The stream of the run's calls so far."""
    touched: dict[str, bool] = field(factory=dict[str, bool])
    """Whether the run's calls so far write each storage that they use."""
    started: dict[str, int] = field(factory=dict[str, int])
    """The line that starts each collective."""
    allocated: dict[str, int] = field(factory=dict[str, int])
    """The line that makes each buffer."""

    def __attrs_post_init__(self) -> None:
        program = self.program
        effects = LineEffects.of_program(program)
        types: dict[str, wir.ValueType] = {each.name: each.type for each in program.inputs}
        types.update({each.name: each.type for each in program.constants})
        self.inputs = frozenset(types)
        self.lent = self.inputs - {each.name for each in program.inputs if each.donated}
        self.survey = Survey(
            effects=[effects.visit(line) for line in program.lines],
            types=types,
        )
        self.is_in_order = order_streams(self.survey.effects).is_trivial
        self.reasons = LineReasons(
            self.devices,
            self.operators,
            self.collectives,
            behind_descriptors(program),
            effects,
            types,
        )
        for symbol in program.symbols:
            self._define_symbol(symbol, on_entry=True)

    def use(self, name: str, index: int) -> None:
        """Note that a line uses a name other than to free it."""
        self.survey.last[self.survey.root(name)] = index

    def take(self, index: int, line: wir.BodyLine) -> None:
        """Note what a line uses and defines, and whether no region may hold it."""
        survey = self.survey
        effects = survey.effects[index]
        if effects.drops is None or effects.definitions:
            for name in effects.uses:
                self.use(name, index)
        for made in effects.definitions:
            survey.types[made.name] = made.type
            if made.source is not None and made.origin in (Origin.VIEW, Origin.MOVED):
                survey.roots[made.name] = survey.root(made.source)
            elif made.origin is Origin.ELEMENT:
                if made.source in self.touched:
                    self.touched[made.name] = True
                if made.source in self.reasons.views:
                    self.reasons.views.add(made.name)
            if made.name in survey.roots or made.may_alias:
                self.reasons.views.add(made.name)
            self.use(made.name, index)
        found = self.reasons.of_line(line, effects)
        if found is None and effects.blocks:
            call = self.reasons.as_call(effects)
            if isinstance(call, Outside):
                found = call
            else:
                effects = survey.effects[index] = call
        if found is not None:
            survey.outside[index] = found
            self._move(index, found, effects)
        elif effects.stream is not None:
            self._touch(effects, effects.stream)
            if effects.starts is not None:
                self.started[effects.starts] = index
            if effects.completes in self.started:
                survey.collectives[self.started[effects.completes]] = index
        if isinstance(line, wir.AllocateLine):
            self.allocated[line.result] = index
        if isinstance(line, wir.MultiOutputLine):
            self.elements.setdefault(line.source, []).append(line)
        if isinstance(line, wir.SymbolDefinitionLine):
            self._define_symbol(line, on_entry=False)

    def _touch(self, effects: Effects, stream: wir.Stream) -> None:
        """Note what a call of a run uses and writes."""
        if stream != self.stream:
            self.stream = stream
            self.touched.clear()
        for name in effects.uses:
            self.touched.setdefault(self.survey.root(name), False)
        for access in effects.accesses:
            if access.writes:
                self.touched[self.survey.root(access.name)] = True
        for made in effects.definitions:
            self.touched[made.name] = True

    def _move(self, index: int, why: Outside, effects: Effects) -> None:
        """Move a line that is outside before the run's calls; else the run ends here."""
        survey = self.survey
        roots = {survey.root(name) for name in effects.uses}
        written = {survey.root(a.name) for a in effects.accesses if a.writes}
        shared = roots & self.touched.keys()
        is_ordered = any(
            root not in self.lent or self.touched[root] or root in written
            for root in shared
        )
        orders = effects.host_waits and not self.is_in_order
        if why.reason in STAYING or is_ordered or orders:
            self.stream = None
            self.touched.clear()
            return
        survey.moved.add(index)

    def _define_symbol(self, line: wir.SymbolDefinitionLine, *, on_entry: bool) -> None:
        source = line.source
        read = source_buffer(source)
        if read is None:
            changes = not self.reasons.from_data.isdisjoint(line_symbols(line))
        elif on_entry or self.survey.root(read) in self.inputs:
            changes = isinstance(source, wir.ItemOf)
        elif isinstance(source, wir.ItemOf | wir.ValueOf):
            changes = True
        else:
            symbols = set(type_symbols(self.survey.types[read]))
            changes = not symbols <= self.reasons.known or bool(
                symbols & self.reasons.from_data
            )
        self.reasons.known.add(line.symbol)
        if changes:
            self.reasons.from_data.add(line.symbol)

    def exclude_escaping(self) -> None:
        """Exclude calls whose results are used after a region, but could not be returned.

        Backwards, since a call that is excluded ends the regions of the lines before it.
        """
        outside = self.survey.outside
        end = len(self.program.lines)
        stream, first = None, end
        for index in reversed(range(end)):
            if index in self.survey.moved:
                continue
            if index in outside:
                stream, end = None, index
                continue
            work = self.survey.effects[index].stream
            if work is None:
                continue
            if stream is not None and work != stream:
                end = first
            line = self.program.lines[index]
            found = None
            if isinstance(line, wir.ExternKernelLine) and line.result is not None:
                found = self._result_reason(line, line.result, end)
            elif self.survey.effects[index].blocks:
                made = self.survey.effects[index].definitions
                last = self.survey.last
                found = _copy_reason({x.name: x.type for x in made if last[x.name] >= end})
            if found is not None:
                outside[index] = found
                stream, end = None, index
                continue
            stream, first = work, index

    def exclude_collectives(self) -> bool:
        """Exclude collectives whose wait is in another run, or whose copies take too long.

        Memory that outlives a run has other addresses in each replay, so what a collective
        is given is then copied.  Return whether there are any.
        """
        survey = self.survey
        if not survey.collectives:
            return False
        run_of = dict.fromkeys(range(len(self.program.lines)), range(0))
        for run in survey.runs:
            run_of.update(dict.fromkeys(run, run))
        found: dict[int, Outside] = {}
        for start, wait in survey.collectives.items():
            if start in survey.outside or wait in survey.outside:
                detail = "its start or its wait is in no region"
                why = Outside(Reason.RANKS, detail)
            elif run_of[start] is not run_of[wait]:
                why = Outside(Reason.RANKS, "a line before its wait is in no region")
            else:
                copied = self._copied(survey.effects[start], run_of[start])
                if copy_cost(copied) <= 2 * OPERATOR_CALL + REPLAY:
                    continue
                detail = "copying what it is given at each replay would take longer"
                why = Outside(Reason.GAIN, detail)
            found[start] = found[wait] = why
        for start in [each for each in survey.collectives if each in found]:
            del survey.collectives[start]
        survey.outside.update({i: w for i, w in found.items() if i not in survey.outside})
        return bool(found)

    def _copied(self, start: Effects, run: range) -> list[wir.ValueType]:
        """Return the type of what a collective is given for each copy of it."""
        copied: list[wir.ValueType] = []
        for access in start.accesses:
            root = self.survey.root(access.name)
            made = self.allocated.get(root, -1)
            if made < run.start or self.survey.last[root] >= run.stop:
                copied += [self.survey.types[root]] * (2 if access.writes else 1)
        return copied

    def _result_reason(
        self, line: wir.ExternKernelLine, result: str, end: int
    ) -> Outside | None:
        """Return why a region that ends at a line cannot return what a call in it does."""
        last = self.survey.last
        refused = "%{} is used after the region, which cannot return it"
        returned: dict[str, wir.ValueType] = {}
        if last[result] >= end:
            if line.type is None or not is_returnable(line, line.type):
                return Outside(Reason.RESULT, refused.format(result))
            returned[result] = line.type
        taken = self.elements.get(result, ())
        names = Counter(element.indices for element in taken)
        for element in taken:
            if last[element.result] >= end:
                if names[element.indices] > 1 or not is_returnable(line, element.type):
                    return Outside(Reason.RESULT, refused.format(element.result))
                returned[element.result] = element.type
        return _copy_reason(returned)

    def runs(self) -> Iterator[range]:
        """Yield the consecutive lines that regions may hold, by stream."""
        begin, stream = 0, None
        for index, effects in enumerate(self.survey.effects):
            if index in self.survey.moved:
                continue
            if index in self.survey.outside:
                if stream is not None:
                    yield range(begin, index)
                begin, stream = index + 1, None
                continue
            if effects.stream is not None:
                if stream is not None and stream != effects.stream:
                    yield range(begin, index)
                    begin = index
                stream = effects.stream
        if stream is not None:
            yield range(begin, len(self.program.lines))


def _copy_reason(returned: Mapping[str, wir.ValueType]) -> Outside | None:
    """Return why not, if a region should rather not return what a call returns."""
    if not returned or copy_cost(returned.values()) <= OPERATOR_CALL + REPLAY:
        return None
    detail = f"copying %{next(iter(returned))} at each replay would take longer"
    return Outside(Reason.GAIN, detail)
