"""Uses of tensors that a collective which was not waited for may still read or write."""

from collections.abc import Iterable, Iterator

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Note
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects
from wrapperir.verify.accesses import intersect, runs_of
from wrapperir.verify.state import StartedCollective, State, ValueFacts


class FlightChecks:
    """Checks lines against the collectives that their block has in flight."""

    def __init__(self, program: wir.Program) -> None:
        """Take the program, whose kernels say what calls access."""
        self._effects = LineEffects.of_program(program)

    def check(self, state: State, line: wir.BodyLine) -> None:
        """Report conflicts of a line with collectives in flight, the first use of each."""
        effects = self._effects.visit(line)
        for name, flight in state.scope.flights.items():
            if flight.waited is None and effects.completes != name:
                self._check_one(state, effects, flight)

    def _check_one(self, state: State, effects: Effects, flight: StartedCollective) -> None:
        names = {value.name for value in (*flight.reads, *flight.writes)}
        if effects.drops is not None and effects.drops in names:
            dropped = state.values[effects.drops]
            if dropped.live:
                _report(state, flight, dropped, Code.DROPPED_IN_FLIGHT, "is dropped")
                dropped.poison()
            return
        for name, writes in () if flight.reported else self._accesses(effects):
            value = state.values.get(name)
            if value is None or not value.live:
                continue
            if any(_overlap(value, other) for other in flight.writes):
                _report(state, flight, value, Code.USED_BEFORE_WAIT, "is used")
            elif writes and any(_overlap(value, other) for other in flight.reads):
                _report(state, flight, value, Code.WRITTEN_IN_FLIGHT, "is written")
            else:
                continue
            flight.reported = True
            return

    def _accesses(self, effects: Effects) -> Iterator[tuple[str, bool]]:
        """Yield the names that a line certainly accesses, and whether it writes them.

        Of its blocks, these are the accesses of their lines to parameters.
        """
        if not effects.blocks:
            for access in effects.accesses:
                yield access.name, access.writes
        for nested in effects.blocks:
            outer = {
                parameter.name: operand.name
                for parameter, operand in zip(
                    nested.block.parameters, nested.operands, strict=False
                )
                if isinstance(operand, wir.BufferRef)
            }
            for line in nested.block.lines:
                for name, writes in self._accesses(self._effects.visit(line)):
                    if name in outer:
                        yield outer[name], writes


def report_unwaited(state: State, flights: Iterable[StartedCollective]) -> None:
    """Report the collectives of a block that ends before they were waited for."""
    for flight in flights:
        if flight.waited is None:
            state.in_flight -= 1
            name = flight.line.result
            state.report(
                Code.NEVER_WAITED,
                f"nothing waits for the collective %{name}",
                f"%{name}",
                path=flight.started,
                hint=f"write `wait_collective %{name}` before its tensors are used",
            )


def _overlap(value: ValueFacts, other: ValueFacts) -> bool:
    """Say whether two tensors certainly share bytes."""
    if value is other:
        return not value.facts.empty
    if value.storage is not other.storage or not value.storage.certain:
        return False
    if value.type == other.type:
        return not value.facts.empty
    mine, others = runs_of(value), runs_of(other)
    return bool(mine and others) and intersect(mine or (), others or ())


def _report(
    state: State, flight: StartedCollective, value: ValueFacts, code: Code, verb: str
) -> None:
    work = flight.line.result
    state.report(
        code,
        f"%{value.name} {verb} before the wait for %{work}, a collective that may still "
        f"{'write' if code is Code.USED_BEFORE_WAIT else 'use'} it",
        f"%{value.name}",
        notes=(Note(message=f"%{work} is started here", path=flight.started),),
        hint=f"do this after `wait_collective %{work}`",
    )
