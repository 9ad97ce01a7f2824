"""The state of the verifier's walk: values, storages, scopes, findings."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeVar

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis.range_map import RangeMap
from wrapperir.diagnostics import Code, Diagnostic, LinePath, Note, Severity
from wrapperir.verify.layouts import Fault, Layouts, SymbolFacts, TypeFacts

if TYPE_CHECKING:
    from wrapperir.verify.placements import Placement, PoolContents

T = TypeVar("T")

MAX_NESTING = 64
"""Blocks nested deeper are refused, so that recursion over them is safe."""

DOES_FOR_ANY = wir.ZeroMode.ZERO_ON_CALL
"""Zero mode assumed for memory of unknown origin, so that no call with it is reported."""


class Role(Enum):
    """The owner of a value, which decides what may be done with it."""

    OWNED = auto()
    INPUT = auto()
    CONSTANT = auto()
    PARAMETER = auto()
    PROGRAM_WORKSPACE = auto()
    SCALAR = auto()


# Python 3.11 takes 0.1 µs to look up a member of an enum.
OWNED: Final = Role.OWNED
INPUT: Final = Role.INPUT
CONSTANT: Final = Role.CONSTANT
SCALAR: Final = Role.SCALAR


@define(eq=False)
class StorageFacts:
    """Memory behind one or more names of one scope.

    ``lender`` is the value whose memory it is, or may be, where that is not the scope's
    to give away: an input, constant, block parameter or program workspace.
    ``read_only`` is the value that forbids writing.  ``extent`` is the type that says
    how many bytes there are, where that is known.  ``exact`` is false where only the
    least number of bytes is.  ``written`` says that some bytes may have been written, or
    that there are none; ``unwritten`` then has the ranges of bytes that nothing wrote, and
    is ``None`` where any byte may have been written.  ``certain`` is false where the memory
    is perhaps that of another value too.  ``donated`` is the donated input whose layout a
    reuse must keep, as the bytes between its elements are not its own.  ``pool`` says what
    lives in it, where it is a pool, and ``placement`` where in a pool it is itself.
    ``perhaps`` are storages that it perhaps is, as the result of an operator that may
    return a view of them, and ``perhaps_in`` their placements, which its names keep alive.
    ``workspace`` is how its bytes began, where it was allocated or placed as a workspace.
    """

    lender: "ValueFacts | None" = None
    read_only: "ValueFacts | None" = None
    extent: wir.TensorType | None = None
    exact: bool = False
    written: bool = True
    unwritten: RangeMap[None] | None = None
    certain: bool = True
    donated: "ValueFacts | None" = None
    pool: "PoolContents | None" = None
    placement: "Placement | None" = None
    perhaps: "tuple[StorageFacts, ...]" = ()
    perhaps_in: "tuple[Placement, ...]" = ()
    workspace: wir.ZeroMode | None = None

    def placements(self) -> "tuple[Placement, ...]":
        """Return the placements that a name of this storage keeps alive."""
        own = self.placement
        return self.perhaps_in if own is None else (own, *self.perhaps_in)

    def add_name(self) -> None:
        """Have one more name keep its placements alive."""
        for placement in self.placements():
            placement.names += 1

    def keep(self, value: "ValueFacts", sources: "Iterable[StorageFacts]") -> None:
        """Have its first name, if it is sound, keep the sources' placements alive."""
        if value.live and value.role is OWNED:
            found = {id(p): p for source in sources for p in source.placements()}
            self.perhaps_in = tuple(p for p in found.values() if p.ended is None)
            self.add_name()

    def drop_name(self, scope: "LineScope") -> None:
        """Drop one of its names."""
        for placement in self.placements():
            placement.drop(scope)


