"""The verifier's entry, its walk over a program, and the check of each line kind."""

# mypy checks that functions in a class have the types of the base's methods, pyright not.
# pyright: reportAssignmentType=false

from collections.abc import Callable, Sequence
from functools import cached_property

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.well_formed import MalformedPart, malformed_parts
from wrapperir.verify import (
    calls,
    collectives,
    control_flow,
    kernels,
    lifetimes,
    multi_kernels,
    operators,
    pools,
    symbols,
)
from wrapperir.verify.flights import FlightChecks, report_unwaited
from wrapperir.verify.layouts import TypeFacts
from wrapperir.verify.names import check_type, define, report_awaited, report_resource, use
from wrapperir.verify.origins import check_origins
from wrapperir.verify.races import check_races
from wrapperir.verify.state import Role, State, StorageFacts, ValueFacts


class LineChecks(State, wir.LineVisitor[None]):
    """The checks of lines as methods of the walk's state.

    A type checker sees that each line kind has one.
    """

    @cached_property
    def flight_checks(self) -> FlightChecks:
        """The checks of lines while collectives are in flight."""
        return FlightChecks(self.program)

    visit_kernel_definition = kernels.check_kernel_definition
    visit_multi_kernel = multi_kernels.check_multi_kernel
    visit_allocate = lifetimes.check_allocate
    visit_allocate_pool = pools.check_allocate_pool
    visit_place = pools.check_place
    visit_free = lifetimes.check_free
    visit_reuse = lifetimes.check_reuse
    visit_reinterpret = lifetimes.check_reinterpret
    visit_kernel_call = calls.check_kernel_call
    visit_extern_kernel = operators.check_extern_kernel
    visit_multi_output = operators.check_multi_output
    visit_record_event = symbols.check_record_event
    visit_wait_event = symbols.check_wait_event
    visit_collective = collectives.check_collective
    visit_wait_collective = collectives.check_wait_collective
    visit_symbol_definition = symbols.check_symbol_definition
    visit_assert_size_stride = symbols.check_assert_size_stride
    visit_assert_alignment = symbols.check_assert_alignment
    visit_assert_scalar = symbols.check_assert_scalar
    visit_assert_not_nan = symbols.check_assert_not_nan
    visit_conditional = control_flow.check_conditional
    visit_while_loop = control_flow.check_while_loop
    visit_subgraph_call = control_flow.check_subgraph_call
    visit_graph_region = control_flow.check_graph_region

    def visit_comment(self, line: wir.CommentLine) -> None:
        """Accept any remark."""

    def walk(self, lines: Sequence[wir.BodyLine]) -> None:
        """Check the lines of the current scope, in order."""
        scope, effects = self.scope, LineEffects(None)
        for index, line in enumerate(lines):
            if scope.awaited and not effects.visit(line).leaves_types_open:
                report_awaited(self)
            scope.index = index
            if scope.flights and self.in_flight:
                self.flight_checks.check(self, line)
            _METHODS[line.__class__](self, line)
        report_awaited(self)
        report_unwaited(self, scope.flights.values())


_METHODS: dict[type[wir.Line], Callable[[LineChecks, wir.AnyLine], None]] = {
    kind: getattr(LineChecks, f"visit_{wir.keyword(kind)}") for kind in wir.LINES
}
"""The method for each line kind, for dispatch without a search."""


_SECTIONS = """
definitions name inputs symbols constants groups on_true on_false condition body parameters
lines results grid configs entry metadata sizes choices selection outputs places origins
"""
_ORDER = {name: rank for rank, name in enumerate(_SECTIONS.split())}


def verify(program: wir.Program, *, is_well_formed: bool = False) -> tuple[Diagnostic, ...]:
    """Return every fault that is certain from the program alone, sorted by place.

    The rules are those of ``docs/reference/semantics.md``; each diagnostic's code has an
    entry in ``docs/reference/diagnostics/verify.md``.  Nothing is raised, however
    malformed the program is in memory; of a malformed program only that is reported.
    With ``is_well_formed``, the caller knows that every part is what its class declares,
    as after passes over a verified program.  The time is linear in the program.
    """
    malformed = () if is_well_formed else malformed_parts(program)
    if malformed:
        found = [_malformed(part) for part in malformed]
    else:
        state = LineChecks(program)
        _check_all(state)
        found = state.diagnostics
    return tuple(sorted(found, key=_sort_key))


