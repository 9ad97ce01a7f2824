"""Loops and decisions, linked with the nodes of the program."""

import pytest
import torch

from tests.report.conftest import Opener
from wrapperir.emit.pipeline import find_emitter
from wrapperir.frontend.lowering.exported import lower_exported
from wrapperir.frontend.lowering.lower import LoweringStages
from wrapperir.ir import ExternKernelLine
from wrapperir.text import format_with_positions
from wrapperir.view import ProgramText, StageLinks, format_view, view_program


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.exp((torch.relu(x) * 2) @ w).sum(1)


@pytest.fixture(scope="module")
def stages() -> LoweringStages:
    inputs = (torch.randn(16, 32), torch.randn(32, 16))
    return lower_exported(torch.export.export(Model(), inputs))


def links(stages: LoweringStages) -> StageLinks:
    program = stages.lowered.program
    return StageLinks(program, stages.loops, stages.schedule, stages.symbols, stages.joined)


def test_texts_of_stages_name_nodes_and_kernels(stages: LoweringStages) -> None:
    program = stages.lowered.program
    names = [origin.name for origin in program.origins]
    schedule, nests = links(stages).codes().files
    for file in (schedule, nests):
        rows = file.text.split("\n")
        for found in file.ranges:
            head = rows[found.begin - 1]
            if found.kernel is not None and not found.nodes:
                assert head.startswith(f"kernel {program.definitions[found.kernel].name}(")
                assert rows[found.end - 1].startswith("    ")
                assert not rows[found.end].startswith("    ")
            else:
                assert found.nodes
                of_kernel = head.startswith("    ")
                assert of_kernel or head.split()[0] in ("nest", "launch", "call")
    kernels = [
        found.kernel
        for found in schedule.ranges
        if found.kernel is not None and not found.nodes
    ]
    assert sorted(kernels) == list(range(len(program.definitions)))
    called = [
        x for x in schedule.ranges if schedule.text.split("\n")[x.begin - 1][:4] == "call"
    ]
    assert [[names[node] for node in x.nodes] for x in called] == [["mm"]]


def test_decisions_say_what_was_decided_of_which_nodes(stages: LoweringStages) -> None:
    names = [origin.name for origin in stages.lowered.program.origins]
    found = {each.kind: each for each in links(stages).decisions()}
    assert [names[node] for node in found["called"].nodes] == ["mm"]
    assert "operator" in found["called"].reason
    joined = found.get("fused") or found["inlined"]
    assert joined.bytes
    assert joined.nodes
    reasons = [bool(each.reason) for each in links(stages).decisions()]
    assert reasons == sorted(reasons, reverse=True)


def test_kernels_that_are_joined_of_several_have_a_decision() -> None:
    class Sums(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.sin().sum(0), x.cos().sum(1)

    stages = lower_exported(torch.export.export(Sums(), (torch.randn(16, 32),)))
    program = stages.lowered.program
    (definition,) = program.definitions
    (found,) = (x for x in links(stages).decisions() if x.kind == "joined")
    assert found.subject.endswith(f" into {definition.name}")
    assert found.subject.count(", ") == 1
    assert "launch" in found.reason
    names = {program.origins[node].operator for node in found.nodes}
    assert names >= {"aten.sin.default", "aten.cos.default", "aten.sum.dim_IntList"}
    schedule, _ = links(stages).codes().files
    kernels = [x.kernel for x in schedule.ranges if x.kernel is not None and not x.nodes]
    assert kernels == [0, 0]


def test_a_call_of_a_decomposition_has_the_node_that_was_decomposed() -> None:
    class Convolution(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return torch.conv2d(x, w).relu()

    inputs = (torch.randn(2, 3, 8, 8), torch.randn(4, 3, 2, 2))
    stages = lower_exported(torch.export.export(Convolution(), inputs))
    program = stages.lowered.program
    found = {each.kind: each for each in links(stages).decisions()}
    (node,) = found["called"].nodes
    calls = [x for x in program.lines if isinstance(x, ExternKernelLine)]
    origins = [x.provenance.origins for x in calls if x.provenance is not None]
    assert (program.origins[node].name,) in origins


def test_the_page_has_loops_and_decisions(stages: LoweringStages, opener: Opener) -> None:
    program = stages.lowered.program
    text, positions = format_with_positions(program)
    shown = ProgramText(program, text, positions)
    emitters = [find_emitter("python")]
    view = view_program(shown, "model.py", {}, emitters, stages=links(stages))
    page = opener.open(format_view(view), height=1000)
    page.click("#emitters [data-emitter=loops]")
    page.locator(".panel[data-name=code] .line", has_text="call mm").first.click()
    assert page.locator("#details h2").inner_text() == "node mm"
    page.click("#tabs [data-panel=decisions]")
    row = page.locator(".panel[data-name=decisions] .line", has_text="called")
    assert row.get_attribute("data-pinned") == "line"
    row.click()
    pinned = page.locator(".panel[data-name=program] .line[data-pinned=line]")
    assert any("aten.mm" in text for text in pinned.all_inner_texts())


class TwoLaunches(torch.nn.Module):
    """Two launches of several kernels each, of which they have one in common."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x @ w
        first = y.sin().sum(0), y.cos().sum(1)
        z = (y * first[0]) @ w
        return *first, z.exp().sum(0), z.cos().sum(1)


def test_loops_that_several_launches_run_lead_to_all_of_them(opener: Opener) -> None:
    inputs = torch.randn(16, 32), torch.randn(32, 32)
    stages = lower_exported(torch.export.export(TwoLaunches(), inputs))
    program = stages.lowered.program
    assert len(stages.joined) == len(program.definitions) == 2
    (name,) = set.intersection(
        *({part.kernel.name for part in each.kernel.parts} for each in stages.joined)
    )
    schedule, _ = links(stages).codes().files
    rows = schedule.text.split("\n")
    kernels = {
        rows[x.begin - 1].split("(")[0]: (x.kernel, *x.others)
        for x in schedule.ranges
        if x.kernel is not None and not x.nodes
    }
    assert kernels.pop(f"kernel {name}") == (0, 1)
    assert {*kernels.values()} == {(0,), (1,)}
    text, positions = format_with_positions(program)
    view = view_program(
        ProgramText(program, text, positions), "model.py", {}, [], stages=links(stages)
    )
    page = opener.open(format_view(view), height=1000)
    code = page.locator(".panel[data-name=code]")
    for index, definition in enumerate(program.definitions):
        page.evaluate(f"view.pin({{ kind: 'kernel', index: {index} }})")
        assert page.locator("#details h2").inner_text() == f"kernel @{definition.name}"
        lit = code.locator(".line[data-pinned=kernel]", has_text="kernel ")
        parts = stages.joined[index].kernel.parts
        shown = [text.split("(")[0].split()[-1] for text in lit.all_inner_texts()]
        assert sorted(shown) == sorted(part.kernel.name for part in parts)
    code.locator(".line", has_text=f"kernel {name}(").first.click()
    assert page.locator("#details h2").inner_text() == "kernels " + ", ".join(
        f"@{definition.name}" for definition in program.definitions
    )
    assert "2 lines of the program" in page.locator("#details").inner_text()
