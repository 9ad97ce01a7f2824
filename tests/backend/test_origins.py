"""Each kernel and call names the source lines that it computes, and no others."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attrs import evolve

from tests.backend.recorded_calls import FRONTENDS, recorded_calls
from wrapperir.ir import (
    AllocateLine,
    AssertScalarLine,
    BufferRef,
    ExternKernelLine,
    KernelCallLine,
    Line,
    OriginTable,
    PlaceLine,
    Program,
    Provenance,
    SymbolDefinitionLine,
)
from wrapperir.ir.origins import all_lines
from wrapperir.report import copy_reasons, line_flow
from wrapperir.verify import verify

MADE_FROM = (KernelCallLine, ExternKernelLine, AllocateLine, PlaceLine)
_MARK = re.compile(r"# ([a-z ]+)$")


def programs_of(
    function: Callable[..., Any],
    frontend: str,
    *inputs: torch.Tensor,
    backward: bool = False,
) -> list[Program]:
    with recorded_calls(function, frontend) as (call, recorder):
        result = call(*inputs)
        if backward:
            result.sum().backward()
    programs = [recorded.program for recorded in recorder.recorded]
    for program in programs:
        assert verify(program) == ()
    return programs


def marks(function: Callable[..., Any]) -> dict[int, set[str]]:
    """Return the words in the comments at the end of lines, by their numbers."""
    source, first = inspect.getsourcelines(function)
    return {
        first + index: set(found[1].split())
        for index, line in enumerate(source)
        if (found := _MARK.search(line)) is not None
    }


def lines_named(program: Program, line: Line) -> set[int]:
    """Return the numbers of the lines of this file that a line of a program comes from."""
    table = OriginTable(program)
    stacks = map(table.stack, table.of(line.provenance))
    return {place.line for stack in stacks for place in stack if place.file == __file__}


def kernels_in(program: Program) -> list[KernelCallLine]:
    return [line for line in program.lines if isinstance(line, KernelCallLine)]


def calls_in(program: Program, operator: str) -> list[ExternKernelLine]:
    return [
        line
        for line in program.lines
        if isinstance(line, ExternKernelLine) and operator in line.operator
    ]


def chain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = x.sin()  # one
    y = y * 2  # one
    z = y @ w  # product
    z = z.t()  # two
    z = z + b  # two
    mean = z.mean(1, keepdim=True)  # two
    return (z - mean).relu()  # two


@pytest.mark.slow
@pytest.mark.parametrize("frontend", ["inductor", *FRONTENDS])
def test_a_kernel_names_all_its_lines_and_a_call_its_own(frontend: str) -> None:
    inputs = torch.randn(8, 16), torch.randn(16, 32), torch.randn(8)
    (program,) = programs_of(chain, frontend, *inputs)
    by_mark = {
        mark: {line for line, words in marks(chain).items() if mark in words}
        for mark in ("one", "product", "two")
    }
    first, *rest = kernels_in(program)
    (product,) = calls_in(program, "aten.mm")
    assert lines_named(program, first) == by_mark["one"]
    assert lines_named(program, product) == by_mark["product"]
    assert set().union(*(lines_named(program, each) for each in rest)) == by_mark["two"]


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.exp() + 1


def calling(x: torch.Tensor) -> torch.Tensor:
    return helper(x).cos()


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_a_stack_has_the_callers(frontend: str) -> None:
    (program,) = programs_of(calling, frontend, torch.randn(8))
    table, (kernel,) = OriginTable(program), kernels_in(program)
    stacks = {
        origin.operator: [place.function for place in table.stack(origin)]
        for origin in table.of(kernel.provenance)
    }
    assert stacks == {
        "aten.exp.default": ["calling", "helper"],
        "aten.add.Tensor": ["calling", "helper"],
        "aten.cos.default": ["calling"],
    }


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.fc = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.nn.functional.gelu(self.fc(self.norm(x)))
        return x + y


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:2]:
            x = layer(x)
        return x.mean(0)


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_modules_have_their_paths(frontend: str) -> None:
    with torch.no_grad():
        (program,) = programs_of(Model(), frontend, torch.randn(4, 16))
    assert {origin.module for origin in program.origins} == {
        *("layers.0", "layers.0.norm", "layers.0.fc"),
        *("layers.1", "layers.1.norm", "layers.1.fc"),
        None,
    }
    table = OriginTable(program)
    products = calls_in(program, "aten.addmm")
    modules = [{x.module for x in table.of(line.provenance)} for line in products]
    assert modules == [{"layers.0.fc"}, {"layers.1.fc"}]


@pytest.mark.slow
@pytest.mark.parametrize("frontend", FRONTENDS)
def test_no_kernel_or_call_is_without_origin(frontend: str) -> None:
    forward, backward = programs_of(
        Model(), frontend, torch.randn(4, 16, requires_grad=True), backward=True
    )
    for program in (forward, backward):
        listed = {origin.name for origin in program.origins}
        for line in all_lines(program):
            provenance = line.provenance
            if isinstance(line, MADE_FROM):
                assert provenance is not None, line
                assert provenance.origins
            assert provenance is None or listed.issuperset(provenance.origins)
        modules = {origin.module for origin in program.origins}
        assert {"layers.0.norm", "layers.1.fc"} <= modules


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_what_a_backward_is_given_has_the_nodes_of_the_forward(frontend: str) -> None:
    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.norm(x.exp())  # norm
            return result

    x = torch.randn(4, 16, requires_grad=True)
    forward, backward = programs_of(Norm(), frontend, x, backward=True)
    assert all(each.provenance is None for each in forward.inputs)
    table = OriginTable(backward)
    given = {each.name: table.of(each.provenance) for each in backward.inputs}
    assert {name for name, found in given.items() if found} == {
        each.name for each in backward.inputs if each.donated
    }
    origins = [origin for found in given.values() for origin in found]
    assert any(origin.name.startswith("getitem") for origin in origins)
    norm = [x for x in origins if x.operator == "aten.native_layer_norm.default"]
    assert norm
    assert {origin.module for origin in norm} == {"norm"}
    wanted = [line for line, words in marks(Norm.forward).items() if "norm" in words]
    places = [table.place(origin) for origin in origins]
    assert {place and place.line for place in places} == {*wanted}


def choosing(x: torch.Tensor) -> torch.Tensor:
    def positive(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    def negative(x: torch.Tensor) -> torch.Tensor:
        return x.cos()

    result: torch.Tensor = torch.cond(x.sum() > 0, positive, negative, (x.sin(),))
    return result


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_nodes_of_blocks_have_names_of_their_own(frontend: str) -> None:
    (program,) = programs_of(choosing, frontend, torch.randn(8))
    table = OriginTable(program)
    sines = [origin for origin in program.origins if origin.operator == "aten.sin.default"]
    assert len({origin.name for origin in sines}) == len(sines) == 2
    functions = {
        place.function
        for origin in program.origins
        for place in table.stack(origin)
        if place.file == __file__
    }
    assert {"choosing", "positive", "negative"} <= functions


def recomputed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.sin()  # both
    z = y + 1  # both first
    return z.sum(), y.sum(0) * 2  # both first second


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_what_is_recomputed_is_named(frontend: str) -> None:
    (program,) = programs_of(recomputed, frontend, torch.randn(64, 64))
    (both,) = [line for line, words in marks(recomputed).items() if words == {"both"}]
    assert all(both in lines_named(program, line) for line in kernels_in(program))


def separate(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x.sin()  # first
    total = total.sum(0)  # first
    turned = y[:, :8]  # second
    turned = turned.t()  # second
    return total, turned.contiguous()  # second


@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
def test_what_separate_loops_of_one_kernel_write_has_its_own_nodes(frontend: str) -> None:
    (program,) = programs_of(separate, frontend, torch.randn(64, 32), torch.randn(16, 16))
    (kernel,) = kernels_in(program)
    wanted = [
        {line for line, words in marks(separate).items() if word in words}
        for word in ("first", "second")
    ]
    assert lines_named(program, kernel) == set.union(*wanted)
    flow = line_flow(program)
    names = [each.name for each in program.outputs if isinstance(each, BufferRef)]
    for name, lines in zip(names, wanted, strict=True):
        (allocation,) = [x for x in program.lines if getattr(x, "result", None) == name]
        assert lines_named(program, allocation) == lines
        origins = Provenance(origins=flow.origins_of_values()[name])
        assert lines_named(program, evolve(allocation, provenance=origins)) == lines
    (reasons,) = copy_reasons(program, flow).values()
    (reason,) = reasons
    assert reason.values == (names[1],)
    operators = {x.name: x.operator for x in program.origins}
    assert {operators[name] for name in reason.views} <= {
        "aten.slice.Tensor",
        "aten.t.default",
    }


def normalized(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    kept = x.sin() + x  # kept
    mean = kept.mean(-1, keepdim=True)
    y = (kept - mean).transpose(1, 2).reshape(-1, 8) @ w
    return y, kept.view(-1, 16) @ w.t()


@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
def test_the_readers_of_a_copy_do_not_read_another_value_of_its_kernel(
    frontend: str,
) -> None:
    inputs = torch.randn(4, 8, 16), torch.randn(8, 16)
    (program,) = programs_of(normalized, frontend, *inputs)
    flow = line_flow(program)
    ((writer, (reason,)),) = copy_reasons(program, flow).items()
    (copy,) = reason.values
    (reader,) = reason.readers
    product = program.lines[reader]
    assert isinstance(product, ExternKernelLine)
    assert product in calls_in(program, "aten.mm")
    operators = {x.name: x.operator for x in program.origins}
    for value in flow.writes[writer]:
        computed = [operators[name] for name in value.origins]
        if value.name == copy:
            assert computed[0] == "aten.clone.default"
        assert "aten.sin.default" in computed
        assert ("aten.clone.default" in computed) is (value.name == copy)


def test_what_only_lays_out_inputs_for_calls_names_the_calls() -> None:
    layers = torch.nn.Conv2d(3, 16, 3), torch.nn.SiLU(), torch.nn.Conv2d(16, 16, 3)
    (program,) = programs_of(
        torch.nn.Sequential(*layers), "inductor", torch.randn(2, 3, 16, 16)
    )
    first = next(line for line in program.lines if isinstance(line, KernelCallLine))
    assert first.provenance is not None
    operators = {x.name: x.operator for x in program.origins}
    found = [operators[name] for name in first.provenance.origins]
    assert found == ["aten.convolution.default"] * 2
    (reasons,) = [
        found
        for index, found in copy_reasons(program, line_flow(program)).items()
        if program.lines[index] is first
    ]
    assert all(reason.whole for reason in reasons)


def scored(x: torch.Tensor) -> torch.Tensor:
    y = x.permute(0, 2, 3, 1).reshape(-1, 3)
    return y.log_softmax(1)


@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
def test_a_copy_that_is_not_in_memory_is_not_said(frontend: str) -> None:
    (program,) = programs_of(scored, frontend, torch.randn(2, 3, 4, 4))
    assert "aten.clone.default" in {x.operator for x in program.origins}
    assert copy_reasons(program, line_flow(program)) == {}


def flipped(x: torch.Tensor) -> torch.Tensor:
    y = x.t()  # copy
    return y.flip(0)  # copy


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_what_is_copied_to_be_returned_names_the_node_that_is_returned(
    frontend: str,
) -> None:
    (program,) = programs_of(flipped, frontend, torch.randn(4, 8))
    (kernel,) = kernels_in(program)
    assert lines_named(program, kernel) == {*marks(flipped)}
    operators = {origin.operator for origin in OriginTable(program).of(kernel.provenance)}
    assert operators == {"aten.flip.default", "aten.t.default"}


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.sin()  # kernel
    z[:, 2:4] = y  # kernel
    return torch.diagonal_scatter(z, y[:, 0])  # kernel


@pytest.mark.parametrize("frontend", ["inductor", "triton"])
def test_what_writes_a_part_of_a_value_names_its_line(frontend: str) -> None:
    (program,) = programs_of(written, frontend, torch.randn(3, 8), torch.randn(3, 2))
    table = OriginTable(program)
    assert all(table.place(origin) is not None for origin in program.origins)
    named = (lines_named(program, kernel) for kernel in kernels_in(program))
    assert set().union(*named) == {*marks(written)}


def joined(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    first = x @ w  # product
    second = y.cos()  # kernel
    second = torch.cat((second * 2, y), 1)  # kernel
    z = torch.cat((first, second), 1)  # kernel product
    return z @ z.t()


@pytest.mark.parametrize("frontend", ["inductor", "triton"])
def test_what_writes_a_part_of_joined_memory_names_the_node_that_joins(
    frontend: str,
) -> None:
    inputs = torch.randn(8, 16), torch.randn(8, 16), torch.randn(16, 32)
    (program,) = programs_of(joined, frontend, *inputs)
    wanted = {
        word: {line for line, words in marks(joined).items() if word in words}
        for word in ("kernel", "product")
    }
    kernels = kernels_in(program)
    named = [lines_named(program, kernel) for kernel in kernels]
    assert set.union(*named) == wanted["kernel"]
    product = calls_in(program, "aten.mm")[0]
    assert lines_named(program, product) == wanted["product"]
    assert product.provenance is not None
    assert product.provenance.origins[0].startswith("mm")
    values = line_flow(program).origins_of_values()
    table = {origin.name: origin.operator for origin in program.origins}
    whole = next(x for x in program.lines if isinstance(x, AllocateLine | PlaceLine))
    assert "aten.cat.default" in {table[name] for name in values[whole.result]}


def indexed(
    i: torch.Tensor, j: torch.Tensor, x: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    first = x[i]  # first
    first = first * 2
    second = y[j]  # second
    z = first.sin() + second
    return z - z.mean(1, keepdim=True)


def test_checks_of_indices_name_the_nodes_that_are_checked() -> None:
    i, x = torch.tensor([1, 0]), torch.randn(3, 8)
    (program,) = programs_of(indexed, "lowering", i, i.clone(), x, x.clone())
    wanted = [
        {line for line, words in marks(indexed).items() if word in words}
        for word in ("first", "second")
    ]
    (kernel,) = kernels_in(program)
    assert lines_named(program, kernel) > set.union(*wanted)
    checks = [line for line in program.lines if isinstance(line, AssertScalarLine)]
    assert [lines_named(program, line) for line in checks] == wanted
    (code,) = [line for line in program.lines if isinstance(line, SymbolDefinitionLine)]
    assert lines_named(program, code) == set.union(*wanted)


def copied(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x @ w  # product
    y = y.view(4, 8, 2, 16)  # copy
    y = y.transpose(1, 2)  # copy
    z = y @ y.transpose(2, 3)  # copy
    return z.exp()  # last


@pytest.mark.parametrize("frontend", ["inductor", *FRONTENDS])
def test_a_copy_names_the_views_that_made_it_necessary(frontend: str) -> None:
    inputs = torch.randn(32, 16), torch.randn(16, 32)
    (program,) = programs_of(copied, frontend, *inputs)
    table = OriginTable(program)
    copies = [
        line
        for line in kernels_in(program)
        if "aten.exp.default" not in {x.operator for x in table.of(line.provenance)}
    ]
    wanted = {line for line, words in marks(copied).items() if "copy" in words}
    assert copies
    assert set().union(*(lines_named(program, each) for each in copies)) == wanted
