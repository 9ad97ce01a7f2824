"""The context of emission: facts of the program, and the place of the current line."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeVar

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.emit.line_record import active_record
from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.emit.pools import PoolUse, pool_uses
from wrapperir.emit.runnable_kernels import Runnable, runnable_kernels
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Effects, Origin
from wrapperir.ir.line_effects import LineEffects, program_effects, value_types

ALLOCATIONS = frozenset({Origin.ALLOCATED, Origin.PROGRAM, Origin.POOL})
"""Origins of new memory."""
DERIVATIONS = frozenset({Origin.PLACED, Origin.VIEW, Origin.MOVED})
"""Origins of names for known memory."""
_EFFECTS = LineEffects(None)
_MOST_NAMES = 8
"""Origins that a remark names; the program's text has all."""


@frozen(eq=False)
class ProgramFacts:
    """Facts of a verified program; each is computed when it is first asked for."""

    program: wir.Program

    @cached_property
    def definitions(self) -> Mapping[str, wir.DefinitionLine]:
        """The kernels and multi-kernels, by name."""
        return {line.name: line for line in self.program.definitions}

    @cached_property
    def origins(self) -> wir.OriginTable:
        """The origins that lines came from."""
        return wir.OriginTable(self.program)

    @cached_property
    def constants(self) -> frozenset[str]:
        """The names of the constants."""
        return frozenset(constant.name for constant in self.program.constants)

    @cached_property
    def effects(self) -> Sequence[Effects]:
        """The effects of each line, then of its nested blocks; kernels access nothing."""
        return program_effects(self.program)

    @cached_property
    def line_effects(self) -> LineEffects:
        """The effects of lines, with the accesses of the program's kernels."""
        return LineEffects.of_program(self.program)

    @cached_property
    def types(self) -> Mapping[str, wir.ValueType]:
        """The type of every value, in nested blocks too."""
        return value_types(self.program, self.effects)

    @cached_property
    def symbols(self) -> Mapping[str, wir.SymbolDefinitionLine]:
        """The definition of every symbol, in nested blocks too, in order."""
        lines = chain(self.program.symbols, walk_lines(self.program.lines))
        symbols = [line for line in lines if isinstance(line, wir.SymbolDefinitionLine)]
        return {line.symbol: line for line in symbols}

    @cached_property
    def measured_offsets(self) -> frozenset[str]:
        """The symbols whose ``offset(%x)`` is PyTorch's ``storage_offset()``.

        The offset in the type of ``%x`` mentions a symbol that is not defined yet, such as
        this one.  Other symbols are that offset, wherever ``%x`` lies in memory.
        """
        found: set[str] = set()
        defined: set[str] = set()
        for name, line in self.symbols.items():
            if isinstance(line.source, wir.OffsetOf):
                offset = self.tensor_type(line.source.buffer).offset
                if not defined.issuperset(wir.symbols_in(offset)):
                    found.add(name)
            defined.add(name)
        return frozenset(found)

    @cached_property
    def kinds(self) -> NumberKinds:
        """The kind of every symbol."""
        return NumberKinds({name: line.kind for name, line in self.symbols.items()})

    @cached_property
    def kernel_devices(self) -> Mapping[str, frozenset[str]]:
        """The kinds of device that each kernel may be called on.

        A kernel that no call may run is not in it.
        """
        kinds: dict[str, set[str]] = {}
        for line, found in self._runnable.values():
            for candidate in found.kernels.values():
                kinds.setdefault(candidate.kernel.name, set()).add(line.device.kind)
        return {name: frozenset(kinds) for name, kinds in kinds.items()}

    @cached_property
    def certain_kernels(self) -> frozenset[str]:
        """The kernels that some call runs without another to pick instead."""
        every = (found.kernels for _, found in self._runnable.values())
        alone = [kernels for kernels in every if len(kernels) == 1]
        return frozenset(x.kernel.name for kernels in alone for x in kernels.values())

    @cached_property
    def triton_calls(self) -> Mapping[str, wir.KernelCallLine]:
        """The first call that may run a Triton kernel on each kind of device."""
        first: dict[str, wir.KernelCallLine] = {}
        for line, found in self._runnable.values():
            languages = {x.kernel.language for x in found.kernels.values()}
            if wir.Language.TRITON in languages:
                first.setdefault(line.device.kind, line)
        return first

    @cached_property
    def pool_uses(self) -> Mapping[str, PoolUse]:
        """The use of each allocated pool."""
        return pool_uses(self.effects)

    @cached_property
    def first_gpu(self) -> wir.Device | None:
        """The first CUDA device with an index that a line allocates on or runs on."""
        for done in self.effects:
            device = done.device
            if device is not None and device.kind == "cuda" and device.index is not None:
                allocates = any(made.origin in ALLOCATIONS for made in done.definitions)
                if allocates or done.launches:
                    return device
        return None

    def runnable(self, line: wir.KernelCallLine) -> Runnable:
        """Return the kernels that a call may run, and the rule that picks one."""
        _, found = self._runnable[id(line)]
        return found

    def tensor_type(self, name: str) -> wir.TensorType:
        """Return the type of a value that a verified program uses as a tensor."""
        type = self.types[name]
        assert isinstance(type, wir.TensorType), name
        return type

    @cached_property
    def _runnable(self) -> Mapping[int, tuple[wir.KernelCallLine, Runnable]]:
        calls = [
            x for x in walk_lines(self.program.lines) if isinstance(x, wir.KernelCallLine)
        ]
        multi = any(isinstance(x, wir.MultiKernelLine) for x in self.program.definitions)
        # Types are read where a choice depends on sizes.
        types: Mapping[str, wir.ValueType] = self.types if multi else {}
        return {
            id(line): (line, runnable_kernels(self.definitions, line, types))
            for line in calls
        }


