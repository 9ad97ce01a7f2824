"""The option ``compile_graph``: how it reaches an emitter that makes graphs."""

from collections.abc import Mapping

import pytest
import torch

from wrapperir.backend import compile_lowered, read_options
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Artifact, Emitter, GraphCompiler, Loaded, Support
from wrapperir.frontend import Lowered
from wrapperir.ir import Program, tensor
from wrapperir.ir.builder import ProgramBuilder


class Doubling(Emitter):
    """Makes a graph of its own for any program: twice the input."""

    name = "doubling"
    support = Support()

    def __init__(self, compile_graph: GraphCompiler | None = None) -> None:
        self.compile_graph = compile_graph

    def compiling_graphs(self, compile_graph: GraphCompiler) -> "Doubling":
        return Doubling(compile_graph)

    def emit(self, program: Program) -> Artifact:
        return Artifact(self.name, {"a": "b"}, "a")

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        assert self.compile_graph is not None
        compiled = self.compile_graph(torch.fx.symbolic_trace(lambda x: (x * 2,)))
        return lambda inputs: tuple(compiled(*inputs))


def lowered() -> Lowered:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (2,)), name="x")
    return Lowered(b.build(x), {})


def test_an_emitter_of_graphs_is_given_the_function() -> None:
    seen: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
        seen.append(graph)
        return graph

    options = read_options({"emitter": Doubling(), "compile_graph": keep})
    call = compile_lowered(lowered(), options, "forward")
    (out,) = call([torch.ones(2)])
    assert isinstance(out, torch.Tensor)
    assert out.tolist() == [2, 2]
    assert len(seen) == 1


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_an_emitter_without_graphs_says_which_makes_them(emitter: str) -> None:
    options = read_options({"emitter": emitter, "compile_graph": lambda graph: graph})
    expected = rf"WIR705: the {emitter} emitter makes no graphs .*the fx emitter does"
    with pytest.raises(DiagnosticError, match=expected):
        compile_lowered(lowered(), options, "forward")
