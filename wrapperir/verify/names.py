"""Definitions and uses of values and symbols."""

from wrapperir.diagnostics import Code, Note
from wrapperir.ir import (
    EventType,
    Expr,
    Operation,
    PoolType,
    ScalarType,
    Symbol,
    TensorType,
    ValueType,
    is_identifier,
)
from wrapperir.verify.layouts import TypeFacts
from wrapperir.verify.missing import report_unknown_symbol, report_unusable
from wrapperir.verify.state import (
    CONSTANT,
    OWNED,
    Role,
    State,
    StorageFacts,
    ValueFacts,
    defined_note,
)


def define_result(
    state: State, name: str, type: ValueType, storage: StorageFacts
) -> ValueFacts:
    """Define a result, whose type may mention symbols that the following lines define."""
    facts = state.layouts.of(type)
    for symbol in facts.symbols:
        if symbol not in state.symbols:
            state.scope.awaited.setdefault(symbol, state.place())
    value = define(state, name, type, Role.OWNED, storage)
    if name in state.resources and isinstance(type, PoolType | EventType):
        report_resource(state, value, "a result")
    return value


def report_resource(state: State, value: ValueFacts, what: str) -> None:
    """Report a pool or event in a place where none may be, and poison the value."""
    is_pool = isinstance(value.type, PoolType)
    state.report(
        Code.MISPLACED_RESOURCE,
        f"{'the pool' if is_pool else 'the event'} %{value.name} cannot be {what}",
        f"%{value.name}",
        notes=(defined_note(value),),
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
    type: ValueType,
    role: Role,
    storage: StorageFacts,
    facts: TypeFacts | None = None,
) -> ValueFacts:
    """Define a value where the walk is, and check its name and its type.

    With ``facts``, the type is checked later.
    """
    if facts is None:
        facts = state.layouts.known.get(id(type)) or state.layouts.of(type)
    if facts.symbols or facts.faults:
        check_type(state, facts)
    scope = state.scope
    if not isinstance(type, TensorType):
        role = _role_of(state, name, type, role)
    here = state.here
    value = ValueFacts(
        name, type, facts, role, scope, scope.index if here is None else here, storage
    )
    if name in state.values or not is_identifier(name):
        _enter_anyway(state, value)
        return value
    state.values[name] = value
    if role is OWNED:
        scope.owned[name] = value
    return value


def _role_of(state: State, name: str, type: ValueType, role: Role) -> Role:
    """Return the role of a value that is not a tensor."""
    if isinstance(type, PoolType | EventType):
        state.resources.add(name)
    if role is Role.OWNED and isinstance(type, ScalarType | EventType):
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
    if value is not None and not isinstance(value.type, TensorType):
        report_no_tensor(state, value)
        return None
    return value


def report_no_tensor(state: State, value: ValueFacts) -> None:
    """Report a value that is not a tensor where a tensor is needed."""
    state.report(
        Code.NOT_A_TENSOR,
        f"%{value.name} is not a tensor",
        f"%{value.name}",
        notes=(defined_note(value),),
    )


def check_type(state: State, facts: TypeFacts) -> None:
    """Report the first fault of a type, once, and its symbols that are not in scope."""
    if facts.faults and not facts.reported:
        facts.reported = True
        state.report_fault(facts.faults[0])
    awaited = state.scope.awaited
    for name in facts.symbols:
        if name not in state.symbols and name not in awaited:
            report_unknown_symbol(state, name)


def use_expression(state: State, expr: Expr) -> None:
    """Report the fault of an expression and its symbols that are not in scope."""
    kind = expr.__class__
    if kind is int or kind is float or kind is bool:
        return
    if isinstance(expr, Symbol):
        if expr.name not in state.symbols:
            report_unknown_symbol(state, expr.name)
    elif isinstance(expr, Operation):
        facts = state.layouts.expressions.of(expr)
        if facts.fault is not None:
            state.report_fault(facts.fault)
        for name in facts.symbols:
            if name not in state.symbols:
                report_unknown_symbol(state, name)
