"""Definitions and uses of values and symbols, and reports of missing ones."""

from wrapperir import ir as wir
from wrapperir.analysis.arithmetic import UNBOUNDED
from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.line_effects import LineEffects
from wrapperir.verify.layouts import SymbolFacts, TypeFacts
from wrapperir.verify.state import (
    CONSTANT,
    OWNED,
    Role,
    State,
    StorageFacts,
    ValueFacts,
    dropped_note,
)


def define_result(
    state: State, name: str, type: wir.ValueType, storage: StorageFacts
) -> ValueFacts:
    """Define a result, whose type may mention symbols that the following lines define."""
    facts = state.layouts.of(type)
    for symbol in facts.symbols:
        if symbol not in state.symbols:
            state.scope.awaited.setdefault(symbol, state.place())
    value = define(state, name, type, Role.OWNED, storage)
    if name in state.resources and isinstance(type, wir.PoolType | wir.EventType):
        report_resource(state, value, "a result")
    return value


def report_resource(state: State, value: ValueFacts, what: str) -> None:
    """Report a pool or event in a place where none may be, and poison the value."""
    is_pool = isinstance(value.type, wir.PoolType)
    state.report_value(
        value,
        Code.MISPLACED_RESOURCE,
        f"{'the pool' if is_pool else 'the event'} %{value.name} cannot be {what}",
        hint="place a buffer in it and use that"
        if is_pool
        else "wait for it with `wait_event`",
    )
    value.poison()


def report_awaited(state: State) -> None:
    """Report symbols of the types of results that the following lines did not define."""
    awaited = state.scope.awaited
    missing = [item for item in awaited.items() if item[0] not in state.symbols]
    awaited.clear()
    for symbol, place in missing:
        here, state.here = state.here, place
        report_unknown_symbol(state, symbol)
        state.here = here


def define(
    state: State,
    name: str,
    type: wir.ValueType,
    role: Role,
    storage: StorageFacts,
    facts: TypeFacts | None = None,
) -> ValueFacts:
    """Define a value where the walk is, and check its name and its type.

    With ``facts``, the type is checked later.
    """
    if facts is None:
        facts = state.layouts.known.get(id(type)) or state.layouts.examine(type)
    if facts.symbols or facts.faults:
        check_type(state, facts)
    scope = state.scope
    if not isinstance(type, wir.TensorType):
        role = _role_of(state, name, type, role)
    here = state.here
    value = ValueFacts(
        name, type, facts, role, scope, scope.index if here is None else here, storage
    )
    if name in state.values or not wir.is_identifier(name):
        _enter_anyway(state, value)
        return value
    state.values[name] = value
    if role is OWNED:
        scope.owned[name] = value
    return value


def _role_of(state: State, name: str, type: wir.ValueType, role: Role) -> Role:
    """Return the role of a value that is not a tensor."""
    if isinstance(type, wir.PoolType | wir.EventType):
        state.resources.add(name)
    if role is Role.OWNED and isinstance(type, wir.ScalarType | wir.EventType):
        return Role.SCALAR
    return role


def _enter_anyway(state: State, value: ValueFacts) -> None:
    first = state.values.get(value.name)
    value.live = False  # first: the value does not count among the names of a placement
    value.poison()
    if first is None:
        state.report(
            Code.INVALID_IDENTIFIER,
            f"{value.name!r} is not an identifier",
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


def use(state: State, name: str) -> ValueFacts | None:
    """Return the live value of a name; report a name without one and return ``None``."""
    value = state.values.get(name)
    if (
        value is not None
        and value.live
        and (value.scope is state.scope or value.role is CONSTANT)
    ):
        return value
    report_unusable(state, name, value)
    return None


def use_tensor(state: State, name: str) -> ValueFacts | None:
    """Return the live tensor of a name, as :func:`use` does."""
    value = use(state, name)
    if value is not None and not isinstance(value.type, wir.TensorType):
        report_no_tensor(state, value)
        return None
    return value


def report_no_tensor(state: State, value: ValueFacts) -> None:
    """Report a value that is not a tensor where a tensor is needed."""
    state.report_value(value, Code.NOT_A_TENSOR, f"%{value.name} is not a tensor")


def check_type(state: State, facts: TypeFacts) -> None:
    """Report the first fault of a type, once, and its symbols that are not in scope."""
    if facts.faults and not facts.reported:
        facts.reported = True
        state.report_fault(facts.faults[0])
    awaited = state.scope.awaited
    for name in facts.symbols:
        if name not in state.symbols and name not in awaited:
            report_unknown_symbol(state, name)


def use_expression(state: State, expr: wir.Expr) -> None:
    """Report the fault of an expression and its symbols that are not in scope."""
    kind = expr.__class__
    if kind is int or kind is float or kind is bool:
        return
    for name in state.expression_symbols(expr):
        if name not in state.symbols:
            report_unknown_symbol(state, name)


def report_unusable(state: State, name: str, value: ValueFacts | None) -> None:
    """Report a name without a live value; ``value`` is the one that it had, if any."""
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
            hint="use it before, or keep a view of it"
            if isinstance(value.type, wir.TensorType)
            else "use it before, or drop it later",
        )


def _report_undefined(state: State, name: str) -> None:
    place = _first_definitions(state)[0].get(name)
    if place is None:
        state.report(Code.UNDEFINED_NAME, f"nothing defines %{name}", f"%{name}")
    else:
        state.report(
            Code.USE_BEFORE_DEFINITION,
            f"%{name} is used before it is defined",
            f"%{name}",
            notes=(Note(message=f"%{name} is defined here", path=place),),
        )
    state.values[name] = ValueFacts(
        name,
        wir.OpaqueType(),
        TypeFacts(),
        Role.SCALAR,
        state.scope,
        state.place(),
        StorageFacts(),
        live=False,
        poisoned=True,
    )


def _report_other_scope(state: State, value: ValueFacts) -> None:
    around = value.scope.path[:-1]
    if state.scope.path[: len(around)] == around:
        state.report_value(
            value,
            Code.OUTER_NAME,
            f"%{value.name} belongs to the program around this block",
            hint="pass it as an operand and use the block's parameter",
        )
    else:
        state.report_value(
            value,
            Code.UNDEFINED_NAME,
            f"%{value.name} belongs to another block",
            hint="return it from that block",
        )


def report_unknown_symbol(state: State, name: str) -> None:
    """Report a symbol that is not in scope."""
    ended = state.ended_symbols.get(name)
    later = _first_definitions(state)[1].get(name)
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
        wir.SymbolKind.INT, UNBOUNDED, None, state.place(), poisoned=True
    )


def _first_definitions(state: State) -> tuple[dict[str, LinePath], dict[str, LinePath]]:
    """Return the place of the first definition of each value, and of each symbol.

    The program is scanned at the first call.
    """
    if state.definitions is None:
        values: dict[str, LinePath] = {}
        symbols: dict[str, LinePath] = {}
        for index, symbol in enumerate(state.program.symbols):
            symbols.setdefault(symbol.symbol, ("symbols", index))
        effects = LineEffects(None)
        for line, place in walk_places(state.program.lines):
            found = effects.visit(line)
            for made in found.definitions:
                values.setdefault(made.name, place)
            if found.symbol is not None:
                symbols.setdefault(found.symbol, place)
        state.definitions = values, symbols
    return state.definitions