def provenances_to_show(lines: Sequence[wir.AnyLine]) -> list[wir.Provenance | None]:
    """Return the provenance to remark before each line; ``None`` for no remark.

    Lines that allocate memory or make views for a call have the call's origins, which are
    shown before the call alone.
    """
    shown = [line.provenance for line in lines]
    following: tuple[str, ...] = ()  # of the next line that does something
    kinds = {type(line): line for line in lines}
    naming = {kind for kind, line in kinds.items() if _only_names_memory(line)}
    for index in range(len(lines) - 1, -1, -1):
        provenance = shown[index]
        origins = () if provenance is None else provenance.origins
        if type(lines[index]) not in naming:
            following = origins
        elif origins == following:
            shown[index] = None
    return shown


def _only_names_memory(line: wir.AnyLine) -> bool:
    """Say whether lines of the kind of ``line`` only allocate, name or drop memory."""
    effects = _EFFECTS.visit(line)
    origins = {made.origin for made in effects.definitions}
    only_names = origins <= ALLOCATIONS | DERIVATIONS
    return only_names and (bool(origins) or effects.drops is not None)


def format_provenance(provenance: wir.Provenance, table: wir.OriginTable) -> str:
    """Return ``relu, add; aten.relu.default; model.py:12``; empty if nothing is known.

    Operator and place are those of the first origin that has one.
    """
    names = list(provenance.origins[:_MOST_NAMES])
    more = len(provenance.origins) - len(names)
    shown = ", ".join(names) + (f" and {more} more" if more else "")
    origins = table.of(provenance)
    operator = next((each.operator for each in origins if each.operator), None)
    place = next(filter(None, map(table.place, origins)), None)
    where = f"{place.file}:{place.line}" if place else ""
    return "; ".join([part for part in (shown, operator, where) if part])


AnyLineT = TypeVar("AnyLineT", bound=wir.AnyLine)


class Emission:
    """Facts of the program, the place of the current line, and refusals so far.

    An emitter's own context is a subclass with its writer and names.  Its functions take
    that context, so that modules for blocks, streams or asserts need not import the module
    with the line visitor.
    """

    def __init__(
        self, facts: ProgramFacts, problems: list[Diagnostic] | None = None
    ) -> None:
        """Start before the first line; refusals are appended to ``problems``."""
        self.facts = facts
        self.problems: list[Diagnostic] = [] if problems is None else problems
        self._path: LinePath = ()
        self._index = 0
        self._remarked: tuple[str, ...] = ()
        self._record = active_record()

    @property
    def path(self) -> LinePath:
        """The place of the line that is being emitted."""
        return (*self._path, self._index)

    def at(self, path: LinePath, index: int) -> None:
        """Set the current place: item ``index`` of the tuple at ``path``."""
        self._path, self._index = path, index

    def walk(
        self, lines: Sequence[AnyLineT], path: LinePath, part: range | None = None
    ) -> Iterator[tuple[int, AnyLineT]]:
        """Yield the lines at ``path``, or a part of them, with their indices.

        Each line is the current place until the next is asked for; at the end the place is
        again what it was, so that nested blocks may be walked from within.
        """
        outer = self._path, self._index
        record = self._record
        recorded = () if record is None else record.path
        for index in range(len(lines)) if part is None else part:
            self._path, self._index = path, index
            line = lines[index]
            if record is not None:
                record.path = (*path, _recorded_index(line, index))
            yield index, line
        self._path, self._index = outer
        if record is not None:
            record.path = recorded

    def new_remark(self, origin: wir.Provenance | None) -> str:
        """Return the remark for a line from ``origin``, empty where it was just made."""
        if origin is None or not origin.origins or origin.origins == self._remarked:
            return ""
        self._remarked = origin.origins
        return format_provenance(origin, self.facts.origins)

    def check_call(self, line: wir.KernelCallLine) -> None:
        """Refuse the current line, a call, if a kernel cannot run on its device."""
        device = line.device
        for candidate in self.facts.runnable(line).kernels.values():
            if candidate.kernel.language is wir.Language.CPP and device.kind != "cpu":
                self.report(f"a C++ kernel does not run on {device}", str(device))
        calls = self.facts.triton_calls
        if "cpu" in calls and len(calls) > 1 and line is list(calls.values())[1]:
            self.report("Triton kernels run on the CPU and elsewhere in one program")

    def check_source(self, kernel: wir.KernelDefinitionLine) -> None:
        """Refuse the current line if the source of a kernel cannot be a file."""
        try:
            kernel.source.encode()
        except UnicodeEncodeError:  # it has surrogates
            self.report("the source of a kernel is not Unicode text", kernel.name)

    def report(self, message: str, subject: str | None = None) -> None:
        """Refuse the current line: it needs something that the emitter lacks.

        Emission goes on, so that all problems are named: later lines still use what this
        one defines.
        """
        self.problems.append(
            Diagnostic(Code.UNSUPPORTED_FEATURE, message, path=self.path, subject=subject)
        )


def _recorded_index(line: wir.AnyLine, index: int) -> str | int:
    """Return the name of a kernel, and the index of another line."""
    if isinstance(line, wir.KernelDefinitionLine | wir.MultiKernelLine):
        return line.name
    return index