@define(eq=False)
class ValueFacts:
    """A name: its type, its memory, and whether it still holds a reference.

    ``defined`` is the index of its line, or a place that is not a line.  A name that a
    fault was reported for is not ``live`` and ``poisoned``: nothing more is reported of it.
    """

    name: str
    type: wir.ValueType
    facts: TypeFacts
    role: Role
    scope: "LineScope"
    defined: "int | LinePath"
    storage: StorageFacts
    live: bool = True
    poisoned: bool = False
    dropped: int = -1

    def poison(self) -> None:
        """Report nothing more about this name, nor what its uses would have written."""
        self.storage.written = True
        self.storage.unwritten = None
        if self.live:
            self.storage.drop_name(self.scope)
        self.live = False
        self.poisoned = True
        self.scope.owned.pop(self.name, None)

    def defined_at(self) -> LinePath:
        """Return the place of the definition."""
        if isinstance(self.defined, int):
            return (*self.scope.path, self.defined)
        return self.defined


@define(eq=False)
class StartedCollective:
    """A collective that was started, and where; ``waited`` is the line of its wait.

    ``reads`` and ``writes`` are its tensors, as far as they are sound.  After one use was
    ``reported``, no other one is.
    """

    line: wir.CollectiveLine
    started: LinePath
    reads: tuple[ValueFacts, ...]
    writes: tuple[ValueFacts, ...]
    waited: LinePath | None = None
    reported: bool = False


@define(eq=False)
class LineScope:
    """One list of lines, the program's or a nested block's; ``index`` is the current line.

    ``reported`` has names of other scopes whose use here was reported.  ``awaited`` has the
    symbols in types of results that following lines must define, with the result's place.
    ``any_stream`` says that the lines of a nested block may be on other streams than 0.
    ``flights`` has the collectives that were started, by handle.
    """

    path: LinePath
    depth: int = 0
    index: int = 0
    owned: dict[str, ValueFacts] = field(factory=dict[str, ValueFacts])
    symbols: list[str] = field(factory=list[str])
    reported: set[str] = field(factory=set[str])
    awaited: dict[str, LinePath] = field(factory=dict[str, LinePath])
    any_stream: bool = False
    flights: dict[str, StartedCollective] = field(factory=dict[str, StartedCollective])


@define(eq=False)
class NeededWorkspace:
    """The workspace that the choices of a multi-kernel need at a parameter.

    ``mode`` is the zero mode that suits all of them; ``None`` if there is none, which was
    reported.  ``asker`` is the choice that last changed the mode.  ``counts`` has the
    numbers of elements that calls are checked against, each with a choice that needs them:
    each different expression once, and of the constants the largest.
    """

    parameter: int
    mode: wir.ZeroMode | None
    asker: str
    counts: dict[Hashable, tuple[str, wir.Expr]] = field(
        factory=dict[Hashable, tuple[str, wir.Expr]]
    )


@frozen(eq=False)
class KernelSignature:
    """The parameters of a kernel or multi-kernel, which calls are checked against.

    ``parameters`` is ``None`` for a kernel that is not known, which is reported once.
    ``in_order`` says that the kernel runs as its source reads, as C++ does, so that its
    arguments may overlap.  ``sizes`` and ``workspaces`` are a multi-kernel's that
    were not reported.
    """

    parameters: tuple[wir.RuntimeParameter, ...] | None
    is_multi: bool = False
    defined: LinePath = ()
    in_order: bool = False
    sizes: tuple[wir.KernelSize, ...] = ()
    workspaces: tuple[NeededWorkspace, ...] = ()

    def notes(self, name: str) -> tuple[Note]:
        """Return the note that shows where the kernel of this name is defined."""
        return (Note(message=f"@{name} is defined here", path=self.defined),)


