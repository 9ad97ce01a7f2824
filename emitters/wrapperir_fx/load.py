"""From an artifact to what runs its graph."""

from collections.abc import Mapping

import torch

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.constants import check_constants
from wrapperir.emit.contract import Artifact, GraphCompiler, Loaded
from wrapperir.text import parse_program
from wrapperir_fx.boxed import boxed
from wrapperir_fx.graph_compilers import compiled
from wrapperir_fx.graph_module import build_graph_module
from wrapperir_fx.kept_streams import keep_streams


def load_graph(
    artifact: Artifact,
    constants: Mapping[str, torch.Tensor],
    compile_graph: GraphCompiler | None,
) -> Loaded:
    """Build the graph of an artifact and return what runs it.

    Raises:
        DiagnosticError: a constant is missing or of another type, a kernel does not
            compile, or WIR713, ``compile_graph`` fails.
    """
    text = artifact.files[artifact.entry]
    assert isinstance(text, str)
    program = parse_program(text)
    wrong = check_constants(program, constants)
    if wrong:
        raise DiagnosticError(*wrong)
    module = build_graph_module(program, constants)
    if compile_graph is None:
        return keep_streams(boxed(module), module.graph)
    call = compiled(module, compile_graph, len(program.outputs))
    return keep_streams(call, module.graph)
