"""Objects that a graph is given and returns: they pass around its program.

They are script objects, generators, the meshes of distributed tensors and the sizes of
jagged tensors.  A program is given the objects that its operators take.  For another object
it takes 0 and returns ``None``: the call of the program replaces these.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.singleton_int import SingletonInt

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor.versions import CONSTANT_OBJECT
from wrapperir.frontend.passed_objects import PassedObjects, PassedResult
from wrapperir.ir.line_effects import uses


def has_objects(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Say whether a graph is given, has or returns objects."""
    values = list(inputs)
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            held: Any = graph
            for name in str(node.target).split("."):
                held = getattr(held, name)
            values.append(held)
        elif node.op == "output":
            values += [
                x for x in tree_leaves(node.args) if not isinstance(x, torch.fx.Node)
            ]
    return not all(map(_is_plain, values))


def _is_plain(value: Any) -> bool:
    if isinstance(value, torch.SymInt):
        shape_env: Any = getattr(value.node, "shape_env", None)
        if shape_env is None:
            return False
        known = shape_env.backed_var_to_val.get(value.node.expr)
        return not isinstance(known, SingletonInt)
    plain = (torch.Tensor, torch.fx.GraphModule, torch.SymFloat, torch.SymBool)
    return value is None or isinstance(value, (int, float, *plain))


def is_object(graph: Any, value: object) -> bool:
    """Say whether a graph's input is an object, or the size of a jagged tensor."""
    if isinstance(value, sympy.Symbol):
        hints = graph.sizevars.shape_env.backed_var_to_val
        return isinstance(hints.get(value), SingletonInt)
    return isinstance(value, ir.NonTensorObj)


def take_results(graph: Any, nodes: Sequence[Any], passed: PassedObjects) -> list[Any]:
    """Return the outputs of a graph as its program makes them; note the objects.

    Raises:
        DiagnosticError: WIR653, an output is no multiple of the size of a jagged tensor.
    """
    names = list(graph.graph_input_names)
    sizes = {
        graph.graph_inputs[name]: position
        for position, name in enumerate(names)
        if isinstance(graph.graph_inputs.get(name), sympy.Symbol)
        and is_object(graph, graph.graph_inputs[name])
    }
    inside = list(nodes)
    for position, node in enumerate(nodes):
        while isinstance(node, ir.MutableBox):
            node = node.data
        if isinstance(node, ir.NonTensorObj):
            name = node.get_name()
            given = names.index(name) if name in names else None
            value = None if given is not None else _object_of(node)
            passed.results.append(PassedResult(position, given, value))
            inside[position] = ir.NoneAsConstantBuffer()
        elif isinstance(node, ir.ShapeAsConstantBuffer) and sizes:
            mentioned = node.get_free_symbol_uses()
            found = [size for size in sizes if size in mentioned]
            if found:
                times = sympy.cancel(node.expr / found[0])
                if times.free_symbols & sizes.keys():
                    raise Code.INDUCTOR_VALUE.error(
                        f"the output {node.expr} of the size of a jagged tensor has no form"
                        " in a program",
                        hint="return the tensor, not numbers made of its size",
                    )
                scaled = times != 1
                passed.results.append(
                    PassedResult(position, sizes[found[0]], scaled=scaled)
                )
                inside[position] = (
                    ir.ShapeAsConstantBuffer(expr=times)
                    if scaled
                    else ir.NoneAsConstantBuffer()
                )
    return inside


def _object_of(node: Any) -> object:
    """Return the object that a node of a graph's own stands for."""
    return node.value if isinstance(node, CONSTANT_OBJECT) else node.get_real_obj()


def give_objects(
    graph: Any,
    types: dict[str, wir.ValueType],
    lines: Sequence[wir.BodyLine],
    passed: PassedObjects,
) -> None:
    """Hide inputs that are objects and that no line uses; add objects that lines use."""
    used = {name for line in lines for name in uses(line)}
    for position, name in enumerate(graph.graph_input_names):
        if name not in used and is_object(graph, graph.graph_inputs.get(name)):
            types[name] = wir.ScalarType(wir.DType.I64)
            passed.hidden.append(position)
    own: Mapping[str, Any] = graph.torchbind_constants
    for name, value in own.items():
        if name in used:
            types[name] = wir.OpaqueType("object")
            passed.added.append(getattr(value, "real_obj", value))
