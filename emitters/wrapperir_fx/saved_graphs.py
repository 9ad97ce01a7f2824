"""Graph modules that are pickled node by node."""

# FX says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from attrs import evolve, frozen
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import PythonCode
from torch.fx.node import map_aggregate

from wrapperir.diagnostics import DiagnosticError
from wrapperir.fx import LINES, PROVENANCE, GraphParts, recorded_program
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.nodes import NoTracer

_KEPT = (LINES, PROVENANCE, "stack_trace")
"""Keys of ``node.meta`` that are saved; fake values are made again on loading."""
KERNELS = "_wrapperir_kernels"
"""The attribute of a module that has its kernels; no name of a program begins so."""
_DYNAMO = cast(Any, torch)._C._dynamo.eval_frame
_DEFAULT = _DYNAMO._FrameAction.DEFAULT
_STATE = ("meta", "training", KERNELS)


class ProgramModule(GraphModule):
    """The module of a graph; a pickle of it has the graph's nodes, with their lines."""

    def recompile(self) -> PythonCode:
        """Write the code of the graph anew, and let Dynamo compile it.

        Dynamo skips the code of graphs that is written while it compiles, as it is under
        ``torch.compile``.  Another ``torch.compile`` of this module would then not compile
        it.
        """
        code = super().recompile()
        strategy = _DYNAMO._FrameExecStrategy(_DEFAULT, _DEFAULT)
        _DYNAMO.set_code_exec_strategy(type(self).forward.__code__, strategy)
        return code

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what restores the module."""
        names = {
            node.target: functools.reduce(getattr, str(node.target).split("."), self)
            for node in self.graph.nodes
            if node.op in ("get_attr", "call_module")
        }
        state = {key: vars(self)[key] for key in _STATE if key in vars(self)}
        nodes = tuple([_saved(node) for node in self.graph.nodes])
        return restored_module, (nodes, names, state)


@frozen
class SavedNode:
    """A node as data: its arguments have a :class:`NodeName` for each node."""

    op: str
    name: str
    target: object
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    meta: Mapping[str, object]


@frozen
class NodeName:
    """The name of a node that is an argument."""

    name: str


@frozen
class OperatorName:
    """The name of an operator of the dispatcher: ``aten.mm.out``."""

    name: str


@frozen
class FormatName:
    """The name of a memory format of torch's, which older protocols of pickle refuse."""

    name: str


def restored_module(
    nodes: Sequence[SavedNode], held: Mapping[str, object], state: Mapping[str, object]
) -> ProgramModule:
    """Return the module of saved nodes; ``held`` has the attributes that these name."""
    graph = Graph(tracer_cls=NoTracer)
    known: dict[str, Node] = {}

    def named(value: object) -> Any:
        if isinstance(value, FormatName):
            return getattr(torch, value.name)
        return known[value.name] if isinstance(value, NodeName) else value

    for saved in nodes:
        args: Any = map_aggregate(saved.args, named)
        kwargs: Any = map_aggregate(dict(saved.kwargs), named)
        target = saved.target
        if isinstance(target, OperatorName):
            target = functools.reduce(getattr, target.name.split("."), torch.ops)
        node = graph.create_node(
            saved.op, cast(Callable[..., Any], target), args, kwargs, saved.name
        )
        node.meta.update(saved.meta)
        known[saved.name] = node
    module = ProgramModule(dict(held), graph)
    vars(module).update(state)
    _restore_values(module)
    return module


def _saved(node: Node) -> SavedNode:
    target: object = node.target
    if isinstance(target, OpOverload | HigherOrderOperator):
        namespace = "" if isinstance(target, OpOverload) else f"{target.namespace}."
        target = OperatorName(f"{namespace}{target}")
    meta = {key: node.meta[key] for key in _KEPT if key in node.meta}
    args: Any = map_aggregate(node.args, _name)
    kwargs: Any = map_aggregate(node.kwargs, _name)
    return SavedNode(node.op, node.name, target, args, dict(kwargs), meta)


def _name(value: object) -> Any:
    if isinstance(value, torch.memory_format):
        return FormatName(str(value).removeprefix("torch."))
    return NodeName(value.name) if isinstance(value, Node) else value


def _restore_values(module: GraphModule) -> None:
    """Give each node that is as its line makes it the ``val`` that it had.

    The lines of the graph are built again for that.  A changed node, and nodes that take
    its result, get no ``val``; no node gets one where the lines are not a valid program.
    """
    program = recorded_program(module)
    if program is None:
        return
    try:
        parts = build_graph(program)
    except DiagnosticError:
        return
    _restore(module, parts)


def _restore(module: GraphModule, parts: GraphParts) -> bool:
    """Restore the values of a graph and those nested in it; say whether all are alike."""
    changed: set[str] = set()
    for name, nested in parts.attributes.graphs.items():
        held: object = getattr(module, name, None)
        if not isinstance(held, GraphModule) or not _restore(held, nested):
            changed.add(name)
    built: dict[str, Node] = {node.name: node for node in parts.graph.nodes}
    alike: set[Node] = set()
    for node in module.graph.nodes:
        twin = built.get(node.name)
        if (
            twin is None
            or node.target in changed
            or not alike.issuperset(node.all_input_nodes)
            or _format_call(node) != _format_call(twin)
        ):
            continue
        alike.add(node)
        if "val" in twin.meta:
            node.meta["val"] = twin.meta["val"]
    return not changed and len(alike) == len(built) == len(module.graph.nodes)


def _format_call(node: Node) -> str:
    """Return a text that is the same for nodes that are called alike."""
    return repr(evolve(_saved(node), meta={}))
