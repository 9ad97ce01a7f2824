"""Keys of traced graphs: graphs of one key are lowered to the same program."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import _decomp
from torch._guards import detect_fake_mode
from torch._ops import OperatorBase, OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from wrapperir.caching import digest_of
from wrapperir.frontend.aten.values import (
    expr_of,
    is_symbolic,
    jagged_size_in,
    original_expr_of,
    symbols_of,
)
from wrapperir.frontend.provenance import node_facts

_MOST_BYTES = 1 << 20
_OURS = ("aten", "prims", "prim")
_ATOMS = torch.dtype | torch.device | torch.layout | torch.memory_format | complex


class NoKeyError(Exception):
    """A graph has something that a key does not tell."""


def graph_key(module: torch.fx.GraphModule, settings: object) -> str | None:
    """Return the digest of a graph, of what is known of its sizes, and of ``settings``.

    The graph includes the user's lines, which programs name, and the elements of tensors
    that it holds.  ``None``: the graph has an object that a key does not tell.
    """
    try:
        facts = {
            "graph": _graph_facts(module),
            "symbols": _symbol_facts(module.graph),
            "settings": settings,
            "torch": [torch.__version__, torch.version.cuda],
            "machine": _machine_facts([n.meta.get("val") for n in module.graph.nodes]),
            "dtype": str(torch.get_default_dtype()),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }
        return digest_of(facts)
    except NoKeyError:
        return None


def dynamo_graph_key(module: torch.fx.GraphModule, settings: object) -> str | None:
    """Return the digest of what PyTorch's key of a graph that Dynamo traced leaves out.

    That is ``settings``, the user's lines, elements of tensors that the graph holds, and
    what the lowering reads beside the graph.  ``None``: a function of the user's takes
    part, as the decomposition of an operator, or a tensor is too large.
    """
    table: Mapping[Any, Any] = _decomp.decomposition_table
    if any(made.__module__.partition(".")[0] != "torch" for made in table.values()):
        return None
    graphs = [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    nodes = [node for each in graphs for node in each.graph.nodes]
    held = [
        (name, value)
        for each in module.modules()
        for name, value in vars(each).items()
        if isinstance(value, torch.Tensor)
    ]
    try:
        elements = [[name, _elements_digest(value)] for name, value in held]
    except NoKeyError:
        return None
    facts = {
        "lines": [node_facts(node) for node in nodes],
        "settings": settings,
        "machine": _machine_facts([node.meta.get("example_value") for node in nodes]),
        "dtype": str(torch.get_default_dtype()),
        "held": elements,
    }
    return digest_of(facts)


def guard_count(graph: torch.fx.Graph) -> int:
    """Return how many guards and replacements of symbols there are so far."""
    shapes = _shapes(graph)
    if shapes is None:
        return 0
    asserts = shapes.num_deferred_runtime_asserts
    return len(shapes.guards) + len(shapes.replacements) + int(asserts)


def _shapes(graph: torch.fx.Graph) -> Any:
    mode = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    return None if mode is None else mode.shape_env


def _graph_facts(module: Any) -> list[object]:
    return [
        [
            *(node.op, node.name, _target(module, node)),
            *(_argument(node.args), _argument(node.kwargs)),
            _argument(node.meta.get("val")),
            node_facts(node),
        ]
        for node in module.graph.nodes
    ]


def _target(module: Any, node: torch.fx.Node) -> object:
    target: Any = node.target
    if node.op == "get_attr":
        held: Any = module
        for part in str(target).split("."):
            held = getattr(held, part)
        if isinstance(held, torch.fx.GraphModule):
            return [target, _graph_facts(held)]
        if not isinstance(held, torch.Tensor):
            raise NoKeyError
        return [target, _argument(held), _elements_digest(held)]
    if isinstance(target, OpOverload):
        custom: Any = _decomp.decomposition_table
        if target.namespace not in _OURS and target in custom:
            raise NoKeyError  # a function of the user's
        return str(target)
    if isinstance(target, str | OperatorBase):
        return str(target)
    return f"{target.__module__}.{target.__qualname__}"


def _elements_digest(held: torch.Tensor) -> str:
    if held.numel() * held.itemsize > _MOST_BYTES:
        raise NoKeyError
    with unset_fake_temporarily():
        flat = held.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def _argument(value: Any) -> object:
    """Return the facts of an argument or of an example."""
    if isinstance(value, torch.fx.Node):
        return ["node", value.name]
    if isinstance(value, torch.Tensor):
        if is_traceable_wrapper_subclass(value) or value.layout is not torch.strided:
            raise NoKeyError
        numbers = [*value.shape, *value.stride(), value.storage_offset()]
        flags = value.is_conj(), value.is_neg(), value.requires_grad
        return ["tensor", str(value.dtype), str(value.device), flags, _argument(numbers)]
    if is_symbolic(value):
        if jagged_size_in(value) is not None:
            raise NoKeyError  # what is kept knows of no objects around the program
        return ["symbol", str(expr_of(value)), str(original_expr_of(value))]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_argument, value)]
    if isinstance(value, dict):
        return ["dict", *([str(name), _argument(item)] for name, item in value.items())]
    if isinstance(value, slice):
        return ["slice", *map(_argument, (value.start, value.stop, value.step))]
    if value is None or isinstance(value, bool | int | float | str | OperatorBase | _ATOMS):
        return [type(value).__name__, str(value)]
    raise NoKeyError


def _symbol_facts(graph: torch.fx.Graph) -> list[object]:
    """Return the ranges of a graph's symbols, and the guards, if there are symbols."""
    shapes = _shapes(graph)
    names = set(symbols_of([node.meta.get("val") for node in graph.nodes]))
    if shapes is None or not names:
        return []
    ranges = sorted(
        (symbol.name, str(bounds.lower), str(bounds.upper), bool(symbol.is_integer))
        for symbol, bounds in shapes.var_to_range.items()
    )
    return [ranges, [str(guard.expr) for guard in shapes.guards]]


def _machine_facts(values: list[Any]) -> list[object]:
    """Return what kernels depend on of the processor and of the devices of tensors."""
    leaves = pytree.tree_leaves(values)
    devices = {value.device for value in leaves if isinstance(value, torch.Tensor)}
    gpus = sorted((device for device in devices if device.type == "cuda"), key=str)
    return [
        torch.get_num_threads(),
        torch.backends.cpu.get_cpu_capability(),
        *[str(torch.cuda.get_device_properties(device)) for device in gpus],
    ]
