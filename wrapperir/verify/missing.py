"""Reports of names and symbols that are undefined, dropped, or of another block."""

from wrapperir.analysis.arithmetic.interval import UNBOUNDED
from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.ir import OpaqueType, Program, SymbolKind, TensorType
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.effects import LineEffects
from wrapperir.verify.expressions import SymbolFacts
from wrapperir.verify.layouts import TypeFacts
from wrapperir.verify.state import (
    FirstDefinitions,
    Role,
    State,
    StorageFacts,
    ValueFacts,
    defined_note,
    dropped_note,
)


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
            if isinstance(value.type, TensorType)
            else "use it before, or drop it later",
        )


def _report_undefined(state: State, name: str) -> None:
    place = _later_definitions(state).values.get(name)
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
        OpaqueType(),
        TypeFacts(),
        Role.SCALAR,
        state.scope,
        state.place(),
        StorageFacts(),
        live=False,
        poisoned=True,
    )


def _report_other_scope(state: State, value: ValueFacts) -> None:
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


def report_unknown_symbol(state: State, name: str) -> None:
    """Report a symbol that is not in scope."""
    ended = state.ended_symbols.get(name)
    later = _later_definitions(state).symbols.get(name)
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


def _later_definitions(state: State) -> FirstDefinitions:
    """Return where each name is first defined; the program is scanned at the first call."""
    if state.definitions is None:
        state.definitions = _scan(state.program)
    return state.definitions


def _scan(program: Program) -> FirstDefinitions:
    later = FirstDefinitions({}, {})
    for index, symbol in enumerate(program.symbols):
        later.symbols.setdefault(symbol.symbol, ("symbols", index))
    effects = LineEffects(None)
    for line, place in walk_places(program.lines):
        found = effects.visit(line)
        for made in found.definitions:
            later.values.setdefault(made.name, place)
        if found.symbol is not None:
            later.symbols.setdefault(found.symbol, place)
    return later
