"""Finds the parts of a program and their links."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.analysis.line_traffic import KernelTraffic, LineTraffic, value_bytes
from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import value_types
from wrapperir.report import (
    LineFlow,
    copy_reasons,
    equal_lines,
    is_frontend_reuse,
    line_flow,
    line_head,
    model_parameters,
)
from wrapperir.text import format_type
from wrapperir.view.kernel_sources import KernelRows, rows_without_nodes
from wrapperir.view.links import (
    EmittedCode,
    LinkedCopy,
    LinkedKernel,
    LinkedLine,
    LinkedNode,
    LinkedParameter,
    LinkedPlace,
    LinkedProgram,
    LinkedValue,
    ShownFile,
)

_SOURCE = re.compile(r"\s*source\s*\{")
"""The row of a definition's text before its source."""


@frozen
class ProgramText:
    """A program, its text, and the positions of the program's parts in that."""

    program: wir.Program
    text: str
    positions: Mapping[LinePath, Position]


def link_program(
    shown: ProgramText,
    values: Mapping[str, wir.Number],
    read_file: Callable[[str], ShownFile],
    codes: Sequence[EmittedCode] = (),
    rows: Mapping[str, KernelRows] | None = None,
) -> LinkedProgram:
    """Return the parts of a valid program, with links.

    ``values`` are those of the symbols that sizes are counted with.  ``read_file`` returns
    the source file of a path.  ``rows`` are those of the sources of some kernels, by name.
    """
    program = shown.program
    files = {place.file: None for place in program.places}
    index_of = {file: index for index, file in enumerate(files)}
    places = [
        LinkedPlace(file=index_of[x.file], line=x.line, function=x.function)
        for x in program.places
    ]
    flow = line_flow(program)
    return LinkedProgram(
        name=program.name,
        text=shown.text,
        lines=_lines(shown, values, flow),
        nodes=_nodes(program),
        places=tuple(places),
        kernels=_kernels(shown, rows or {}),
        files=tuple(map(read_file, files)),
        copies=_copies(program, values, flow),
        values=_values(program, flow),
        parameters=_parameters(program, flow),
        codes=tuple(codes),
    )


def origins_by_name(program: wir.Program) -> dict[str, wir.NodeOrigin]:
    """Return the origins by name: those that the program lists, then others of lines."""
    found: dict[str, wir.NodeOrigin] = {}
    for origin in program.origins:
        found.setdefault(origin.name, origin)
    for line, _ in walk_places(program.lines):
        for name in () if line.provenance is None else line.provenance.origins:
            found.setdefault(name, wir.NodeOrigin(name=name))
    return found


def _nodes(program: wir.Program) -> tuple[LinkedNode, ...]:
    table = wir.OriginTable(program)
    index_of = {id(place): index for index, place in enumerate(program.places)}
    return tuple(
        LinkedNode(
            name=origin.name,
            operator=origin.operator,
            module=origin.module,
            places=tuple(index_of[id(x)] for x in reversed(table.stack(origin))),
        )
        for origin in origins_by_name(program).values()
    )


def _copies(
    program: wir.Program, values: Mapping[str, wir.Number], flow: LineFlow
) -> tuple[LinkedCopy, ...]:
    nodes = {name: index for index, name in enumerate(origins_by_name(program))}
    return tuple(
        LinkedCopy(
            line=line,
            values=reason.values
            if reason.sources or len(flow.writes[line]) > len(reason.values)
            else (),
            nodes=tuple(nodes[name] for name in reason.nodes),
            views=tuple(nodes[name] for name in reason.views),
            readers=reason.readers,
            whole=reason.whole,
            sources=reason.sources,
            layouts=reason.layouts,
            part_of=reason.part_of,
            bytes=reason.bytes,
            fused=tuple(nodes[name] for name in reason.fused),
            returned=reason.returned,
        )
        for line, reasons in copy_reasons(program, flow, values).items()
        for reason in reasons
    )


def _values(program: wir.Program, flow: LineFlow) -> tuple[LinkedValue, ...]:
    nodes = {name: index for index, name in enumerate(origins_by_name(program))}
    return tuple(
        LinkedValue(name=value, nodes=tuple(nodes[name] for name in names))
        for value, names in flow.origins_of_values().items()
    )


def _parameters(program: wir.Program, flow: LineFlow) -> tuple[LinkedParameter, ...]:
    users = flow.users()
    return tuple(
        LinkedParameter(
            name=each.name,
            path=each.path,
            type=format_type(each.type),
            tied=each.tied,
            lines=users.get(each.name, ()),
        )
        for each in model_parameters(program)
    )