@define(eq=False)
class State(ABC):
    """The walk's state.  ``here`` is the current place if that is not a line.

    ``resources`` are the names of pools and events, which few lines accept.  ``streams``
    says whether a line is on another stream than 0.  ``groups`` are the declared ones, and
    ``in_flight`` counts the collectives that were not waited for.  ``multi_kernels`` has
    the name and place of each multi-kernel by its contents.  ``derived`` keeps expressions
    that the walk made alive, as facts are looked up by identity.
    """

    program: wir.Program
    scope: LineScope = field(factory=lambda: LineScope(("lines",)))
    here: LinePath | None = None
    values: dict[str, ValueFacts] = field(factory=dict[str, ValueFacts])
    symbols: dict[str, SymbolFacts] = field(factory=dict[str, SymbolFacts])
    ended_symbols: dict[str, SymbolFacts] = field(factory=dict[str, SymbolFacts])
    kernels: dict[str, KernelSignature] = field(factory=dict[str, KernelSignature])
    diagnostics: list[Diagnostic] = field(factory=list[Diagnostic])
    layouts: Layouts = field(init=False)
    definitions: tuple[dict[str, LinePath], dict[str, LinePath]] | None = None
    overlap_budget: int = 1_000_000
    run_budget: int = 500_000
    placement_budget: int = 20_000
    resources: set[str] = field(factory=set[str])
    streams: bool = False
    groups: dict[str, wir.ProcessGroup] = field(factory=dict[str, wir.ProcessGroup])
    in_flight: int = 0
    multi_kernels: dict[Hashable, tuple[str, LinePath]] = field(
        factory=dict[Hashable, tuple[str, LinePath]]
    )
    derived: list[wir.Expr] = field(factory=list[wir.Expr])

    def __attrs_post_init__(self) -> None:
        """Let the type checks see the symbols in scope."""
        self.layouts = Layouts(self.symbols)

    @abstractmethod
    def walk(self, lines: Sequence[wir.BodyLine]) -> None:
        """Check the lines of the current scope, in order."""

    def place(self) -> LinePath:
        """Return where the walk is."""
        if self.here is not None:
            return self.here
        return (*self.scope.path, self.scope.index)

    def each(self, section: str, items: Iterable[T]) -> Iterator[T]:
        """Yield the items of a section, with the walk at the place of each."""
        for index, item in enumerate(items):
            self.here = (section, index)
            yield item
        self.here = None

    def report(
        self,
        code: Code,
        message: str,
        subject: str | None = None,
        *,
        path: LinePath | None = None,
        notes: tuple[Note, ...] = (),
        hint: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Add a diagnostic, at ``path`` or where the walk is."""
        self.diagnostics.append(
            Diagnostic(
                code,
                message,
                severity=severity,
                path=self.place() if path is None else path,
                subject=subject,
                notes=notes,
                hint=hint,
            )
        )

    def report_value(
        self,
        value: ValueFacts,
        code: Code,
        message: str,
        defined: ValueFacts | None = None,
        *,
        hint: str | None = None,
    ) -> None:
        """Add a diagnostic of a value, with a note of its definition, or of another's."""
        note = defined_note(value if defined is None else defined)
        self.report(code, message, f"%{value.name}", notes=(note,), hint=hint)

    def check_identifier(
        self, what: str, name: str, sigil: str = "", path: LinePath | None = None
    ) -> None:
        """Report a name that is not an identifier; ``what`` says what it names."""
        if not wir.is_identifier(name):
            message = f"{what} {name!r} is not an identifier"
            self.report(Code.INVALID_IDENTIFIER, message, f"{sigil}{name}", path=path)

    def expression_symbols(self, expr: wir.Expr) -> tuple[str, ...]:
        """Return the symbols of an expression; report its fault, if it has one."""
        if not isinstance(expr, wir.Operation):
            return (expr.name,) if isinstance(expr, wir.Symbol) else ()
        facts = self.layouts.expressions.of(expr)
        if facts.fault is not None:
            self.report_fault(facts.fault)
        return facts.symbols

    def report_fault(self, fault: Fault) -> None:
        """Add a diagnostic for a fault of an expression or type, where the walk is."""
        self.report(fault.code, fault.message, fault.subject, hint=fault.hint)


def defined_note(value: ValueFacts) -> Note:
    """Return the note that shows where a value is defined."""
    return Note(message=f"%{value.name} is defined here", path=value.defined_at())


def dropped_note(value: ValueFacts) -> Note:
    """Return the note that shows where a value was dropped."""
    return Note(
        message=f"%{value.name} was dropped here", path=(*value.scope.path, value.dropped)
    )
