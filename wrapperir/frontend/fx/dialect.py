"""Lowering of the nodes that only FX graphs have, not exported ones."""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
from torch._ops import HigherOrderOperator, OpOverload

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.control_flow import lower_named_block
from wrapperir.frontend.aten.graph import add_constant
from wrapperir.frontend.aten.operators import lower_operator
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.aten.sharing import returned_arguments
from wrapperir.frontend.aten.values import SCALARS, lower_device
from wrapperir.frontend.fx.checks import (
    CHECKS,
    is_in_nan_check,
    lower_assert_size_stride,
)
from wrapperir.frontend.fx.kernel_calls import (
    lower_kernel_call,
    lower_multi_kernel_call,
    lower_triton_call,
)
from wrapperir.frontend.fx.memory import (
    lower_aligned,
    lower_as_strided,
    lower_empty,
    lower_free,
    lower_kept,
    lower_laid_out,
    lower_retyped,
)
from wrapperir.frontend.fx.numbers import lower_number
from wrapperir.frontend.fx.state import example_of, shared_of
from wrapperir.frontend.fx.streams import STREAMS, on_current_stream
from wrapperir.fx import (
    KeptWorkspace,
    block_functions,
    call_kernel,
    call_multi_kernel,
    functions,
)
from wrapperir.operators import schema_of

Handler = Callable[[GraphScope, torch.fx.Node], None]


def _lower_nothing(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append nothing: the node only keeps others from being removed as dead."""


def _lower_graph_region(scope: GraphScope, node: torch.fx.Node) -> None:
    graph, name, device, stream, recordings, *values = node.args
    assert isinstance(name, str)
    assert isinstance(device, torch.device)
    assert isinstance(stream, int)
    assert isinstance(recordings, int)
    for value in (node, *values):
        if isinstance(value, torch.fx.Node):
            example_of(value)
    make = functools.partial(
        wir.GraphRegionLine,
        name=name,
        device=lower_device(device),
        stream=stream,
        recordings=recordings,
    )
    lower_named_block(scope, node, graph, values, make)


_FUNCTIONS: Mapping[Any, Handler] = {
    torch.empty_strided: lower_empty,
    torch.ops.aten.empty_strided.default: lower_empty,
    torch.as_strided: lower_as_strided,
    torch.ops.aten.as_strided.default: lower_as_strided,
    triton_kernel_wrapper_mutation: lower_triton_call,
    functions.free: lower_free,
    functions.aligned: lower_aligned,
    functions.aligned_part: lower_aligned,
    functions.empty_symmetric: lower_empty,
    functions.assert_size_stride: lower_assert_size_stride,
    block_functions.ran: _lower_nothing,
    block_functions.laid_out: lower_laid_out,
    block_functions.graph_region: _lower_graph_region,
    **STREAMS,
}
_OPERATORS: Mapping[str, Handler] = {
    **CHECKS,
    schema_of(call_kernel).name: lower_kernel_call,
    schema_of(call_multi_kernel).name: lower_multi_kernel_call,
}


def lower_in_dialect(scope: GraphScope, node: torch.fx.Node) -> bool:
    """Lower a node that only FX graphs have; return whether it is such a node.

    Raises:
        DiagnosticError: WIR602 to WIR607, the node has no form in a program.
    """
    try:
        return _lower(scope, node)
    except _MALFORMED as error:
        text = str(error).partition("\n")[0]
        raise Code.UNSUPPORTED_ARGUMENT.error(
            f"its arguments are not what it takes: {text[:200]}"
        ) from error


_MALFORMED = (AssertionError, IndexError, KeyError, TypeError, ValueError)
"""Exceptions of handlers that are given missing or wrong arguments."""


def _lower(scope: GraphScope, node: torch.fx.Node) -> bool:
    target: Any = node.target
    if node.op == "get_attr":
        return _lower_held(scope, node)
    if node.op == "call_module" and isinstance(scope.held(node), KeptWorkspace):
        lower_kept(scope, node)
        return True
    if node.op != "call_function":
        raise Code.UNSUPPORTED_OPERATOR.error(
            f"a graph that is read has no {node.op} nodes",
            hint="trace the module with torch.export or make_fx, which inline calls"
            if node.target != "_guards_fn"
            else "make the module with ExportedProgram.module(check_guards=False)",
        )
    handler = _FUNCTIONS.get(target)
    if handler is None and isinstance(target, OpOverload):
        handler = _OPERATORS.get(schema_of(target).name)  # pyright: ignore
    if handler is not None:
        scope.values[node] = None
        handler(scope, node)
        return True
    if is_in_nan_check(node):
        scope.values[node] = None
        return True
    if lower_number(scope, node):
        return True
    if target is torch.ops.aten.view.dtype and lower_retyped(scope, node):
        return True
    if isinstance(target, OpOverload):
        _check_examples(node, bool(returned_arguments(target, node)))  # pyright: ignore
        _lower_call(scope, node, target)
        return True
    if target is block_functions.packed:
        scope.values[node] = lower_argument(scope, node.args)
        return True
    if target is functions.call_operator:
        _lower_named_call(scope, node)
        return True
    if isinstance(target, HigherOrderOperator):
        _check_examples(node, False)
    elif target is not operator.getitem and not isinstance(node.meta.get("val"), SCALARS):
        raise Code.UNSUPPORTED_OPERATOR.error(
            "this is not a registered operator",
            hint="call operators as torch.ops has them, such as aten.relu.default",
        )
    return False


def _check_examples(node: torch.fx.Node, returns_given: bool) -> None:
    """Check that arguments and result of an operator call have example values."""
    for source in node.all_input_nodes:
        if source.op != "get_attr":
            example_of(source)
    if node.users and not returns_given:
        example_of(node)


def _lower_call(scope: GraphScope, node: torch.fx.Node, operator: Any) -> None:
    begin = len(scope.lines)
    lower_operator(scope, node, operator)
    for index in range(begin, len(scope.lines)):
        scope.lines[index] = on_current_stream(scope, scope.lines[index])


def _lower_named_call(scope: GraphScope, node: torch.fx.Node) -> None:
    """Lower the call of an operator that is named by a string."""
    name, args, keywords = node.args
    operator: Any = functools.reduce(getattr, str(name).split("."), torch.ops)
    given: Any = args
    named: Any = keywords
    call = torch.fx.Graph().create_node(
        "call_function", operator, tuple(given), dict(named), node.name
    )
    call.meta = node.meta
    try:
        _check_examples(node, bool(returned_arguments(operator, call)))
        _lower_call(scope, call, operator)
        scope.values[node] = scope.values.pop(call)
    finally:  # the arguments are not used by this node
        call.args, call.kwargs = (), {}


def _lower_held(scope: GraphScope, node: torch.fx.Node) -> bool:
    """Lower a read of a tensor of the module; return whether the node is one.

    Nodes that read the same tensor share one constant.
    """
    held = scope.held(node)
    if not isinstance(held, torch.Tensor):
        return False
    shared = shared_of(scope)
    name = shared.held.get(id(held))
    if name is None:
        key = shared.keys.get(str(node.target), str(node.target))
        name = shared.held[id(held)] = add_constant(scope, key, node.name, held)
    elif name not in scope.types:
        (known,) = [constant for constant in shared.constants if constant.name == name]
        scope.declare_root(name, known.type)
        scope.laid_out.add(name)
    scope.values[node] = wir.BufferRef(name)
    return True
