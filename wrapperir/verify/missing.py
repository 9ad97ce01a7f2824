"""What to say of a name or symbol that is not there: undefined, dropped or elsewhere."""

from collections.abc import Iterator

from wrapperir.analysis.arithmetic.interval import UNBOUNDED
from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.ir.effects import definitions
from wrapperir.ir.line import (
    BodyLine,
    ConditionalLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    SymbolKind,
    WhileLoopLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import OpaqueType, TensorType
from wrapperir.verify.expressions import SymbolFacts
from wrapperir.verify.layouts import TypeFacts
from wrapperir.verify.state import (
    Later,
    Role,
    State,
    Storage,
    Value,
    defined_note,
    dropped_note,
)


def report_unusable(state: State, name: str, value: Value | None) -> None:
    """Report that a name has no live value here: ``value`` is what it once had."""
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


def _later_definitions(state: State) -> Later:
    """Return where each name is first defined; scanned once, when something is missing."""
    if state.definitions is None:
        state.definitions = _scan(state.program)
    return state.definitions


def _scan(program: Program) -> Later:
    later = Later({}, {})
    for index, symbol in enumerate(program.symbols):
        later.symbols.setdefault(symbol.symbol, ("symbols", index))
    stack: list[tuple[LinePath, tuple[BodyLine, ...]]] = [(("lines",), program.lines)]
    while stack:
        path, lines = stack.pop()
        for index, line in enumerate(lines):
            place = (*path, index)
            for name, _ in definitions(line):
                later.values.setdefault(name, place)
            if isinstance(line, SymbolDefinitionLine):
                later.symbols.setdefault(line.symbol, place)
            stack.extend(_nested(line, place))
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