def _lines(
    shown: ProgramText, values: Mapping[str, wir.Number], flow: LineFlow
) -> tuple[LinkedLine, ...]:
    program = shown.program
    traffic = _Traffic(KernelTraffic(program), value_types(program), values)
    kernels = {line.name: index for index, line in enumerate(program.definitions)}
    nodes = {name: index for index, name in enumerate(origins_by_name(program))}
    equal = equal_lines(flow.lines, wir.OriginTable(program))
    found: list[LinkedLine] = []
    for index, (line, path) in enumerate(walk_places(program.lines)):
        done = flow.effects[index]
        origins = () if line.provenance is None else line.provenance.origins
        kernel = line.kernel if isinstance(line, wir.KernelCallLine) else None
        operator = line.operator if isinstance(line, wir.ExternKernelLine) else None
        is_call = kernel is not None or operator is not None
        moved = traffic.of(line, done) if is_call else LineTraffic()
        found.append(
            LinkedLine(
                number=shown.positions[path].line,
                text=line_head(line),
                depth=sum(step == "lines" for step in path) - 1,
                nodes=tuple(nodes[name] for name in origins),
                kernel=None if kernel is None else kernels.get(kernel),
                operator=operator,
                passes=() if line.provenance is None else line.provenance.passes,
                values=_names(done),
                alike=equal[index],
                sources=tuple(_sources(flow, index)) if is_call else (),
                reads=moved.read,
                writes=moved.written,
                touched=moved.touched,
                by_frontend=is_frontend_reuse(line),
            )
        )
    return tuple(found)


def _sources(flow: LineFlow, line: int) -> Iterator[tuple[int, str]]:
    """Yield the lines that wrote what a line reads, and the names that it has there."""
    for source, memory in flow.reads[line]:
        for value in flow.writes[source]:
            if value.memory == memory:
                yield source, value.name
                break


def _names(effects: Effects) -> tuple[str, ...]:
    made = (each.name for each in effects.definitions)
    dropped = () if effects.drops is None else (effects.drops,)
    return tuple(dict.fromkeys((*made, *effects.uses, *dropped)))


@frozen
class _Traffic:
    """Counts the bytes that calls read and write."""

    kernels: KernelTraffic
    types: Mapping[str, wir.ValueType]
    values: Mapping[str, wir.Number]

    def of(self, line: wir.BodyLine, effects: Effects) -> LineTraffic:
        """Return what a call touches, or else the values that it reads and writes.

        Its results are among these, unless they may be views.
        """
        try:
            touched = self.kernels.of(line, self.types, self.values)
        except wir.EvaluationError:
            touched = None  # it depends on a value that is not known
        if touched is not None:
            return touched
        read = (x.name for x in effects.accesses if x.reads)
        made = (x.name for x in effects.definitions if not x.may_alias)
        written = (x.name for x in effects.accesses if x.writes)
        return LineTraffic(
            sum(map(self._bytes, read)),
            sum(map(self._bytes, dict.fromkeys((*made, *written)))),
        )

    def _bytes(self, name: str) -> int:
        type = self.types.get(name)
        try:
            return 0 if type is None else value_bytes(type, self.values)
        except wir.EvaluationError:
            return 0  # it depends on a value that is not known


def _kernels(
    shown: ProgramText, known: Mapping[str, KernelRows]
) -> tuple[LinkedKernel, ...]:
    nodes = {name: index for index, name in enumerate(origins_by_name(shown.program))}
    calls: dict[str, list[int]] = {}
    for index, (line, _) in enumerate(walk_places(shown.program.lines)):
        if isinstance(line, wir.KernelCallLine):
            calls.setdefault(line.kernel, []).append(index)
    rows = shown.text.split("\n")
    found: list[LinkedKernel] = []
    for index, definition in enumerate(shown.program.definitions):
        begin = end = shown.positions["definitions", index].line
        if rows[begin - 1].rstrip().endswith("{"):
            while end < len(rows) and rows[end - 1].rstrip() != "}":
                end += 1
        source, own = 0, 0
        statements: tuple[tuple[int, tuple[int, ...]], ...] = ()
        parts: tuple[tuple[str, tuple[int, ...]], ...] = ()
        if isinstance(definition, wir.KernelDefinitionLine) and definition.source:
            kernel_rows = known.get(definition.name) or rows_without_nodes(definition)
            source = next((n + 2 for n in range(begin, end) if _SOURCE.match(rows[n])), 0)
            own = kernel_rows.own
            statements = tuple(
                (row, tuple(nodes[name] for name in names if name in nodes))
                for row, names in kernel_rows.nodes.items()
            )
            parts = tuple(
                (part, tuple(nodes[name] for name in names if name in nodes))
                for part, names in kernel_rows.parts
            )
        found.append(
            LinkedKernel(
                name=definition.name,
                language=definition.language.value
                if isinstance(definition, wir.KernelDefinitionLine)
                else "multi-kernel",
                begin=begin,
                end=end,
                source=source,
                own=own,
                statements=statements,
                parts=parts,
                calls=tuple(calls.get(definition.name, ())),
            )
        )
    return tuple(found)