def _sort_key(diagnostic: Diagnostic) -> tuple[int, ...]:
    """Return the key that sorts diagnostics by place, those without a place first."""
    path = diagnostic.path or ()
    return tuple(part if isinstance(part, int) else _ORDER.get(part, -1) for part in path)


def _malformed(part: MalformedPart) -> Diagnostic:
    is_line = issubclass(part.owner, wir.Line)
    what = wir.keyword(part.owner) if is_line else part.owner.__name__.lower()
    field = part.field if len(part.field) <= 60 else f"{part.field[:60]}..."
    return Diagnostic(
        Code.MALFORMED,
        f"malformed {what}: {field or 'it'} is {part.found}, not {part.expected}",
        path=part.path,
        hint="build programs of the types that their classes declare",
    )


def _check_all(state: LineChecks) -> None:
    program = state.program
    state.here = ()
    state.check_identifier("the program's name", program.name, "@")
    for line in state.each("definitions", program.definitions):
        state.visit(line)
    for item in state.each("inputs", program.inputs):
        _define_input(state, item)
    for symbol in state.each("symbols", program.symbols):
        state.visit_symbol_definition(symbol)
    for item in state.each("inputs", program.inputs):
        _check_input(state, item)
    for constant in state.each("constants", program.constants):
        _define_lent(state, constant, Role.CONSTANT)
    for group in state.each("groups", program.groups):
        collectives.check_group(state, group)
    state.walk(program.lines)
    returned: set[str] = set()
    for output in state.each("outputs", program.outputs):
        _check_output(state, output, returned)
    lifetimes.check_leaks(state, state.scope, returned)
    if state.streams:
        check_races(state)
    check_origins(state)


def _define_input(state: State, item: wir.Input) -> None:
    """Define an input; its type is checked when the symbols are known."""
    if item.donated and isinstance(item.type, wir.TensorType) and not item.mutated:
        storage = StorageFacts(extent=item.type, exact=True)
        value = define(state, item.name, item.type, Role.OWNED, storage, TypeFacts())
        storage.donated = None if wir.is_dense(item.type) else value
        return
    role = Role.SCALAR if isinstance(item.type, wir.ScalarType) else Role.INPUT
    value = _define_lent(state, item, role, TypeFacts())
    if item.donated:
        why = "mutated, which the caller sees" if item.mutated else "not a tensor"
        state.report_value(
            value,
            Code.INVALID_DONATION,
            f"%{item.name} cannot be donated: it is {why}",
            hint="a donated input is a tensor that the caller does not use again",
        )
    if isinstance(item.type, wir.PoolType | wir.EventType):
        report_resource(state, value, "an input")


def _check_input(state: State, item: wir.Input) -> None:
    facts = state.layouts.of(item.type)
    check_type(state, facts)
    value = state.values.get(item.name)
    if value is not None and value.type is item.type:
        value.facts = facts


def _define_lent(
    state: State,
    item: wir.Input | wir.ConstantInput,
    role: Role,
    facts: TypeFacts | None = None,
) -> ValueFacts:
    storage = StorageFacts()
    value = storage.lender = define(state, item.name, item.type, role, storage, facts)
    storage.read_only = None if item.mutated else value
    return value


def _check_output(state: State, output: wir.Argument, returned: set[str]) -> None:
    if not isinstance(output, wir.BufferRef):
        control_flow.check_plain_result(state, output)
        return
    value = use(state, output.name)
    if value is None:
        return
    returned.add(value.name)
    if isinstance(value.type, wir.PoolType | wir.EventType):
        report_resource(state, value, "an output")
        return
    lender = value.storage.lender
    if lender is not None and lender.role is Role.PROGRAM_WORKSPACE:
        control_flow.report_returned_workspace(state, value, lender)
