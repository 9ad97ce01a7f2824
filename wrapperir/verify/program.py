"""The walk over a program: definitions, inputs, symbols, constants, lines, outputs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from wrapperir.diagnostics import Code, Diagnostic
from wrapperir.ir.identifier import is_identifier
from wrapperir.ir.line import Argument, BufferRef, DefinitionLine, SymbolDefinitionLine
from wrapperir.ir.program import ConstantInput, Input, Program
from wrapperir.ir.types import EventType, PoolType, ScalarType, TensorType
from wrapperir.verify.control_flow import check_plain_result, report_returned_workspace
from wrapperir.verify.layouts import TypeFacts
from wrapperir.verify.lifetimes import check_leaks
from wrapperir.verify.line_checks import LineChecks, check_provenance, report_malformed
from wrapperir.verify.malformed import expect
from wrapperir.verify.names import check_type, define, enter, report_resource, use
from wrapperir.verify.places import sort_key
from wrapperir.verify.races import check_races
from wrapperir.verify.state import Role, State, Storage, Value

T = TypeVar("T")


def verify(program: Program) -> tuple[Diagnostic, ...]:
    """Return every fault that is certain from the program alone, sorted by place.

    The rules are those of ``docs/reference/semantics.md``; each diagnostic's code has an
    entry in ``docs/reference/diagnostics/verify.md``.  Nothing is raised, however
    malformed the program is in memory.  The time is linear in the program.
    """
    state = State(program)
    checks = LineChecks(state)
    try:
        _check_all(state, checks)
    except Exception as error:  # the program's own fields are not what they should be
        state.here = ()
        report_malformed(state, program, error)
    return tuple(sorted(state.diagnostics, key=sort_key))


def _check_all(state: State, checks: LineChecks) -> None:
    program = state.program
    if not is_identifier(program.name):
        state.here = ()
        state.report(
            Code.INVALID_IDENTIFIER,
            f"the program's name {program.name!r} is no identifier",
            f"@{program.name}",
        )

    def check_definition(line: DefinitionLine) -> None:
        checks.by_kind[line.__class__](line)
        _check_provenance_of(line)

    def check_symbol(line: SymbolDefinitionLine) -> None:
        expect(line, SymbolDefinitionLine, "a symbol definition")
        checks.visit_symbol_definition(line)
        _check_provenance_of(line)

    _each(state, "definitions", program.definitions, check_definition)
    _each(state, "inputs", program.inputs, lambda item: _define_input(state, item))
    _each(state, "symbols", program.symbols, check_symbol)
    _each(state, "inputs", program.inputs, lambda item: _check_input(state, item))
    _each(state, "constants", program.constants, lambda item: _define_constant(state, item))
    state.here = None
    checks.walk(program.lines)
    returned: set[str] = set()
    _each(
        state,
        "outputs",
        program.outputs,
        lambda output: _check_output(state, output, returned),
    )
    check_leaks(state, state.scope, returned)
    if state.streams:
        check_races(state)


def _each(
    state: State, section: str, items: Sequence[T], check: Callable[[T], None]
) -> None:
    """Check each item of a section, each in its place."""
    for index, item in enumerate(items):
        state.here = (section, index)
        try:
            check(item)
        except Exception as error:  # a field is not what it should be
            report_malformed(state, item, error)


def _check_provenance_of(line: DefinitionLine | SymbolDefinitionLine) -> None:
    if line.provenance is not None:
        check_provenance(line.provenance)


def _define_input(state: State, item: Input) -> None:
    """Define an input; its type waits for the symbols, which are read from inputs."""
    role = Role.SCALAR if isinstance(item.type, ScalarType) else Role.INPUT
    storage = Storage()
    value = Value(
        item.name, item.type, TypeFacts(), role, state.scope, state.place(), storage
    )
    storage.lender = value
    storage.read_only = None if item.mutated else value
    enter(state, value)
    if isinstance(item.type, PoolType | EventType):
        report_resource(state, value, "an input")


def _check_input(state: State, item: Input) -> None:
    facts = state.layouts.of(item.type)
    check_type(state, facts)
    value = state.values.get(item.name)
    if value is not None and value.type is item.type:
        value.facts = facts


def _define_constant(state: State, item: ConstantInput) -> None:
    expect(item.type, TensorType, "a tensor type")
    expect(item.key, str, "a key")
    storage = Storage()
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
