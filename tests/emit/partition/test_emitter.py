"""The emitter with a fallback: artifacts, reports, plans, refusals, what parts release."""

import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve

from tests.emit.partition.cutting import read
from tests.emit.partition.partial_emitter import PartialEmitter
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Support, compile_program
from wrapperir.emit.partition import Partition, PartitioningEmitter, format_partition
from wrapperir.emit.partition.driver import PartitionedProgram
from wrapperir.emit.partition.plan import make_plan, parse_plan
from wrapperir.emit.pipeline import emit_program, find_emitter, output_code
from wrapperir.ir import LINES, FreeLine, Language, Program, ReinterpretLine
from wrapperir.text import format_program
from wrapperir_python.emitter import PythonEmitter

ALL = PythonEmitter.support
CHAIN = """
  %a = extern_kernel aten.relu.default(%x) : f32[8]
  %b = extern_kernel aten.exp.default(%a) : f32[8] from(exp)
  %c = extern_kernel aten.add.Tensor(%a, %b) : f32[8]
  free %a
  free %b
  return %c
}

origins {
  place 0: "model.py" 7
  exp: at 0
"""


def partitioning(support: Support, refused: frozenset[str] = frozenset()) -> Any:
    chosen = PartialEmitter(support=support, refused=refused)
    return PartitioningEmitter(chosen, PythonEmitter())


def names_of(found: Partition) -> list[str]:
    return [part.emitter for part in found.report.parts]


def without(*operators: str) -> Support:
    every = {"aten.relu.default", "aten.exp.default", "aten.add.Tensor"}
    return evolve(ALL, operators=frozenset(every - {*operators}))


def test_the_report_has_parts_causes_and_sources() -> None:
    report = partitioning(without("aten.exp.default")).partition(read(CHAIN)).report
    assert (report.chosen_calls, report.calls) == (2, 3)
    assert format_partition(report).splitlines() == [
        "@main: 2 of 3 calls (67 %) on partial, 1 on python; 3 parts",
        "  part 0, partial: 1 call, 1 value in, 1 out",
        "  part 1, python: 1 call, 1 value in, 1 out",
        "  part 2, partial: 1 call, 2 values in, 1 out",
        "fell back: operator aten.exp.default (1)",
        "  line 2, operator: the partial emitter has no support for the operator"
        " aten.exp.default",
        "    %b = extern_kernel aten.exp.default(%a) : f32[8] from(exp)",
        "    model.py:7",
    ]


def test_the_artifact_is_found_by_its_name_and_loaded() -> None:
    emitter = find_emitter("fx+python")
    assert isinstance(emitter, PartitioningEmitter)
    program = read(CHAIN)
    artifact = partitioning(without("aten.exp.default")).emit(program)
    assert artifact.emitter == "partial+python"
    assert {"partition.txt", "plan.json", "part1.wir", "part1/program.py"} <= set(
        artifact.files
    )
    shown = output_code(program, artifact, partitioning(ALL))
    assert shown.suffix == ".txt"
    assert "part1/program.py" in shown.text


def test_parts_run_under_the_names_of_their_dumped_files(tmp_path: Path) -> None:
    emitter = partitioning(without("aten.exp.default"))
    call: Any = compile_program(read(CHAIN), emitter=emitter, dump_dir=tmp_path)
    assert [part.__code__.co_filename for part in call.calls] == [
        str(tmp_path / "partial+python" / f"part{number}" / "program.py")
        for number in range(4)
    ]
    assert torch.equal(call([torch.zeros(8)])[0], torch.ones(8))


def test_debug_information_is_of_the_parts_of_the_chosen_emitter() -> None:
    plain = find_emitter("cpp+python")
    debugging = plain.debugging("program")
    assert isinstance(debugging, PartitioningEmitter)
    assert debugging.chosen.cache_facts() == "program"
    assert debugging.fallback.cache_facts() == ""
    assert debugging.cache_facts() != plain.cache_facts()


def test_a_refusal_while_a_part_is_emitted_makes_another_cut() -> None:
    emitter = partitioning(ALL, frozenset({"aten.exp.default"}))
    found = emitter.partition(read(CHAIN))
    assert names_of(found) == ["partial", "python", "partial"]
    assert found.report.fell_back.keys() == {1}
    x = torch.randn(8)
    (result,) = compile_program(read(CHAIN), emitter=emitter)([x])
    assert torch.equal(result, x.relu() + x.relu().exp())  # type: ignore[arg-type]


