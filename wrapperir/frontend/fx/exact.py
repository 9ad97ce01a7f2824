"""Unchanged graphs of the FX emitter."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)
from torch.fx import GraphModule, Node

from wrapperir import ir as wir
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.pipeline import find_emitter
from wrapperir.frontend import Lowered
from wrapperir.fx import GraphBuilder, GraphParts, recorded_program, triton_definition


def lower_exactly(module: GraphModule) -> Lowered | None:
    """Return the program that a graph was built from; ``None`` for a changed graph.

    The FX emitter builds the graph of the program in the metadata again, and both graphs
    are compared.
    """
    program = recorded_program(module)
    parts = None if program is None else _built_graph(program)
    if program is None or parts is None:
        return None
    if not _are_same(module, parts, program.definitions):
        return None
    tensors = {
        key: getattr(module, attribute)
        for attribute, key in parts.attributes.constants.items()
    }
    return Lowered(program, tensors)


def _built_graph(program: wir.Program) -> GraphParts | None:
    """Return the graph that the FX emitter builds; ``None`` if it is not installed."""
    try:
        emitter = find_emitter("fx")
        return emitter.build_graph(program) if isinstance(emitter, GraphBuilder) else None
    except DiagnosticError:
        return None


def _are_same(
    module: GraphModule, parts: GraphParts, definitions: Sequence[wir.DefinitionLine]
) -> bool:
    """Say whether a module has the graph and the attributes of ``parts``, just built."""
    attributes = parts.attributes
    held = (*attributes.constants, *attributes.workspaces, *attributes.graphs)
    mine, built = list(module.graph.nodes), list(parts.graph.nodes)
    if len(mine) != len(built) or not all(hasattr(module, name) for name in held):
        return False
    twins: dict[Node, Node] = {}
    for node, twin in zip(mine, built, strict=True):
        if not _is_same_call(node, twin, twins, definitions):
            return False
        twins[node] = twin
    for name, nested in attributes.graphs.items():
        graph: Any = getattr(module, name)
        if not (isinstance(graph, GraphModule) and _are_same(graph, nested, definitions)):
            return False
    return True


def _is_same_call(
    node: Node,
    twin: Node,
    twins: dict[Node, Node],
    definitions: Sequence[wir.DefinitionLine],
) -> bool:
    if node.op != twin.op or node.target != twin.target:
        return False
    theirs: dict[str, Any] = dict(twin.kwargs)
    own: dict[str, Any] = dict(node.kwargs)
    if node.target is triton_kernel_wrapper_mutation:
        if not _is_same_kernel(own, theirs, definitions):
            return False
        for key in ("kernel_idx", "constant_args_idx"):
            del own[key], theirs[key]
    return _same((node.args, own), (twin.args, theirs), twins)


def _is_same_kernel(
    own: dict[str, Any], theirs: dict[str, Any], definitions: Sequence[wir.DefinitionLine]
) -> bool:
    index, constants = own["kernel_idx"], own["constant_args_idx"]
    if (index, constants) == (theirs["kernel_idx"], theirs["constant_args_idx"]):
        return True  # not bound yet
    try:
        known = triton_definition(kernel_side_table.get_kernel(index))
        given = kernel_side_table.get_constant_args(constants)
    except AssertionError:
        return False
    if given or known is None:
        return False
    place: int = theirs["kernel_idx"]
    definition = definitions[place]
    return bool(evolve(known, provenance=None) == evolve(definition, provenance=None))


def _same(own: Any, theirs: Any, twins: dict[Node, Node]) -> bool:
    """Compare arguments: numbers by type and value, nodes as twins."""
    if isinstance(own, Node):
        return twins.get(own) is theirs
    if isinstance(own, list | tuple) and isinstance(theirs, list | tuple):
        items: list[Any] = list(own)  # pyright: ignore[reportUnknownArgumentType]
        others: list[Any] = list(theirs)  # pyright: ignore[reportUnknownArgumentType]
        return len(items) == len(others) and all(
            _same(item, other, twins) for item, other in zip(items, others, strict=True)
        )
    if isinstance(own, dict) and isinstance(theirs, dict):
        return list(own) == list(theirs) and all(  # pyright: ignore
            _same(own[key], theirs[key], twins)
            for key in own  # pyright: ignore
        )
    if isinstance(own, float) and isinstance(theirs, float):
        return own.hex() == theirs.hex()
    return type(own) is type(theirs) and bool(own == theirs)  # pyright: ignore
