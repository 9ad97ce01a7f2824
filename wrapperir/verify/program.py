"""The verifier's entry, and its walk over the sections of a program."""

from wrapperir.diagnostics import Code, Diagnostic
from wrapperir.ir import (
    Argument,
    BufferRef,
    ConstantInput,
    EventType,
    Input,
    Line,
    PoolType,
    Program,
    ScalarType,
    is_identifier,
    keyword,
)
from wrapperir.ir.well_formed import MalformedPart, malformed_parts
from wrapperir.verify.layouts import TypeFacts
from wrapperir.verify.lifetimes import check_leaks
from wrapperir.verify.line_checks import LineChecks
from wrapperir.verify.names import check_type, define, report_resource, use
from wrapperir.verify.races import check_races
from wrapperir.verify.results import check_plain_result, report_returned_workspace
from wrapperir.verify.state import Role, State, StorageFacts

_ORDER = {
    name: rank
    for rank, name in enumerate(
        (
            "definitions",
            "name",
            "inputs",
            "symbols",
            "constants",
            "on_true",
            "on_false",
            "condition",
            "body",
            "parameters",
            "lines",
            "results",
            "grid",
            "configs",
            "entry",
            "metadata",
            "sizes",
            "choices",
            "selection",
            "outputs",
        )
    )
}


def verify(program: Program) -> tuple[Diagnostic, ...]:
    """Return every fault that is certain from the program alone, sorted by place.

    The rules are those of ``docs/reference/semantics.md``; each diagnostic's code has an
    entry in ``docs/reference/diagnostics/verify.md``.  Nothing is raised, however
    malformed the program is in memory; of a malformed program only that is reported.
    The time is linear in the program.
    """
    malformed = malformed_parts(program)
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
    is_line = issubclass(part.owner, Line)
    what = keyword(part.owner) if is_line else part.owner.__name__.lower()
    field = part.field if len(part.field) <= 60 else f"{part.field[:60]}..."
    return Diagnostic(
        Code.MALFORMED,
        f"malformed {what}: {field or 'it'} is {part.found}, not {part.expected}",
        path=part.path,
        hint="build programs of the types that their classes declare",
    )


def _check_all(state: LineChecks) -> None:
    program = state.program
    if not is_identifier(program.name):
        state.here = ()
        state.report(
            Code.INVALID_IDENTIFIER,
            f"the program's name {program.name!r} is not an identifier",
            f"@{program.name}",
        )
    for line in state.each("definitions", program.definitions):
        state.visit(line)
    for item in state.each("inputs", program.inputs):
        _define_input(state, item)
    for symbol in state.each("symbols", program.symbols):
        state.visit_symbol_definition(symbol)
    for item in state.each("inputs", program.inputs):
        _check_input(state, item)
    for constant in state.each("constants", program.constants):
        _define_constant(state, constant)
    state.walk(program.lines)
    returned: set[str] = set()
    for output in state.each("outputs", program.outputs):
        _check_output(state, output, returned)
    check_leaks(state, state.scope, returned)
    if state.streams:
        check_races(state)


def _define_input(state: State, item: Input) -> None:
    """Define an input; its type is checked when the symbols are known."""
    role = Role.SCALAR if isinstance(item.type, ScalarType) else Role.INPUT
    storage = StorageFacts()
    value = define(state, item.name, item.type, role, storage, TypeFacts())
    storage.lender = value
    storage.read_only = None if item.mutated else value
    if isinstance(item.type, PoolType | EventType):
        report_resource(state, value, "an input")


def _check_input(state: State, item: Input) -> None:
    facts = state.layouts.of(item.type)
    check_type(state, facts)
    value = state.values.get(item.name)
    if value is not None and value.type is item.type:
        value.facts = facts


def _define_constant(state: State, item: ConstantInput) -> None:
    storage = StorageFacts()
    value = define(state, item.name, item.type, Role.CONSTANT, storage)
    storage.lender = value
    storage.read_only = None if item.mutated else value


def _check_output(state: State, output: Argument, returned: set[str]) -> None:
    if not isinstance(output, BufferRef):
        check_plain_result(state, output)
        return
    value = use(state, output.name)
    if value is None:
        return
    returned.add(value.name)
    if isinstance(value.type, PoolType | EventType):
        report_resource(state, value, "an output")
        return
    lender = value.storage.lender
    if lender is not None and lender.role is Role.PROGRAM_WORKSPACE:
        report_returned_workspace(state, value, lender)