def test_a_refusal_that_names_no_line_makes_the_part_fall_back() -> None:
    class Silent(PartialEmitter):
        def emit(self, program: Program) -> Any:
            raise Code.UNSUPPORTED_FEATURE.error("not today")

    emitter = PartitioningEmitter(Silent(support=ALL), PythonEmitter())
    found = emitter.partition(read(CHAIN))
    assert found.report.chosen_calls == 0
    assert "feature: not today" in format_partition(found.report)


@pytest.mark.parametrize("lacking", [{"exp"}, {"relu", "exp", "add"}, set[str]()])
@pytest.mark.parametrize("passes", [(), ("memory",)])
def test_no_program_is_emitted_twice(lacking: set[str], passes: tuple[str, ...]) -> None:
    emitted: list[str] = []

    class Counting(PartialEmitter):
        def emit(self, program: Program) -> Any:
            emitted.append(format_program(program))
            return super().emit(program)

    refused = {f"aten.{name}.{kind}" for name in lacking for kind in ("default", "out")}
    if "add" in lacking:
        refused.add("aten.add.Tensor")
    chosen = Counting(support=ALL, refused=frozenset(refused))
    found = PartitioningEmitter(chosen, PythonEmitter(), passes=lambda emitter: passes)
    assert found.partition(read(CHAIN)).report.chosen_calls == 3 - len(lacking)
    assert emitted
    assert len(emitted) == len(set(emitted))


def test_a_line_that_neither_emitter_has_names_both() -> None:
    kernel = """
kernel_definition @own opaque(p: read_write f32*) {
  entry = own
  source {
    | own
  }
}
"""
    program = read("  kernel_call @own(%x)\n  return", "%x: mutated f32[8]", kernel)
    emitter = partitioning(evolve(ALL, languages=frozenset({Language.OPAQUE})), frozenset())
    with pytest.raises(DiagnosticError) as caught:
        emit_program(program, PartitioningEmitter(emitter.fallback, emitter.fallback))
    assert caught.value.diagnostics[0].code is Code.UNSUPPORTED_LANGUAGE
    blocked = evolve(emitter.chosen.support, devices=frozenset({"acme"}))
    with pytest.raises(DiagnosticError, match="WIR703: the python emitter") as caught:
        partitioning(blocked).partition(program)
    (note,) = caught.value.diagnostics[0].notes
    assert "the partial emitter has no support for device cpu" in note.message


@pytest.mark.parametrize("kind", [FreeLine, ReinterpretLine])
def test_an_emitter_without_frees_or_views(kind: Any) -> None:
    program = read("""
  %a = extern_kernel aten.relu.default(%x) : f32[8]
  %v = reinterpret %a as f32[4]
  %b = extern_kernel aten.exp.default(%v) : f32[4]
  free %a
  free %v
  return %b
""")
    emitter = partitioning(evolve(ALL, lines=frozenset(LINES) - {kind}))
    report = emitter.partition(program).report
    assert (report.chosen_calls, report.calls) == (
        {FreeLine: 0, ReinterpretLine: 1}[kind],
        2,
    )


def test_an_allocation_that_the_emitter_lacks_is_made_by_the_fallback() -> None:
    program = read("""
  %a = allocate f32[8]
  extern_kernel aten.relu.out(%x, out = %a) writes(%a)
  return %a
""")
    lines = frozenset(kind for kind in LINES if kind.__name__ != "AllocateLine")
    emitter = partitioning(evolve(ALL, lines=lines))
    found = emitter.partition(program)
    assert names_of(found) == ["python", "partial"]
    (result,) = compile_program(program, emitter=emitter)([torch.arange(-4.0, 4)])
    assert torch.equal(result, torch.arange(-4.0, 4).relu())  # type: ignore[arg-type]


