"""Exported programs as programs of our own kernels."""

import warnings
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from attrs import evolve
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.signature import (
    HELD,
    MUTATIONS,
    RETURNED,
    held_name,
    held_tensor,
    inputs_by_target,
    tensor_identity,
    unsupported,
    with_tied_keys,
    without_unused_constants,
)
from wrapperir.frontend.aten.values import is_symbolic
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.lower import HeldTensor, LoweringStages, lower_to_program
from wrapperir.frontend.named_program import name_program
from wrapperir.frontend.user_names import exported_names
from wrapperir.lowering.schedule import Rounding


def lower_exported(
    exported: ExportedProgram,
    rounding: Rounding = Rounding.FUSED,
    kernel_device: str | None = None,
) -> LoweringStages:
    """Return the program of an exported module, with the stages before it.

    What the module has on the CPU is on a device of ``kernel_device``, if it is given.

    Inputs, outputs and constants are those of
    :func:`wrapperir.frontend.export.lower_exported`.

    Raises:
        DiagnosticError: WIR600 to WIR605, what neither loops nor lines express.
    """
    functional = decomposed(exported)
    module = functional.graph_module
    held: dict[torch.fx.Node, HeldTensor] = {}
    placeholders = module.graph.find_nodes(op="placeholder")
    specs = functional.graph_signature.input_specs
    for node, spec in zip(placeholders, specs, strict=True):
        if spec.kind in HELD:
            tensor = held_tensor(functional, node, spec)
            held[node] = HeldTensor(key=str(spec.target), tensor=tensor)
        elif spec.kind.name != "USER_INPUT":
            raise unsupported(f"input {node.name} is a {spec.kind.name}")
    lay_out_convolutions(module.graph)
    _write_back(functional, module.graph)
    _use_tied_once(held)
    names = {node.name for node in module.graph.nodes}
    for node, constant in held.items():
        name = held_name(constant.key, node.name, names)
        node._rename(name)  # pyright: ignore[reportPrivateUsage]
    stages = lower_to_program(module, rounding, held, kernel_device=kernel_device)
    program = name_program(stages.lowered.program, exported_names(exported))
    lowered = without_unused_constants(Lowered(program, stages.lowered.constants))
    return evolve(stages, lowered=with_tied_keys(lowered, exported))


def _use_tied_once(held: Mapping[torch.fx.Node, HeldTensor]) -> None:
    """Have the graph use the first of the inputs that are the same tensor."""
    first: dict[Hashable, torch.fx.Node] = {}
    for node, constant in held.items():
        known = first.setdefault(tensor_identity(constant.tensor), node)
        if known is not node:
            node.replace_all_uses_with(known)


def decomposed(exported: ExportedProgram) -> ExportedProgram:
    """Return the exported module with the operators that have loops, and no mutation."""
    with warnings.catch_warnings():  # torch copies trees in a way that it deprecates
        warnings.simplefilter("ignore", FutureWarning)
        changed: ExportedProgram = exported.run_decompositions(dict(table()))
    return changed


def _write_back(exported: ExportedProgram, graph: torch.fx.Graph) -> None:
    """Write new values of inputs to them in the graph, and leave what is returned."""
    inputs = inputs_by_target(exported)
    output = graph.output_node()
    results: Any = output.args[0]
    kept: list[Any] = []
    found: list[DiagnosticError] = []
    for value, spec in zip(results, exported.graph_signature.output_specs, strict=True):
        if spec.kind in MUTATIONS:
            target = inputs[str(spec.target)]
            if target is value:
                continue
            with graph.inserting_before(output):
                copied = graph.call_function(torch.ops.aten.copy_.default, (target, value))
            copied.meta["val"] = target.meta["val"]
        elif spec.kind in RETURNED and not isinstance(value, str):
            kept.append(value)
        else:
            what = "a string" if isinstance(value, str) else f"a {spec.kind.name}"
            found.append(unsupported(f"an output is {what}"))
    if found:
        raise DiagnosticError(*(each.diagnostics[0] for each in found))
    output.args = (tuple(kept),)


def lay_out_convolutions(graph: torch.fx.Graph) -> None:
    """Give the results of convolutions the layouts that libraries give them.

    Torch 2.11 exports convolutions of channels-last images on a GPU as contiguous, which
    cuDNN's results are not.  What is computed of them follows.  Examples of symbolic size
    stay.
    """
    changed: set[torch.fx.Node] = set()
    for node in graph.nodes:
        before = node.meta.get("val")
        if not isinstance(before, torch.Tensor) or not isinstance(node.target, OpOverload):
            continue
        is_convolution = node.target is torch.ops.aten.convolution.default
        if not is_convolution and changed.isdisjoint(node.all_input_nodes):
            continue
        stride = _stride_of_result(node)
        if stride is None or stride == before.stride():
            continue
        mode = detect_fake_mode(before)
        assert mode is not None
        with mode:
            node.meta["val"] = before.new_empty_strided(before.shape, stride)
        changed.add(node)


def _stride_of_result(node: torch.fx.Node) -> tuple[int, ...] | None:
    """Return the stride of what a node returns, of inputs like its examples."""
    examples = [each.meta.get("val") for each in node.all_input_nodes]
    sizes = [
        extent
        for each in examples
        if isinstance(each, torch.Tensor)
        for extent in (*each.shape, *each.stride())
    ]
    if any(map(is_symbolic, (*examples, *sizes))):
        return None
    target: Any = node.target

    def given(argument: Any) -> Any:
        if not isinstance(argument, torch.fx.Node):
            return argument
        value = argument.meta["val"]
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )

    with FakeTensorMode():
        args, kwargs = pytree.tree_map(given, (node.args, node.kwargs))
        result = target(*args, **kwargs)
    return tuple(result.stride())
