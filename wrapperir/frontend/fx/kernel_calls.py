"""Calls of kernels and multi-kernels through ``torch.ops.wrapperir``."""

from typing import Any

import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.arguments import kernel_argument
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.fx.state import shared_of
from wrapperir.frontend.fx.streams import on_current_stream
from wrapperir.frontend.provenance import node_provenance
from wrapperir.fx import (
    argument_order,
    deciding_parameters,
    registered_definition,
    registered_multi_kernel,
    split_key,
)
from wrapperir.ir import (
    CPU,
    BufferRef,
    DefinitionLine,
    Device,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    TensorParameter,
    TensorType,
    runtime_parameters,
)


def lower_kernel_call(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append the call of a kernel that the graph names by its key.

    Raises:
        DiagnosticError: WIR607, no kernel of that key is known.
    """
    key, *lists = node.args
    name, shared = split_key(str(key))
    definition = _definition(scope, name)
    given: list[Any] = [value for values in lists for value in list_of(values)]
    order = argument_order(definition, shared)
    arguments = tuple(kernel_argument(scope, given[place]) for place in order)
    append_kernel_call(scope, node, definition, arguments)


def lower_multi_kernel_call(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append the call of a multi-kernel that the graph names by its key.

    Raises:
        DiagnosticError: WIR607, no multi-kernel of that key is known.
    """
    key, *lists, deciding = node.args
    name, shared = split_key(str(key))
    known = shared_of(scope).known_multi_kernels.get(name) or registered_multi_kernel(name)
    if known is None:
        raise _unknown(name)
    given: list[Any] = [value for values in lists for value in list_of(values)]
    values = [given[place] for place in argument_order(known.line, shared)]
    # What decides is what the program gives, before it is a number of another type.
    numbers = zip(deciding_parameters(known.line), list_of(deciding), strict=True)
    for place, value in numbers:
        values[place] = value
    arguments = tuple(kernel_argument(scope, value) for value in values)
    name = shared_of(scope).define_multi_kernel(known)
    _append_call(scope, node, name, known.line, arguments)


def list_of(values: Any) -> list[Any]:
    """Return the elements of a list among a node's arguments."""
    return list(values)


def append_kernel_call(
    scope: GraphScope,
    node: torch.fx.Node,
    definition: KernelDefinitionLine,
    arguments: tuple[KernelArgument, ...],
    *,
    inferred: bool = False,
) -> None:
    """Append a kernel call, and the kernel's definition where it is new.

    ``inferred`` says that the access modes come from the kernel's code alone.
    """
    name = shared_of(scope).define(definition, inferred=inferred)
    _append_call(scope, node, name, definition, arguments)


def _append_call(
    scope: GraphScope,
    node: torch.fx.Node,
    name: str,
    definition: DefinitionLine,
    arguments: tuple[KernelArgument, ...],
) -> None:
    parameters = runtime_parameters(definition.parameters)
    for parameter, argument in zip(parameters, arguments, strict=True):
        writes = isinstance(parameter, TensorParameter) and parameter.access.writes
        if writes and isinstance(argument, BufferRef):
            scope.write(argument.name)
    line = KernelCallLine(
        kernel=name,
        arguments=arguments,
        device=_device(scope, arguments),
        provenance=node_provenance(node),
    )
    scope.lines.append(on_current_stream(scope, line))
    scope.values[node] = None


def _device(scope: GraphScope, arguments: tuple[KernelArgument, ...]) -> Device:
    for argument in arguments:
        if isinstance(argument, BufferRef):
            type = scope.types[argument.name]
            if isinstance(type, TensorType):
                return type.device
    return CPU


def _definition(scope: GraphScope, key: str) -> KernelDefinitionLine:
    found = shared_of(scope).known_kernels.get(key) or registered_definition(key)
    if found is None:
        raise _unknown(key)
    return found


def _unknown(key: str) -> DiagnosticError:
    return DiagnosticError.of(
        Code.UNKNOWN_KERNEL,
        f"no kernel {key[:160]!a} is registered in this process",
        hint="read the graph in the process that made it",
    )
