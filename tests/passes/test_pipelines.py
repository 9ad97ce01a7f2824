"""Passes by name, as text and as functions; those of plugins; and their faults."""

from types import SimpleNamespace

import pytest
from attrs import evolve

from tests.passes.named_passes import without_passes
from wrapperir import plugin
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import FreeLine, GraphRegionLine, Program
from wrapperir.passes import (
    BUILT_IN_PASSES,
    MEMORY_PASSES,
    PASSES,
    CaptureReport,
    InstalledPipeline,
    insert_frees,
    parse_pipeline,
    plan_memory,
)
from wrapperir.passes.plan_memory import Planned
from wrapperir.pipelines import ChosenPass, InvalidResultError, find_passes, run_passes
from wrapperir.plugin import PluginManager, hookimpl
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

PROGRAM = parse_program("""\
wrapperir 1

program @main(%x: f32[16, 16]) {
  %a = allocate f32[16, 16]
  extern_kernel aten.mm.out(%x, %x, out = %a) writes(%a)
  %y = allocate f32[16, 16]
  extern_kernel aten.mm.out(%a, %x, out = %y) writes(%y)
  free %a
  free %x
  return %y
}
""")


def rename(program: Program, *, name: str = "renamed") -> Program:
    """Return the program with another name."""
    return evolve(program, name=name)


def drop_frees(program: Program) -> Program:
    lines = (line for line in program.lines if not isinstance(line, FreeLine))
    return evolve(program, lines=tuple(lines))


def free_twice(program: Program) -> Program:
    return evolve(program, lines=(*program.lines, FreeLine(buffer="a")))


def fail(program: Program) -> Program:
    raise KeyError("weights")


def return_lines(program: Program) -> object:
    return program.lines


PROVIDED: dict[str, object] = {
    "rename": rename,
    "drop_frees": drop_frees,
    "free_twice": free_twice,
    "fail": fail,
    "return_lines": return_lines,
    "renamed_and_planned": 'rename(name = "planned"), memory',
    "both": "renamed_and_planned, both_again",
    "both_again": "both",
}


def providing(passes: object) -> SimpleNamespace:
    @hookimpl
    def wrapperir_passes() -> object:
        return passes

    return SimpleNamespace(wrapperir_passes=wrapperir_passes)


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> PluginManager:
    """Use a manager of plugins that has one plugin with passes."""
    manager = PluginManager([])
    manager.register(providing(PROVIDED), "acme")
    monkeypatch.setattr("wrapperir.plugin.plugin_manager", lambda: manager)
    return manager


def error_of(passes: object) -> DiagnosticError:
    with pytest.raises(DiagnosticError) as caught:
        run_passes(PROGRAM, passes)  # type: ignore[arg-type]
    return caught.value


def test_text_lists_and_functions_are_the_same_passes() -> None:
    expected = plan_memory(insert_frees(PROGRAM), planned=Planned.BOTH)
    text = 'insert_frees, plan_memory(planned = "both")'
    found = run_passes(PROGRAM, text)
    assert without_passes(found) == expected
    assert run_passes(PROGRAM, [text]) == found
    assert run_passes(PROGRAM, [insert_frees, 'plan_memory(planned = "both")']) == found
    assert "place f32[16, 16]" in format_program(expected)
    assert run_passes(PROGRAM, ()) == run_passes(PROGRAM, "") == PROGRAM


def test_a_pipeline_runs_its_passes() -> None:
    assert [each.name for each in find_passes("memory")] == list(MEMORY_PASSES)
    assert run_passes(PROGRAM, "memory") == run_passes(PROGRAM, MEMORY_PASSES)


def test_the_built_in_passes_and_pipelines_can_be_named() -> None:
    for name, each in BUILT_IN_PASSES.items():
        text = each.text if isinstance(each, InstalledPipeline) else name
        assert {call.name for call in parse_pipeline(text)} <= PASSES.keys()
    assert PASSES.keys() < BUILT_IN_PASSES.keys()


def test_a_report_of_graphs_needs_the_gain_that_is_asked_for() -> None:
    on_gpu = parse_program("""\
wrapperir 1

program @main(%x: f32[8, 8]@cuda) {
  %a = allocate f32[8, 8]@cuda
  extern_kernel aten.mm.out(%x, %x, out = %a) writes(%a) @cuda
  %b = allocate f32[8, 8]@cuda
  extern_kernel aten.mm.out(%a, %x, out = %b) writes(%b) @cuda
  return %b
}
""")
    reports: list[CaptureReport] = []
    for least, regions in ((0, 1), (1000.0, 0)):
        after = run_passes(on_gpu, f"capture_graphs(least_gain = {least})", reports.append)
        assert sum(isinstance(line, GraphRegionLine) for line in after.lines) == regions
        assert len(reports.pop().regions) == regions
    assert reports == []


def test_each_pass_is_observed() -> None:
    seen: list[tuple[str, Program, Program]] = []

    def observe(ran: ChosenPass, before: Program, after: Program) -> None:
        seen.append((ran.name, before, after))

    result = run_passes(PROGRAM, "insert_frees, plan_memory", after=observe)
    assert [name for name, _, _ in seen] == ["insert_frees", "plan_memory"]
    assert seen[0][1] == PROGRAM
    assert seen[0][2] == seen[1][1]
    assert seen[1][2] == result


