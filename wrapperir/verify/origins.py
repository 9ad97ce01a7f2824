"""The check that lines and origins refer to what the program lists.

All are warnings, as nothing that a program does depends on where its lines came from.
"""

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, LinePath, Note, Severity
from wrapperir.ir.blocks import walk_places
from wrapperir.verify.state import State


def check_origins(state: State) -> None:
    """Report names and indices that nothing listed has, each name once."""
    program = state.program
    listed: dict[str, int] = {}
    for index, origin in enumerate(program.origins):
        path = ("origins", index)
        first = listed.setdefault(origin.name, index)
        if first != index:
            _warn(
                state,
                Code.DUPLICATE_ORIGIN,
                f"two origins have the name {origin.name}",
                path,
                notes=(Note(message="the other is here", path=("origins", first)),),
                hint="give each node of the graph a name of its own",
            )
        _check_name(state, origin.name, path)
        _check_place(state, origin.place, len(program.places), path)
    for index, place in enumerate(program.places):
        _check_place(state, place.caller, index, ("places", index))
    _check_lines(state, listed)


def _check_name(state: State, name: str, path: LinePath) -> None:
    if not wir.is_origin(name):
        message = f"the name of an origin {name!r} is not made of identifiers"
        state.report(Code.INVALID_IDENTIFIER, message, name, path=path)


def _check_place(state: State, index: int | None, count: int, path: LinePath) -> None:
    if index is None or 0 <= index < count:
        return
    hint: str | None = "the place that calls another comes before it"
    if path[0] == "origins":
        hint = f"the places have the numbers from 0 to {count - 1}" if count else None
    _warn(state, Code.UNKNOWN_ORIGIN, f"there is no place {index} here", path, hint=hint)


def _check_lines(state: State, listed: dict[str, int]) -> None:
    program = state.program
    seen: set[int] = set()
    places: list[tuple[wir.Input | wir.Line, LinePath]] = [
        (line, (section, index))
        for section in ("inputs", "definitions", "symbols")
        for index, line in enumerate(getattr(program, section))
    ]
    known = set(listed)
    for line, path in (*places, *walk_places(program.lines)):
        provenance = line.provenance
        if provenance is None or id(provenance) in seen:
            continue
        seen.add(id(provenance))
        for name in provenance.origins:
            if name not in known:
                known.add(name)
                _check_name(state, name, path)
                _warn(
                    state,
                    Code.UNKNOWN_ORIGIN,
                    f"the program lists no origin {name}",
                    path,
                    hint=f"list `{name}:` in the section `origins` after the program",
                )
        for name in provenance.passes:
            state.check_identifier("the name of a pass", name, path=path)


def _warn(
    state: State,
    code: Code,
    message: str,
    path: LinePath,
    *,
    notes: tuple[Note, ...] = (),
    hint: str | None = None,
) -> None:
    state.report(
        code, message, path=path, notes=notes, hint=hint, severity=Severity.WARNING
    )