def test_memory_that_is_aligned_to_more_is_allocated_by_the_fallback() -> None:
    program = read("""
  %a = allocate f32[8] {align = 256}
  extern_kernel aten.relu.out(%x, out = %a) writes(%a)
  %b = allocate f32[8] {align = 128}
  extern_kernel aten.exp.out(%a, out = %b) writes(%b)
  free %a
  return %b
""")
    emitter = partitioning(evolve(ALL, greatest_alignment=128))
    found = emitter.partition(program)
    assert names_of(found) == ["python", "partial"]
    *_, other, last = (format_program(part.program) for part in found.parts)
    assert "allocate f32[8] {align = 256}" in other
    assert "allocate f32[8] {align = 256}" not in last
    assert "allocate f32[8] {align = 128}" in last
    (result,) = compile_program(program, emitter=emitter)([torch.arange(-4.0, 4)])
    assert torch.equal(result, torch.arange(-4.0, 4).relu().exp())  # type: ignore[arg-type]


def test_a_value_is_gone_when_the_part_that_needs_it_last_drops_it() -> None:
    seen: list[bool] = []

    def first(given: list[Any]) -> tuple[Any, ...]:
        made = torch.ones(8)
        held.append(weakref.ref(made))
        return (made,)

    def second(given: list[Any]) -> tuple[Any, ...]:
        assert held[0]() is given[1]
        given.clear()
        seen.append(held[0]() is None)
        return (torch.zeros(1),)

    held: list[weakref.ref[torch.Tensor]] = []
    plan = make_plan(["%x"], {}, [((), ["%a"]), (["%x", "%a"], ["%b"])], ["%b"])
    (result,) = PartitionedProgram(plan, [first, second])([torch.ones(1)])
    assert result.shape == (1,)  # type: ignore[union-attr]
    assert seen == [True]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan: plan["parts"][0].pop("folder"), "folder"),
        (lambda plan: plan["parts"][0].update(emitter=3), "TypeError"),
        (lambda plan: plan["parts"][0].update(metadata=3), "TypeError"),
        (lambda plan: plan["parts"][0].update(folder="part1"), "folder"),
        (lambda plan: plan["steps"][0].update(arguments=["%nothing"]), "%nothing"),
        (lambda plan: plan["steps"][1].update(arguments=["%a", "%a"], last=[1, 1]), "%a"),
        (lambda plan: plan["steps"][0].update(arguments="%x"), "TypeError"),
        (lambda plan: plan.update(outputs=["%nothing"]), "%nothing"),
    ],
)
def test_an_artifact_with_a_wrong_plan_is_not_loaded(
    change: Callable[[dict[str, Any]], object], said: str
) -> None:
    emitter = partitioning(without("aten.exp.default"))
    artifact = emitter.emit(read(CHAIN))
    plan = json.loads(artifact.files["plan.json"])
    change(plan)
    files = {**artifact.files, "plan.json": json.dumps(plan)}
    with pytest.raises(DiagnosticError) as caught:
        emitter.load(evolve(artifact, files=files), {})
    (found,) = caught.value.diagnostics
    assert found.code is Code.INVALID_ARTIFACT
    assert said in found.message


def test_a_constant_that_is_an_output_is_needed() -> None:
    emitter = partitioning(without("aten.exp.default"))
    artifact = emitter.emit(read(CHAIN))
    plan = {**json.loads(artifact.files["plan.json"]), "constants": {"%w": "w"}}
    files = {**artifact.files, "plan.json": json.dumps(plan)}
    with pytest.raises(DiagnosticError) as caught:
        emitter.load(evolve(artifact, files=files), {})
    assert caught.value.diagnostics[0].code is Code.MISSING_CONSTANT


def test_the_number_of_inputs_is_checked() -> None:
    call = compile_program(read(CHAIN), emitter=partitioning(without("aten.exp.default")))
    with pytest.raises(RuntimeError, match="WIR800"):
        call([])
    with pytest.raises(RuntimeError, match="WIR801"):
        call([torch.ones(3)])


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"wrapperir_plan": 2}'),
        json.dumps({"wrapperir_plan": 1, "steps": [{"arguments": [1]}]}),
        json.dumps(
            {
                "wrapperir_plan": 1,
                "inputs": [],
                "constants": {},
                "steps": [],
                "outputs": [],
                "parts": [{}],
            }
        ),
    ],
)
def test_a_malformed_plan_is_refused(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_plan(text)
    assert caught.value.diagnostics[0].code is Code.INVALID_ARTIFACT
