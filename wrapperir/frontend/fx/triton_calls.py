"""Calls of Triton kernels, through PyTorch's higher-order operator for them."""

# Triton and PyTorch's wrapper of it carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Mapping
from typing import Any

import torch
from attrs import evolve
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.arguments import kernel_argument
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.fx.kernel_calls import append_kernel_call
from wrapperir.frontend.fx.launch_grid import Launch, lower_launch
from wrapperir.frontend.fx.numbers import expressions
from wrapperir.frontend.fx.triton_kernel import lower_triton_definition
from wrapperir.fx import triton_definition
from wrapperir.ir import (
    BufferRef,
    Constant,
    Expr,
    KernelArgument,
    KernelConfig,
    KernelDefinitionLine,
    ScalarParameter,
    runtime_parameters,
)


def lower_triton_call(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append the call of a Triton kernel, and the kernel's definition where it is new.

    Raises:
        DiagnosticError: WIR607, the kernel has no form in a program.
    """
    index: Any = node.kwargs["kernel_idx"]
    constants_index: Any = node.kwargs["constant_args_idx"]
    try:
        kernel = kernel_side_table.get_kernel(index)
        constants = kernel_side_table.get_constant_args(constants_index)
    except AssertionError:
        raise unreadable(
            f"kernel {index} is not in this process's table of Triton kernels",
            "read the graph in the process that made it, before torch._dynamo.reset()",
        ) from None
    given: dict[str, Any] = {**_kwargs(node), **constants}
    known = triton_definition(kernel)
    if known is None:
        definition = lower_triton_definition(node, kernel, given)
    else:
        definition = _with_values(known, given)
    arguments = {
        parameter.name: kernel_argument(scope, given[parameter.name])
        for parameter in runtime_parameters(definition.parameters)
    }
    launch = lower_launch(definition, _numbers(definition, arguments), _grid(scope, node))
    definition = _launched(definition, launch)
    arguments.update(launch.extra)
    append_kernel_call(
        scope,
        node,
        definition,
        tuple(arguments[p.name] for p in runtime_parameters(definition.parameters)),
        inferred=known is None,
    )


def unreadable(message: str, hint: str | None = None) -> DiagnosticError:
    """Return the error for a kernel that has no form in a program."""
    return DiagnosticError.of(Code.UNKNOWN_KERNEL, message, hint=hint)


def _kwargs(node: torch.fx.Node) -> dict[str, Any]:
    given: Any = node.kwargs["kwargs"]
    return dict(given)


def _numbers(
    definition: KernelDefinitionLine, arguments: Mapping[str, KernelArgument]
) -> dict[str, Expr]:
    return {
        parameter.name: argument
        for parameter in runtime_parameters(definition.parameters)
        if isinstance(parameter, ScalarParameter)
        and not isinstance(argument := arguments[parameter.name], BufferRef)
    }


def _grid(scope: GraphScope, node: torch.fx.Node) -> tuple[Expr, ...]:
    """Return the grid of the first config, the one that a program launches."""
    grids: Any = node.kwargs["grid"]
    if callable(grids[0]):
        raise unreadable("a launch grid is a function", "give the grid as numbers")
    return (*expressions(scope, grids[0]), 1, 1, 1)[:3]


def _with_values(
    definition: KernelDefinitionLine, given: Mapping[str, Any]
) -> KernelDefinitionLine:
    """Return a known kernel with the constants and options that a call gives it."""
    runtime = {parameter.name for parameter in runtime_parameters(definition.parameters)}
    bound: dict[str, Constant] = dict(definition.constants)
    if definition.configs:
        bound.update(definition.configs[0].values)
    changed = {key: value for key, value in given.items() if key not in runtime}
    if changed == bound:
        return definition
    constants = {key: changed[key] for key, _ in definition.constants if key in changed}
    values = tuple((key, v) for key, v in changed.items() if key not in constants)
    return evolve(
        definition, constants=tuple(constants.items()), configs=(KernelConfig(values),)
    )


def _launched(definition: KernelDefinitionLine, launch: Launch) -> KernelDefinitionLine:
    return evolve(
        definition,
        grid=launch.grid,
        parameters=(*launch.parameters, *definition.parameters),
        source=launch.source,
    )
