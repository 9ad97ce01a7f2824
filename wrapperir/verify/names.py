"""Definitions and uses of values and symbols; the words for a name that is not there."""

from collections.abc import Iterator
from contextlib import suppress

from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.ir.expr import Expr, Operation, Symbol
from wrapperir.ir.identifier import is_identifier
from wrapperir.ir.line import (
    BodyLine,
    ConditionalLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    SymbolKind,
    WhileLoopLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import OpaqueType, ScalarType, TensorType, ValueType
from wrapperir.ir.uses import definitions
from wrapperir.verify.expressions import SymbolFacts
from wrapperir.verify.interval import UNBOUNDED
from wrapperir.verify.layouts import TypeFacts
from wrapperir.verify.malformed import MalformedError, expect
from wrapperir.verify.state import (
    Later,
    Role,
    State,
    Storage,
    Value,
    defined_note,
    dropped_note,
)


def define_result(state: State, name: str, type: ValueType, storage: Storage) -> Value:
    """Define a result, whose type may mention symbols that the lines after define."""
    facts = state.layouts.of(type)
    for symbol in facts.symbols:
        if symbol not in state.symbols:
            state.scope.awaited.setdefault(symbol, state.place())
    return define(state, name, type, Role.OWNED, storage)


def report_awaited(state: State) -> None:
    """Report the symbols of results' types that the lines after did not define."""
    awaited = state.scope.awaited
    missing = [item for item in awaited.items() if item[0] not in state.symbols]
    awaited.clear()
    for symbol, place in missing:
        here, state.here = state.here, place
        _report_unknown_symbol(state, symbol)
        state.here = here


def define(state: State, name: str, type: ValueType, role: Role, storage: Storage) -> Value:
    """Define a value where the walk is, and check its type."""
    facts = state.layouts.of(type)
    if facts.symbols or facts.faults:
        check_type(state, facts)
    scope = state.scope
    if role is Role.OWNED and type.__class__ is ScalarType:
        role = Role.SCALAR
    here = state.here
    value = Value(
        name, type, facts, role, scope, scope.index if here is None else here, storage
    )
    enter(state, value)
    return value


def enter(state: State, value: Value) -> None:
    """Add a value to the names, unless its name is taken or is none."""
    name = value.name
    if name in state.values or not is_identifier(name):
        _enter_anyway(state, value)
        return
    state.values[name] = value
    if value.role is Role.OWNED:
        value.scope.owned[name] = value


def _enter_anyway(state: State, value: Value) -> None:
    first = state.values.get(value.name)
    value.live = False
    value.poisoned = True
    if first is None:
        state.report(
            Code.INVALID_IDENTIFIER,
            f"{value.name!r} is no identifier",
            f"%{value.name}",
            hint="use at most 255 ASCII letters, digits and underscores, no digit first",
        )
        state.values[value.name] = value
    elif not first.poisoned:
        state.report(
            Code.REDEFINITION,
            f"%{value.name} is defined twice",
            f"%{value.name}",
            notes=(Note(message="first defined here", path=first.defined_at()),),
        )
        first.poison()


def use(state: State, name: str) -> Value | None:
    """Return the live value of a name; ``None``, and a diagnostic, if there is none."""
    value = state.values.get(name)
    if (
        value is not None
        and value.live
        and (value.scope is state.scope or value.role is Role.CONSTANT)
    ):
        return value
    _report_unusable(state, name, value)
    return None


def use_tensor(state: State, name: str) -> Value | None:
    """Return the live tensor of a name, as :func:`use` does."""
    value = use(state, name)
    if value is not None and value.type.__class__ is not TensorType:
        report_no_tensor(state, value)
        return None
    return value


def report_no_tensor(state: State, value: Value) -> None:
    """Report that a tensor is needed where ``value`` is."""
    state.report(
        Code.NOT_A_TENSOR,
        f"%{value.name} is not a tensor",
        f"%{value.name}",
        notes=(defined_note(value),),
    )


def _report_unusable(state: State, name: str, value: Value | None) -> None:
    if value is None:
        _report_undefined(state, name)
    elif value.poisoned or name in state.scope.reported:
        return
    elif value.scope is not state.scope:
        state.scope.reported.add(name)
        _report_other_scope(state, value)
    else:
        value.poison()
        state.report(
            Code.USE_AFTER_FREE,
            f"%{name} is used after its name was dropped",
            f"%{name}",
            notes=(dropped_note(value),),
            hint="use it before, or keep a view of it",
        )


def _report_undefined(state: State, name: str) -> None:
    expect(name, str, "a name")
    place = later_definitions(state).values.get(name)
    if place is None:
        state.report(Code.UNDEFINED_NAME, f"nothing defines %{name}", f"%{name}")
    else:
        state.report(
            Code.USE_BEFORE_DEFINITION,
            f"%{name} is used before it is defined",
            f"%{name}",
            notes=(Note(message=f"%{name} is defined here", path=place),),
        )
    state.values[name] = Value(
        name,
        OpaqueType(),
        TypeFacts(),
        Role.SCALAR,
        state.scope,
        state.place(),
        Storage(),
        live=False,
        poisoned=True,
    )


def _report_other_scope(state: State, value: Value) -> None:
    enclosing = _is_prefix(value.scope.path[:-1], state.scope.path)
    if enclosing:
        state.report(
            Code.OUTER_NAME,
            f"%{value.name} belongs to the program around this block",
            f"%{value.name}",
            notes=(defined_note(value),),
            hint="pass it as an operand and use the block's parameter",
        )
    else:
        state.report(
            Code.UNDEFINED_NAME,
            f"%{value.name} belongs to another block",
            f"%{value.name}",
            notes=(defined_note(value),),
            hint="return it from that block",
        )


def _is_prefix(prefix: LinePath, path: LinePath) -> bool:
    return path[: len(prefix)] == prefix


def check_type(state: State, facts: TypeFacts) -> None:
    """Report the faults of a type, once, and the symbols it uses that are not there."""
    if facts.faults and not facts.reported:
        facts.reported = True
        state.report_fault(facts.faults[0])
    awaited = state.scope.awaited
    check_symbols(state, tuple(name for name in facts.symbols if name not in awaited))


def check_symbols(state: State, names: tuple[str, ...]) -> None:
    """Report the symbols that are not in scope."""
    symbols = state.symbols
    for name in names:
        if name not in symbols:
            _report_unknown_symbol(state, name)


def use_expression(state: State, expr: Expr) -> None:
    """Report what is wrong with an expression."""
    kind = expr.__class__
    if kind is int or kind is float:
        return
    if isinstance(expr, Symbol):
        if expr.name not in state.symbols:
            _report_unknown_symbol(state, expr.name)
    elif isinstance(expr, Operation):
        facts = state.layouts.expressions.of(expr)
        if facts.fault is not None:
            state.report_fault(facts.fault)
        check_symbols(state, facts.symbols)
    else:
        raise MalformedError(f"{kind.__name__} in place of an expression")


def _report_unknown_symbol(state: State, name: str) -> None:
    expect(name, str, "the name of a symbol")
    ended = state.ended_symbols.get(name)
    later = later_definitions(state).symbols.get(name)
    if ended is not None:
        state.report(
            Code.UNKNOWN_SYMBOL,
            f"the symbol {name} belongs to another block",
            name,
            notes=(Note(message=f"{name} is defined here", path=ended.defined),),
        )
    elif later is not None:
        state.report(
            Code.SYMBOL_BEFORE_DEFINITION,
            f"the symbol {name} is used before it is defined",
            name,
            notes=(Note(message=f"{name} is defined here", path=later),),
        )
    else:
        state.report(Code.UNKNOWN_SYMBOL, f"nothing defines the symbol {name}", name)
    state.symbols[name] = SymbolFacts(
        SymbolKind.INT, UNBOUNDED, None, state.place(), poisoned=True
    )


def later_definitions(state: State) -> Later:
    """Return where each name is first defined; scanned once, when something is missing."""
    if state.definitions is None:
        state.definitions = _scan(state.program)
    return state.definitions


def _scan(program: Program) -> Later:
    later = Later({}, {})
    for index, symbol in enumerate(program.symbols):
        with suppress(TypeError, AttributeError):  # malformed; the walk reports it
            later.symbols.setdefault(symbol.symbol, ("symbols", index))
    stack: list[tuple[LinePath, tuple[BodyLine, ...]]] = [(("lines",), program.lines)]
    while stack:
        path, lines = stack.pop()
        for index, line in enumerate(lines):
            place = (*path, index)
            try:
                for name, _ in definitions(line):
                    later.values.setdefault(name, place)
                if isinstance(line, SymbolDefinitionLine):
                    later.symbols.setdefault(line.symbol, place)
                stack.extend(_nested(line, place))
            except (TypeError, AttributeError):
                continue  # a malformed line defines nothing; the walk reports it
    return later


def _nested(
    line: BodyLine, place: LinePath
) -> Iterator[tuple[LinePath, tuple[BodyLine, ...]]]:
    if isinstance(line, ConditionalLine):
        yield (*place, "on_true", "lines"), line.on_true.lines
        yield (*place, "on_false", "lines"), line.on_false.lines
    elif isinstance(line, WhileLoopLine):
        yield (*place, "condition", "lines"), line.condition.lines
        yield (*place, "body", "lines"), line.body.lines
    elif isinstance(line, SubgraphCallLine):
        yield (*place, "body", "lines"), line.body.lines
