"""What belongs to what, as data."""

from hypothesis import given, settings

from tests.draws import draws
from tests.view.small_program import PAIR, PROGRAM
from wrapperir.ir import Program
from wrapperir.report import choose_values, explain
from wrapperir.testing import programs
from wrapperir.text import format_with_positions, parse_with_positions
from wrapperir.view.link_program import ProgramText, link_program
from wrapperir.view.links import LinkedParameter, LinkedPlace, LinkedProgram, ShownFile


def linked(program: Program) -> LinkedProgram:
    text, positions = format_with_positions(program)
    values = {symbol.name: symbol.value for symbol in choose_values(program, {})}
    return link_program(ProgramText(program, text, positions), values, no_file)


def no_file(path: str) -> ShownFile:
    return ShownFile(path=path, missing="not read")


def test_lines_name_what_they_came_from_and_call() -> None:
    parsed = parse_with_positions(PROGRAM)
    shown = ProgramText(parsed.program, PROGRAM, parsed.positions)
    found = link_program(shown, {}, no_file)
    assert [line.number for line in found.lines] == [13, 14, 15, 16, 17, 18]
    assert [line.nodes for line in found.lines] == [(0,), (), (), (1, 2), (1, 2), ()]
    assert [line.kernel for line in found.lines] == [None] * 4 + [0, None]
    assert [line.operator for line in found.lines] == ["aten.mm.default"] + [None] * 5
    assert [line.passes for line in found.lines][1] == ("insert_frees",)
    assert [line.values for line in found.lines][4] == ("y", "z")
    assert found.lines[4].text == "kernel_call @fused(%y, %z)"


def test_calls_count_the_bytes_of_what_they_read_and_write() -> None:
    found = linked(parse_with_positions(PROGRAM).program)
    assert [(line.reads, line.writes) for line in found.lines if line.reads] == [
        (512, 256),
        (256, 256),
    ]


def test_a_call_of_several_results_writes_all_of_them() -> None:
    found = linked(parse_with_positions(PAIR).program)
    assert [(line.reads, line.writes) for line in found.lines if line.reads] == [
        (1024, 1536)
    ]


def test_nodes_have_their_stacks_from_the_inside() -> None:
    found = linked(parse_with_positions(PROGRAM).program)
    assert [node.places for node in found.nodes] == [(0,), (1,), (2, 1)]
    assert found.places[2] == LinkedPlace(file=0, line=11, function="scale")
    assert [file.path for file in found.files] == ["FILE"]


def test_a_kernel_has_the_lines_of_its_definition_and_its_calls() -> None:
    found = linked(parse_with_positions(PROGRAM).program)
    (kernel,) = found.kernels
    rows = found.text.split("\n")
    assert rows[kernel.begin - 1].startswith("kernel_definition @fused")
    assert rows[kernel.end - 1] == "}"
    assert kernel.calls == (4,)


def test_parameters_have_their_paths() -> None:
    text = """\
wrapperir 1

program @main(%x: f32[8], %w: mutated f32[8] from "layers.0.mean") {
  constant %b: f32[8] = "layers.0.fc.bias"

  return
}
"""
    found = linked(parse_with_positions(text).program)
    assert found.parameters == (
        LinkedParameter(name="w", path="layers.0.mean", type="f32[8]"),
        LinkedParameter(name="b", path="layers.0.fc.bias", type="f32[8]"),
    )


def test_an_origin_that_is_not_listed_is_a_node() -> None:
    text = "wrapperir 1\n\nprogram @main(%x: f32[8]) {\n  free %x from(gone)\n  return\n}\n"
    found = linked(parse_with_positions(text).program)
    assert [node.name for node in found.nodes] == ["gone"]
    assert found.lines[0].nodes == (0,)


@settings(max_examples=draws(40, fuzz=400), deadline=None)
@given(programs())
def test_links_agree_with_what_explain_says(program: Program) -> None:
    found = linked(program)
    text, positions = format_with_positions(program)
    rows = text.split("\n")
    for line in found.lines:
        assert rows[line.number - 1].lstrip().startswith(line.text[:20])
    numbers = [line.number for line in found.lines]
    assert numbers == sorted(set(numbers))
    for index, node in enumerate(found.nodes):
        became = [line.number for line in found.lines if index in line.nodes]
        if node.name in {origin.name for origin in program.origins}:
            explained = explain(program, positions, node.name).lines
            assert became == [line.number for line in explained]
    for kernel in found.kernels:
        assert rows[kernel.begin - 1].split("(")[0].split()[1] == f"@{kernel.name}"
        explained = explain(program, positions, f"@{kernel.name}").lines
        # Those of multi-kernels that may choose it are explained too.
        assert [found.lines[call].number for call in kernel.calls] == [
            line.number for line in explained if line.kernel == kernel.name
        ]
    for value in found.values:
        explained_nodes = explain(program, positions, f"%{value.name}").nodes
        names = [found.nodes[node].name for node in value.nodes]
        assert names == [node.origin.name for node in explained_nodes]
