"""Lowering of a graph node by node."""

from collections.abc import Mapping
from typing import Any

import torch
from attrs import evolve
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.graph import finished_program, lower_given, lower_nodes
from wrapperir.frontend.aten.scope import GraphScope, Poison
from wrapperir.frontend.aten.values import is_symbolic
from wrapperir.frontend.fx.contents import recover_workspaces, settle_accesses
from wrapperir.frontend.fx.dialect import lower_in_dialect
from wrapperir.frontend.fx.pools import keep_last_frees, recover_pools
from wrapperir.frontend.fx.state import FxShared, example_of
from wrapperir.fx import header_of


def lower_structure(module: GraphModule) -> Lowered:
    """Return the program that the nodes of a graph describe.

    Raises:
        DiagnosticError: one for each node that cannot be lowered.
    """
    header = header_of(module)
    known = {} if header is None else {line.name: line for line in header.definitions}
    keys = {} if header is None else {held.name: held.key for held in header.constants}
    shared = FxShared(_ranges(module), lower_in_dialect, known=known, keys=keys)
    if header is not None:
        shared.origins.include(header)
    scope = GraphScope(shared, module)
    lower_given(scope, _placeholders(scope, module))
    lower_nodes(scope, module.graph.nodes)
    outputs = _outputs(scope, module)
    program = evolve(
        finished_program(scope, outputs),
        name=_class_name(module) if header is None else header.name,
        definitions=tuple(shared.definitions.values()),
    )
    settled = settle_accesses(keep_last_frees(program), shared.inferred)
    found = recover_workspaces(recover_pools(settled))
    return Lowered(wir.trim_origins(found), shared.tensors)


def _class_name(module: GraphModule) -> str:
    """Return the name of the class that a graph was traced of, if it has one."""
    name = type(module).__name__
    is_own = wir.is_identifier(name) and not name.startswith("GraphModule")
    return name if is_own else "main"


def _placeholders(scope: GraphScope, module: GraphModule) -> list[torch.fx.Node]:
    """Return the inputs; report those without an example value."""
    given: list[torch.fx.Node] = []
    for node in module.graph.find_nodes(op="placeholder"):
        try:
            example_of(node)
            given.append(node)
        except DiagnosticError as error:
            scope.poison(node, *error.diagnostics)
    return given


def _outputs(scope: GraphScope, module: GraphModule) -> tuple[wir.Argument, ...]:
    node = next(iter(reversed(module.graph.nodes)), None)
    if node is None or node.op != "output":
        raise Code.UNSUPPORTED_SIGNATURE.error("the graph has no output node")
    if any(isinstance(scope.values.get(n), Poison) for n in node.all_input_nodes):
        return ()
    returned = lower_argument(scope, node.args[0])
    outputs = returned if isinstance(returned, tuple) else (returned,)
    if any(isinstance(value, tuple) for value in outputs):
        raise Code.UNSUPPORTED_SIGNATURE.error(
            "the graph returns lists in a list",
            hint="return all values in one tuple",
        )
    return outputs


def _ranges(module: GraphModule) -> Mapping[Any, Any]:
    """Return the range of each symbol, from the shape environment of an example."""
    for node in module.graph.nodes:
        for leaf in pytree.tree_leaves(node.meta.get("val")):
            for number in _numbers_of(leaf):
                if is_symbolic(number):
                    ranges: Mapping[Any, Any] = number.node.shape_env.var_to_range
                    return ranges
    return {}


def _numbers_of(value: Any) -> tuple[Any, ...]:
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return (*value.size(), *value.stride(), value.storage_offset())
    return (value,)
