"""The statements of kernels are for the nodes that they compute, and for no others."""

from collections.abc import Callable, Iterable

import pytest
import torch

from wrapperir.frontend.lowering.exported import lower_exported
from wrapperir.lowering.cpp.renderer import CppRenderer
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.renderer import KernelSequence, LoopKernel, Renderer
from wrapperir.lowering.substitution import computed_origins
from wrapperir.lowering.triton.renderer import TritonRenderer
from wrapperir.view.kernel_sources import rows_of_launches

RENDERERS: list[type[Renderer]] = [CppRenderer, TritonRenderer]


def launches_of(
    function: Callable[..., object], *inputs: torch.Tensor
) -> list[KernelLaunch]:
    """Return the launches of the kernels of a function."""

    class Module(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> object:
            return function(*given)

    stages = lower_exported(torch.export.export(Module(), inputs))
    return [item for item in stages.schedule.items if isinstance(item, KernelLaunch)]


def statements(
    renderer: Renderer, kernel: LoopKernel | KernelSequence
) -> list[tuple[str, set[str]]]:
    """Return the rows of a kernel's own code, with the nodes of each."""
    found = renderer.source_origins(kernel)
    assert found is not None
    if isinstance(kernel, KernelSequence):
        definition = renderer.render_sequence(kernel)
    else:
        definition = renderer.render_kernel(kernel)
    rows = definition.source.rstrip().split("\n")
    first = kernel.parts[0].kernel if isinstance(kernel, KernelSequence) else kernel
    assert f"{first.name}(" in rows[found.begin]
    assert min(found.rows) > found.begin
    assert max(found.rows) < len(rows)
    own = range(found.begin, len(rows))
    return [(rows[n].strip(), {x.name for x in found.rows.get(n, ())}) for n in own]


def rows_with(found: Iterable[tuple[str, set[str]]], *texts: str) -> list[set[str]]:
    return [nodes for row, nodes in found if any(text in row for text in texts)]


@pytest.mark.parametrize("renderer", RENDERERS)
def test_each_statement_of_a_fused_kernel_has_its_node(renderer: type[Renderer]) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.exp() * y.t()).sin().cos()

    (launch,) = launches_of(function, torch.randn(8, 16), torch.randn(16, 8))
    found = statements(renderer(), launch.kernel)
    assert rows_with(found, "exp(") == [{"exp"}]
    assert rows_with(found, "sin(") == [{"sin"}]
    assert rows_with(found, "cos(") == [{"cos"}]
    reads = rows_with(found, "= p0[", "= p1[", "tl.load", "load_transposed")
    assert {"exp"} in reads
    assert {"mul", "permute"} in reads or {"mul", "t"} in reads
    assert rows_with(found, "p2[i", "p2[(", "tl.store") == [{"cos"}]
    loops = rows_with(found, "for (", "tl.program_id", "{ //", "#pragma")
    assert loops
    assert not any(loops)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_statements_of_reductions_have_their_nodes(renderer: type[Renderer]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.exp() - x.exp().sum(1, keepdim=True).log()

    (launch,) = launches_of(function, torch.randn(16, 600))
    found = statements(renderer(), launch.kernel)
    assert all({"exp"} <= nodes <= {"exp", "exp_1"} for nodes in rows_with(found, " exp("))
    assert rows_with(found, "log(") == [{"log"}]
    assert {"sub"} in [nodes for _, nodes in found]
    sums = [nodes for _, nodes in found if "sum_1" in nodes]
    assert len(sums) >= 2


def test_a_statement_that_computes_two_equal_nodes_has_both() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.exp().sqrt() * x.exp().log()

    (launch,) = launches_of(function, torch.randn(64))
    found = statements(CppRenderer(), launch.kernel)
    assert rows_with(found, "exp(") == [{"exp", "exp_1"}]
    assert rows_with(found, "sqrt(") == [{"sqrt"}]


def test_rows_of_a_kernel_of_several_launches_have_the_nodes_of_each() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((x.exp() @ w).exp() @ w).exp()

    _, first, second = launches_of(function, torch.randn(16, 16), torch.randn(16, 16))
    assert first.kernel == second.kernel
    (rows,) = rows_of_launches([first, second]).values()
    assert ("exp_1", "exp_2") in rows.nodes.values()
    found = statements(CppRenderer(), second.kernel)
    assert rows_with(found, "exp(") == [{"exp_2"}]


def test_the_functions_of_a_sequence_and_their_calls_have_their_nodes() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin().sum(0), x.cos().sum(1)

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return function(x)

    stages = lower_exported(torch.export.export(Module(), (torch.randn(16, 32),)))
    (joined,) = stages.joined
    found = statements(CppRenderer(), joined.kernel)
    assert rows_with(found, " sin(") == [{"sin"}]
    assert rows_with(found, " cos(") == [{"cos"}]
    calls = [nodes for row, nodes in found if row.endswith(";") and "(p0, p" in row]
    assert sorted(map(sorted, calls)) == [["cos", "sum_2"], ["sin", "sum_1"]]


def scattered(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    zeros = torch.zeros(3, 16, 32)
    parts = [torch.select_scatter(zeros, each, 0, n) for n, each in enumerate((x, y, z))]
    return (parts[0] + parts[1] + parts[2]).permute(1, 2, 0).contiguous()


def viewed_sums(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
    product = x.t().sin() * y.t()
    return [product.sum(0), (z.sin() * 1).cos().sum(1)]


@pytest.mark.parametrize("function", [scattered, viewed_sums])
def test_parts_of_a_sequence_have_the_nodes_that_they_compute(
    function: Callable[..., object],
) -> None:
    """Nodes that were fused, but are only stored by another part, are not a part's."""

    class Module(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> object:
            return function(*given)

    inputs = (torch.randn(16, 32), torch.randn(16, 32), torch.randn(16, 32))
    stages = lower_exported(torch.export.export(Module(), inputs))
    (joined,) = stages.joined
    (rows,) = rows_of_launches([joined]).values()
    assert [name for name, _ in rows.parts] == [x.kernel.name for x in joined.launches]
    for (_, names), part in zip(rows.parts, joined.launches, strict=True):
        computed = {x.name for x in computed_origins(part.kernel.nest)}
        assert computed <= {*names}
    if function is scattered:
        assert rows.parts[0][1] == ("full",)
    every = {name for _, names in rows.parts for name in names}
    assert every >= {each.name for each in joined.origins}
