"""Building of the programs of a cut's parts."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.emit.partition.cut import Cut
from wrapperir.emit.partition.places import Places, key_of
from wrapperir.emit.partition.plan import PartPlan, make_plan
from wrapperir.emit.partition.values import Described, result_symbols
from wrapperir.ir.blocks import called_names
from wrapperir.ir.line_effects import LineEffects, definitions
from wrapperir.ir.mentions import type_symbols

_DTYPES: Mapping[wir.SymbolKind, wir.DType] = {
    wir.SymbolKind.INT: wir.DType.I64,
    wir.SymbolKind.FLOAT: wir.DType.F64,
    wir.SymbolKind.BOOL: wir.DType.BOOL,
}


@frozen(kw_only=True)
class ProgramPart:
    """A part of a program, as a program.

    Attributes:
        program: Its inputs are what the arguments name, its outputs the results.
        arguments: The key, in the plan, of each input.
        results: The key of each output.
        origins: For each of its lines, the line of the whole program that it is for.
    """

    program: wir.Program
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    origins: tuple[int | None, ...] = ()


@frozen(kw_only=True)
class Parts:
    """The parts of a program, and the plan that runs them.

    ``entry`` checks all inputs and returns the symbols that are known on entry; it is the
    first step of the plan.  ``None``: nothing needs it.
    """

    entry: ProgramPart | None
    parts: tuple[ProgramPart, ...]
    plan: PartPlan


def build_parts(values: Described, cut: Cut, *, checks_inputs: bool) -> Parts:
    """Return the programs of the parts of a cut.

    Storages pass from part to part under their first name; each part makes the views that
    it uses, and drops them.  A buffer is allocated in the first part that uses it, and
    freed in the last, which is given it for good.  Symbols are passed as numbers.  With
    ``checks_inputs`` an entry checks the inputs of the whole program before any part runs.
    """
    places = Places(values, cut)
    builders = [_PartBuilder(places, number) for number in range(len(cut.sides))]
    for builder in builders:
        builder.append_lines()
    needed: dict[str, None] = {}
    for builder in reversed(builders):
        builder.find_results(needed)
        needed.update(dict.fromkeys(builder.needed_symbols()))
        for symbol in builder.own_symbols:
            needed.pop(symbol, None)
    parts = tuple([builder.finish() for builder in builders])
    program = values.program
    entry = _entry(program, tuple(needed)) if checks_inputs or needed else None
    steps = parts if entry is None else (entry, *parts)
    keys = {key_of(constant.name): constant.key for constant in program.constants}
    return Parts(
        entry=entry,
        parts=parts,
        plan=make_plan(
            [key_of(each.name) for each in program.inputs],
            {key: name for key, name in keys.items() if key in places.outputs},
            [(part.arguments, part.results) for part in steps],
            places.outputs,
        ),
    )


def _entry(program: wir.Program, symbols: Sequence[str]) -> ProgramPart:
    """Return the part that checks inputs and computes symbols."""
    inputs = tuple([evolve(each, donated=False) for each in program.inputs])
    return ProgramPart(
        program=wir.Program(
            name=program.name,
            inputs=inputs,
            symbols=program.symbols,
            outputs=tuple(map(wir.Symbol, symbols)),
            places=program.places,
            origins=program.origins,
        ),
        arguments=tuple([key_of(each.name) for each in inputs]),
        results=tuple(symbols),
    )


@define
class _PartBuilder:
    places: Places
    number: int
    lines: list[wir.BodyLine] = field(factory=list[wir.BodyLine])
    origins: list[int | None] = field(factory=list[int | None])
    arrived: dict[str, None] = field(factory=dict[str, None])
    """The first names of storages that the part is given."""
    constants: dict[str, None] = field(factory=dict[str, None])
    made: set[str] = field(factory=set[str])
    """Names that the part defines."""
    written: set[str] = field(factory=set[str])
    """The first names of storages that the part writes."""
    filled: set[str] = field(factory=set[str])
    """Those of which it writes all elements, or may do so."""
    own_symbols: set[str] = field(factory=set[str])
    results: dict[str, wir.Argument] = field(factory=dict[str, wir.Argument])
    ends: dict[str, int] = field(factory=dict[str, int])
    """The last line that uses a name, and by its first name a storage.

    The number of the program's lines for what the part returns.
    """

    def append_lines(self) -> None:
        """Append the part's lines, with the allocations, views and frees that they need."""
        values, places = self.places.values, self.places
        indices = places.lines[self.number]
        placed = [index for index in indices if index in places.cut.parts]
        named = {index: self._names(index) for index in placed}
        returned = [name for name, part in places.returned.items() if part == self.number]
        end = len(values.program.lines)
        for index, names in (*named.items(), (end, returned)):
            for name in names:
                self.ends[name] = self.ends[values.bases[name]] = index
        for index in indices:
            for name in values.uses[index] if index in named else ():
                self._require(name)
            self._append(values.program.lines[index], index)
            self._note(index)
            for name in named.get(index, ()):
                self._drop(name, index)
        for name in returned:
            self._require(name)
        for name in returned:
            base = values.bases[name]
            if base not in returned and self.ends[base] == end:
                self.ends[base] = -1
                self._drop_storage(base)

    def _names(self, index: int) -> tuple[str, ...]:
        """Return the names that a line uses or defines."""
        values = self.places.values
        made = [made.name for made in values.effects[index].definitions]
        return tuple(dict.fromkeys((*values.uses[index], *made)))

    def _append(self, line: wir.BodyLine, origin: int | None) -> None:
        self.lines.append(line)
        self.origins.append(origin)

    def _note(self, index: int) -> None:
        """Note what a line defines and writes."""
        values = self.places.values
        effects = values.effects[index]
        self.made.update(made.name for made in effects.definitions)
        if effects.symbol is not None:
            self.own_symbols.add(effects.symbol)
        for access in effects.accesses:
            if access.writes:
                base = values.bases[access.name]
                self.written.add(base)
                if values.types[access.name] == values.types[base]:
                    self.filled.add(base)

    def _require(self, name: str) -> None:
        """Have a value there: given, allocated or named anew."""
        values, places = self.places.values, self.places
        base = values.bases[name]
        if base in places.constants:
            self.constants[base] = None
        elif places.arrives(base, self.number):
            self.arrived[base] = None
        elif base not in self.made:
            index = values.makers[base]
            self._append(values.program.lines[index], index)
            self.made.add(base)
        if name != base and name not in self.made:
            index, type = values.named[name], values.types[name]
            assert isinstance(type, wir.TensorType)  # views are tensors
            view = wir.ReinterpretLine(
                result=name,
                source=base,
                type=type,
                provenance=values.program.lines[index].provenance,
            )
            self._append(view, index)
            self.made.add(name)

    def _drop(self, name: str, index: int) -> None:
        """Free a view and its storage after the line that uses them last."""
        base = self.places.values.bases[name]
        if name != base and self.ends[name] == index:
            self._append(wir.FreeLine(buffer=name), None)
        if self.ends[base] == index:
            self.ends[base] = -1  # several of its names may end here
            self._drop_storage(base)

    def _drop_storage(self, base: str) -> None:
        if self.places.frees(base, self.number):
            self._append(wir.FreeLine(buffer=base), None)

    def find_results(self, symbols: Mapping[str, None]) -> None:
        """Find what the part returns; ``symbols`` are needed by later parts."""
        values, places = self.places.values, self.places
        for base, last in places.last.items():
            if last > self.number and base in self.made and not places.is_kept(base):
                self.results[key_of(base)] = wir.BufferRef(base)
        for name, part in places.returned.items():
            if part == self.number:
                self.results[key_of(name)] = wir.BufferRef(name)
        for symbol in symbols:
            if symbol in self.own_symbols:
                self.results[symbol] = wir.Symbol(symbol)
        if self.number == len(places.cut.sides) - 1:
            for number, output in enumerate(values.program.outputs):
                if not isinstance(output, wir.BufferRef):
                    self.results[f"={number}"] = output

    def needed_symbols(self) -> tuple[str, ...]:
        """Return the symbols that the part has to be given."""
        values = self.places.values
        found: dict[str, None] = {}
        for index, line in zip(self.origins, self.lines, strict=True):
            if index is not None and index in self.places.cut.parts:
                found.update(dict.fromkeys(sorted(values.symbols[index])))
            for _, type in definitions(line):
                found.update(dict.fromkeys(type_symbols(type)))
        for base in (*self.arrived, *self.constants):
            found.update(dict.fromkeys(type_symbols(values.types[base])))
        for result in self.results.values():
            found.update(dict.fromkeys(result_symbols(result)))
        return tuple([symbol for symbol in found if symbol not in self.own_symbols])

    def finish(self) -> ProgramPart:
        """Return the part."""
        values, places = self.places.values, self.places
        self._zero_partial()
        inputs = [self._input(base) for base in self.arrived]
        keys = [key_of(base) for base in self.arrived]
        symbols: list[wir.SymbolDefinitionLine] = []
        for symbol in self.needed_symbols():
            line = places.symbols[symbol]
            name = places.names.new(None, f"{symbol[:200]}_value")
            inputs.append(wir.Input(name=name, type=wir.ScalarType(_DTYPES[line.kind])))
            symbols.append(evolve(line, source=wir.ValueOf(name)))
            keys.append(symbol)
        constants = [
            evolve(places.constants[name], mutated=name in self.written)
            for name in self.constants
        ]
        program = wir.Program(
            name=values.program.name,
            inputs=tuple(inputs),
            symbols=tuple(symbols),
            constants=tuple(constants),
            lines=tuple(self.lines),
            outputs=tuple(self.results.values()),
            places=values.program.places,
            origins=values.program.origins,
        )
        program = evolve(program, definitions=_called(program, values.program))
        return ProgramPart(
            program=wir.trim_origins(program),
            arguments=tuple(keys),
            results=tuple(self.results),
            origins=tuple(self.origins),
        )

    def _zero_partial(self) -> None:
        """Have buffers zeroed that later parts are given before they are wholly written.

        What a program returns has to be written.  Other streams wait for stream 0, which
        zeroes.
        """
        lines, origins = self.lines, self.origins
        self.lines, self.origins = [], []
        streams = _streams_of(lines)
        for line, origin in zip(lines, origins, strict=True):
            if (
                not isinstance(line, wir.AllocateLine)
                or line.workspace is not None
                or line.result in self.filled
                or key_of(line.result) not in self.results
            ):
                self._append(line, origin)
                continue
            self._append(evolve(line, workspace=wir.ZeroMode.ZERO_ON_CALL), origin)
            device = wir.Stream(line.type.device).device
            numbers = [s.number for s in streams if s.device == device and s.number]
            event = self.places.names.new(None, "event") if numbers else ""
            if numbers:
                self._append(wir.RecordEventLine(result=event, device=device), None)
            for number in numbers:
                wait = wir.WaitEventLine(event=event, device=device, stream=number)
                self._append(wait, None)

    def _input(self, base: str) -> wir.Input:
        places = self.places
        is_donated = places.is_donated(base, self.number)
        may_write = base in places.owned or base in places.writable
        given = places.inputs.get(base)
        return wir.Input(
            name=base,
            type=places.values.types[base],
            mutated=may_write and base in self.written and not is_donated,
            donated=is_donated,
            path=None if given is None else given.path,
            tied=() if given is None else given.tied,
            provenance=None if given is None else given.provenance,
        )


def _streams_of(lines: Iterable[wir.BodyLine]) -> tuple[wir.Stream, ...]:
    """Return the streams that lines work on."""
    effects = LineEffects(None)
    streams = [effects.visit(line).stream for line in lines]
    return tuple(dict.fromkeys(stream for stream in streams if stream is not None))


def _called(part: wir.Program, whole: wir.Program) -> tuple[wir.DefinitionLine, ...]:
    """Return the definitions that a part calls, choices of multi-kernels included."""
    wanted = set(called_names(part))
    for line in reversed(whole.definitions):  # choices are defined before
        if isinstance(line, wir.MultiKernelLine) and line.name in wanted:
            wanted.update(choice.kernel for choice in line.choices)
    return tuple([line for line in whole.definitions if line.name in wanted])
