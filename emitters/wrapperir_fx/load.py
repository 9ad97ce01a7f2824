"""From an artifact to what runs its graph."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping

import torch

from wrapperir.emit.contract import Artifact, GraphCompiler, Loaded, Value
from wrapperir.text import parse_program
from wrapperir_fx.boxed import boxed
from wrapperir_fx.graph_module import build_graph_module


def load_graph(
    artifact: Artifact,
    constants: Mapping[str, torch.Tensor],
    compile_graph: GraphCompiler | None,
) -> Loaded:
    """Build the graph of an artifact and return what runs it.

    Raises:
        DiagnosticError: a constant is missing, or a kernel does not compile.
    """
    text = artifact.files[artifact.entry]
    assert isinstance(text, str)
    module = build_graph_module(parse_program(text), constants)
    if compile_graph is None:
        return boxed(module)
    compiled = compile_graph(module)

    def run(inputs: list[Value]) -> tuple[Value, ...]:
        given = tuple(inputs)
        inputs.clear()
        return tuple(compiled(*given))

    return run
