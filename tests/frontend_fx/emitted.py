"""Graphs of the FX emitter, without the time that it takes to build their C++ kernels."""

import contextlib
from collections.abc import Generator, Mapping
from unittest import mock

import torch
from attrs import evolve
from torch.fx import GraphModule

from wrapperir.fx import (
    LINES,
    MultiKernelDefinition,
    definition_key,
    kernel_registry,
    multi_kernel_key,
)
from wrapperir.ir import (
    KernelCallLine,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Program,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.graph_module import assemble
from wrapperir_fx.kernel_functions import bind_triton_kernels


def emitted(program: Program, constants: Mapping[str, torch.Tensor]) -> GraphModule:
    """Return the module of a program, which does not run: C++ kernels are not built."""
    module = assemble(build_graph(program), constants)
    module.meta[LINES] = evolve(program, lines=())
    interpreted = any(
        isinstance(line, KernelCallLine) and line.device.kind == "cpu"
        for line in walk_lines(program.lines)
    )
    bind_triton_kernels(module, program.definitions, interpreted=interpreted)
    return module


@contextlib.contextmanager
def known_kernels(program: Program) -> Generator[None]:
    """Have the kernels of a program registered, as where it was loaded."""
    known = {
        definition_key(line): (line, lambda *arguments: None)
        for line in program.definitions
        if isinstance(line, KernelDefinitionLine) and line.language is not Language.TRITON
    }
    definitions = {line.name: line for line in program.definitions}
    multi_kernels = [
        MultiKernelDefinition.of(line, definitions)
        for line in program.definitions
        if isinstance(line, MultiKernelLine)
    ]
    choosing = {
        multi_kernel_key(each): (each, lambda *given: None) for each in multi_kernels
    }
    with (
        mock.patch.dict(kernel_registry._LAUNCHERS, known),
        mock.patch.dict(kernel_registry._MULTI_KERNELS, choosing),
    ):
        yield


def without_lines(module: GraphModule) -> GraphModule:
    """Return a module, changed in place, that does not say what it was built of."""
    for owner in module.modules():
        if isinstance(owner, GraphModule):
            owner.meta.pop(LINES, None)
            for node in owner.graph.nodes:
                node.meta.pop(LINES, None)
    return module
