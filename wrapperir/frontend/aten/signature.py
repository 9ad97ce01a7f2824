"""Signatures of exported programs: tensors that they hold, inputs that they write."""

import re
from collections.abc import Collection, Hashable
from typing import Any

import torch
from attrs import evolve
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend import Lowered
from wrapperir.ir import is_identifier
from wrapperir.ir.blocks import nested_blocks, walk_lines
from wrapperir.ir.line_effects import uses
from wrapperir.ir.mentions import buffers_in, source_buffer

HELD = frozenset({InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR})
"""Kinds of inputs that the module holds."""
RETURNED = frozenset({OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT})
"""Kinds of outputs that the module returns."""
MUTATIONS = frozenset(
    kind
    for name in ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")
    if (kind := getattr(OutputKind, name, None)) is not None
)
"""Kinds of outputs that are new values of inputs."""


def held_tensor(exported: ExportedProgram, node: torch.fx.Node, spec: Any) -> torch.Tensor:
    """Return the tensor that the module holds for an input of its graph.

    Raises:
        DiagnosticError: WIR605, it holds none.
    """
    key = str(spec.target)
    tensor: Any = exported.state_dict.get(key)
    if tensor is None:
        tensor = exported.constants.get(key)
    if not isinstance(tensor, torch.Tensor):
        raise unsupported(f"input {node.name} is a constant without a tensor, {key}")
    return tensor


def held_name(key: str, otherwise: str, taken: Collection[str]) -> str:
    """Return the name of a held tensor: ``fc_weight`` for the key ``fc.weight``.

    It is ``otherwise`` if the key makes no identifier, or one that is taken.
    """
    name = re.sub(r"\W", "_", key, flags=re.ASCII)
    return name if is_identifier(name) and name not in taken else otherwise


def tensor_identity(tensor: torch.Tensor) -> Hashable:
    """Return what tied tensors have in common: memory, layout and dtype."""
    # Without an address, as on the device meta, tensors are told apart by this alone.
    memory = tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
    return memory, tensor.storage_offset(), tensor.size(), tensor.stride(), tensor.dtype


def without_unused_constants(lowered: Lowered) -> Lowered:
    """Return a program without the constants that nothing in it names."""
    program = lowered.program
    used = {source_buffer(line.source) for line in program.symbols}
    used.update(name for value in program.outputs for name in buffers_in(value))
    for line in walk_lines(program.lines):
        used.update(uses(line))
        results = (x for _, block in nested_blocks(line) for x in block.results)
        used.update(name for value in results for name in buffers_in(value))
    kept = tuple(each for each in program.constants if each.name in used)
    tensors = {each.key: lowered.constants[each.key] for each in kept}
    return evolve(lowered, program=evolve(program, constants=kept), constants=tensors)


def with_tied_keys(lowered: Lowered, exported: ExportedProgram) -> Lowered:
    """Return a program whose constants name the other keys of their tensors."""
    held = {**exported.constants, **exported.state_dict}
    keys: dict[Hashable, list[str]] = {}
    for key, tensor in held.items():
        if isinstance(tensor, torch.Tensor):
            keys.setdefault(tensor_identity(tensor), []).append(key)
    tied = {key: equal for equal in keys.values() for key in equal}
    program = lowered.program
    constants = [
        evolve(each, tied=tuple(key for key in tied.get(each.key, ()) if key != each.key))
        for each in program.constants
    ]
    return evolve(lowered, program=evolve(program, constants=tuple(constants)))


def inputs_by_target(exported: ExportedProgram) -> dict[str, torch.fx.Node]:
    """Return the inputs by the names that outputs use for the inputs that they change."""
    inputs = {node.name: node for node in exported.graph.find_nodes(op="placeholder")}
    held = {
        str(spec.target): inputs[spec.arg.name]
        for spec in exported.graph_signature.input_specs
        if spec.target is not None
    }
    return {**held, **inputs}


def unsupported(what: str) -> DiagnosticError:
    """Return the error for a part of a signature that a program cannot have."""
    return Code.UNSUPPORTED_SIGNATURE.error(f"{what}, which a program cannot carry")
