"""Programs that the verifier accepts have no race when the interpreter runs them."""

from collections.abc import Sequence

from attrs import evolve
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import (
    BodyLine,
    ExternKernelLine,
    GraphRegionLine,
    Program,
    WaitEventLine,
)
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.testing.programs import programs
from wrapperir.verify import verify


def less_ordered(program: Program, data: st.DataObject) -> Program | None:
    """Return the program without a wait, or with a call on another stream.

    The line may be in a graph region.
    """
    regions = [
        i for i, line in enumerate(program.lines) if isinstance(line, GraphRegionLine)
    ]
    inside = data.draw(st.booleans())
    if regions and inside:
        index = data.draw(st.sampled_from(regions))
        region = program.lines[index]
        assert isinstance(region, GraphRegionLine)
        changed = _less_ordered_lines(region.body.lines, data)
        if changed is None:
            return None
        body = evolve(region.body, lines=changed)
        lines = list(program.lines)
        lines[index] = evolve(region, body=body)
        return evolve(program, lines=tuple(lines))
    changed = _less_ordered_lines(program.lines, data)
    return None if changed is None else evolve(program, lines=changed)


def _less_ordered_lines(
    lines: Sequence[BodyLine], data: st.DataObject
) -> tuple[BodyLine, ...] | None:
    kinds = (WaitEventLine, ExternKernelLine)
    places = [i for i, line in enumerate(lines) if isinstance(line, kinds)]
    if not any(isinstance(lines[i], WaitEventLine) for i in places):
        return None
    index = data.draw(st.sampled_from(places))
    made = list(lines)
    line = made.pop(index)
    if isinstance(line, ExternKernelLine):
        made.insert(index, evolve(line, stream=data.draw(st.integers(0, 3))))
    return tuple(made)


def test_what_is_accepted_runs_without_a_race() -> None:
    seen: set[bool] = set()

    @settings(
        max_examples=150,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        drawn = data.draw(programs(languages=(), max_steps=20))
        program = less_ordered(drawn, data)
        if program is None:
            return
        codes = {diagnostic.code for diagnostic in verify(program)}
        races = {Code.UNORDERED_USE, Code.UNORDERED_REUSE}
        assert codes <= races | {Code.GRAPH_STREAM}
        seen.add(bool(codes))
        try:
            interpret(program, example_inputs(program, 0), example_constants(program, 0))
        except DiagnosticError as error:
            assert error.diagnostics[0].code is Code.RUN_RACE  # noqa: PT017
            assert codes

    check()
    assert seen == {False, True}
