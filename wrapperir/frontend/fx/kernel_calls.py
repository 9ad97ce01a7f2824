"""Lowering of calls of kernels and multi-kernels, Triton kernels included."""

# Triton and PyTorch's wrapper of it carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from attrs import evolve
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.arguments import kernel_argument
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.fx.launch_grid import lower_launch
from wrapperir.frontend.fx.numbers import expressions
from wrapperir.frontend.fx.state import shared_of
from wrapperir.frontend.fx.streams import on_current_stream
from wrapperir.frontend.fx.triton_kernel import lower_triton_definition
from wrapperir.fx import (
    argument_order,
    deciding_parameters,
    registered_definition,
    registered_multi_kernel,
    split_key,
    triton_definition,
)


def lower_kernel_call(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append the call of a kernel that the graph names by its key.

    Raises:
        DiagnosticError: WIR607, no kernel of that key is known.
    """
    key, *lists = node.args
    name, shared = split_key(str(key))
    known = shared_of(scope).known_kernels.get(name) or registered_definition(name)
    if known is None:
        raise _unknown(name)
    given: list[Any] = list(chain.from_iterable(map(_list_of, lists)))
    values = [given[place] for place in argument_order(known, shared)]
    name = shared_of(scope).define(known, inferred=False)
    arguments = [kernel_argument(scope, value) for value in values]
    _append_call(scope, node, name, known, arguments)


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
    given: list[Any] = list(chain.from_iterable(map(_list_of, lists)))
    values = [given[place] for place in argument_order(known.line, shared)]
    # The policy reads the program's numbers, before they are converted.
    numbers = zip(deciding_parameters(known.line), _list_of(deciding), strict=True)
    for place, value in numbers:
        values[place] = value
    name = shared_of(scope).define_multi_kernel(known)
    arguments = [kernel_argument(scope, value) for value in values]
    _append_call(scope, node, name, known.line, arguments)


def _list_of(values: Any) -> list[Any]:
    return list(values)


def _append_call(
    scope: GraphScope,
    node: torch.fx.Node,
    name: str,
    definition: wir.DefinitionLine,
    arguments: Sequence[wir.KernelArgument],
) -> None:
    parameters = wir.runtime_parameters(definition.parameters)
    for parameter, argument in zip(parameters, arguments, strict=True):
        writes = isinstance(parameter, wir.TensorParameter) and parameter.access.writes
        if writes and isinstance(argument, wir.BufferRef):
            scope.write(argument.name)
    types = [scope.types[a.name] for a in arguments if isinstance(a, wir.BufferRef)]
    devices = [type.device for type in types if isinstance(type, wir.TensorType)]
    line = wir.KernelCallLine(
        kernel=name,
        arguments=tuple(arguments),
        device=devices[0] if devices else wir.CPU,
        provenance=scope.provenance(node),
    )
    scope.lines.append(on_current_stream(scope, line))


def _unknown(key: str) -> DiagnosticError:
    return _unreadable(
        f"no kernel {key[:160]!a} is registered in this process",
        "read the graph in the process that made it",
    )


def lower_triton_call(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append the call of a Triton kernel, and the kernel's definition if it is new.

    Raises:
        DiagnosticError: WIR607, the kernel has no form in a program.
    """
    index: Any = node.kwargs["kernel_idx"]
    constants_index: Any = node.kwargs["constant_args_idx"]
    try:
        kernel = kernel_side_table.get_kernel(index)
        constants = kernel_side_table.get_constant_args(constants_index)
    except AssertionError:
        raise _unreadable(
            f"kernel {index} is not in this process's table of Triton kernels",
            "read the graph in the process that made it, before torch._dynamo.reset()",
        ) from None
    kwargs: Any = node.kwargs["kwargs"]
    given: dict[str, Any] = {**kwargs, **constants}
    known = triton_definition(kernel)
    if known is None:
        definition = lower_triton_definition(node, kernel, given)
    else:
        definition = _with_values(known, given)
    arguments = {
        parameter.name: kernel_argument(scope, given[parameter.name])
        for parameter in wir.runtime_parameters(definition.parameters)
    }
    numbers = {
        parameter.name: argument
        for parameter in wir.runtime_parameters(definition.parameters)
        if isinstance(parameter, wir.ScalarParameter)
        and not isinstance(argument := arguments[parameter.name], wir.BufferRef)
    }
    definition, extra = lower_launch(definition, numbers, _grid(scope, node))
    arguments.update(extra)
    name = shared_of(scope).define(definition, inferred=known is None)
    ordered = [arguments[p.name] for p in wir.runtime_parameters(definition.parameters)]
    _append_call(scope, node, name, definition, ordered)


def _unreadable(message: str, hint: str) -> DiagnosticError:
    return Code.UNKNOWN_KERNEL.error(message, hint=hint)


def _grid(scope: GraphScope, node: torch.fx.Node) -> tuple[wir.Expr, ...]:
    """Return the grid of the first config, which a program launches."""
    grids: Any = node.kwargs["grid"]
    if callable(grids[0]):
        raise _unreadable("a launch grid is a function", "give the grid as numbers")
    return (*expressions(scope, grids[0]), 1, 1, 1)[:3]


def _with_values(
    definition: wir.KernelDefinitionLine, given: Mapping[str, Any]
) -> wir.KernelDefinitionLine:
    """Return a known kernel with the constants and options that a call gives it."""
    runtime = {
        parameter.name for parameter in wir.runtime_parameters(definition.parameters)
    }
    bound: dict[str, wir.Constant] = dict(definition.constants)
    if definition.configs:
        bound.update(definition.configs[0].values)
    changed = {key: value for key, value in given.items() if key not in runtime}
    if changed == bound:
        return definition
    constants = {key: changed[key] for key, _ in definition.constants if key in changed}
    values = tuple((key, v) for key, v in changed.items() if key not in constants)
    return evolve(
        definition, constants=tuple(constants.items()), configs=(wir.KernelConfig(values),)
    )