def test_passes_of_plugins_run_by_name(acme: PluginManager) -> None:
    assert run_passes(PROGRAM, 'rename(name = "other")').name == "other"
    assert run_passes(PROGRAM, ["rename", "insert_frees"]).name == "renamed"
    planned = run_passes(PROGRAM, "renamed_and_planned")
    assert planned == evolve(run_passes(PROGRAM, "memory"), name="planned")
    (chosen,) = find_passes('rename(name = "x")')
    assert str(chosen) == '`rename(name = "x")` of acme'
    assert set(acme.passes) == set(PROVIDED)


def test_an_unknown_pass_is_named_with_those_there_are(acme: PluginManager) -> None:
    acme.register(providing(3), "bad")
    first, second = error_of("renam, nothing_like_it, renam").diagnostics[:2]
    assert first.code is second.code is Code.UNKNOWN_PASS
    assert (first.message, second.message) == (
        "there is no pass 'renam'",
        "there is no pass 'nothing_like_it'",
    )
    assert (first.hint or "").startswith("did you mean `rename`? passes are ")
    assert (second.hint or "").startswith("passes are ")
    assert "drop_frees" in (second.hint or "")
    assert "memory" in (second.hint or "")
    assert "; bad of bad failed in wrapperir_passes" in (second.hint or "")
    assert first.position is not None
    assert second.position is not None
    assert (first.position.column, second.position.column) == (1, 8)


def test_a_pipeline_takes_no_arguments_and_does_not_contain_itself(
    acme: PluginManager,
) -> None:
    (given,) = error_of("insert_frees, memory(n = 1)").diagnostics
    assert given.code is Code.WRONG_PASS_ARGUMENT
    assert given.message == "`memory` has no argument `n`"
    (found,) = error_of("insert_frees, both").diagnostics
    assert found.code is Code.BAD_PIPELINE
    assert found.message == (
        "a pipeline contains itself: `both` contains `both_again` contains `both`"
    )
    assert found.position is not None
    assert found.position.column == 15


def test_nothing_runs_if_a_pass_is_wrong() -> None:
    ran: list[Program] = []

    def record(program: Program) -> Program:
        ran.append(program)
        return program

    with pytest.raises(DiagnosticError, match="WIR740"):
        run_passes(PROGRAM, [record, "no_such"])
    assert ran == []


@pytest.mark.parametrize("passes", ["free_twice", [free_twice]])
def test_an_invalid_result_names_the_pass(
    passes: str | list[object], acme: PluginManager
) -> None:
    error = error_of(passes)
    assert isinstance(error, InvalidResultError)
    assert verify(error.program) != ()
    (found,) = error.diagnostics
    origin = "acme" if passes == "free_twice" else __name__
    assert found.message.startswith(f"after the pass `free_twice` of {origin}: ")
    assert found.code is verify(free_twice(PROGRAM))[0].code


def test_a_pass_is_not_blamed_for_earlier_errors(acme: PluginManager) -> None:
    broken = free_twice(PROGRAM)
    assert run_passes(broken, "rename").name == "renamed"
    unfreed = drop_frees(PROGRAM)
    assert verify(run_passes(unfreed, "rename, insert_frees")) == ()
    (first, *_) = error_of("drop_frees, insert_frees").diagnostics
    assert first.code is Code.LEAK


def test_a_pass_that_raises_is_reported_with_its_cause(acme: PluginManager) -> None:
    error = error_of("fail")
    (found,) = error.diagnostics
    assert found.code is Code.PASS_FAILED
    assert found.message == "the pass `fail` of acme failed: KeyError: 'weights'"
    assert "test_pipelines.py" in found.notes[0].message
    assert isinstance(error.__cause__, KeyError)
    (other,) = error_of("return_lines").diagnostics
    assert other.code is Code.PASS_FAILED
    assert other.message.endswith("returned a tuple, not a Program")


def test_two_passes_of_one_name_are_an_error(acme: PluginManager) -> None:
    acme.register(providing({"rename": rename, "insert_frees": rename}), "rival")
    (found,) = error_of("insert_frees, rename").diagnostics
    assert found.code is Code.DUPLICATE_PASS
    assert found.message == "the pass name 'rename' is provided by acme and rival"
    assert found.position is not None
    assert found.position.column == 15
    assert [each.code for each in acme.conflicts] == [Code.DUPLICATE_PASS] * 2
    assert {"rename", "insert_frees"}.isdisjoint(acme.passes)
    assert run_passes(PROGRAM, "insert_frees") == insert_frees(PROGRAM)  # our own


@pytest.mark.parametrize(
    ("passes", "said"),
    [
        (None, "must return a mapping from names to passes, not None"),
        ([rename], "must return a mapping from names to passes"),
        ({"re-name": rename}, "must be an identifier, not 're-name'"),
        ({"rename": 3}, "must be a function or the text of a pipeline, not 3"),
        ({"rename": "insert_frees("}, "WIR741"),
        ({"rename": lambda program, limit: program}, "parameter 'limit' of a pass"),
    ],
)
def test_a_plugin_that_returns_no_passes_is_reported(passes: object, said: str) -> None:
    manager = PluginManager([])
    manager.register(providing(passes), "bad")
    manager.register(providing({"rename": rename}), "fine")
    assert set(manager.passes) == {"rename"}
    (broken,) = manager.broken
    assert (broken.name, broken.hook) == ("bad", "wrapperir_passes")
    assert said in broken.traceback
    assert [p.name for p in manager.plugins if not p.failed] == ["fine"]


def test_built_in_passes_load_no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> PluginManager:
        raise AssertionError

    monkeypatch.setattr("wrapperir.plugin.plugin_manager", load)
    with pytest.raises(AssertionError):
        plugin.plugin_manager()
    assert without_passes(run_passes(drop_frees(PROGRAM), "memory")) == PROGRAM
