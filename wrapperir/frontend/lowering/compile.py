"""Compilation of graphs that Dynamo traced, through AOTAutograd and loops of our own."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from attrs import evolve
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch import partitioners
from torch._subclasses.fake_tensor import unset_fake_temporarily

from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.attention import densify_masks
from wrapperir.frontend.aten.storage_offsets import example_offsets, input_places
from wrapperir.frontend.lowering.accumulation import accumulate_products
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.lower import lower_to_program
from wrapperir.frontend.lowering.padding import (
    pad_products,
    report_layouts,
    take_examples,
)
from wrapperir.ir import KernelDefinitionLine, Program
from wrapperir.lowering.schedule import Rounding

if TYPE_CHECKING:
    from wrapperir.emit import Loaded

CompileProgram: TypeAlias = "Callable[[Lowered, bool], Loaded]"
"""Turns a program into a callable; it is given whether the program is a backward."""


def compile_graph(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile: CompileProgram,
    rounding: Rounding = Rounding.FUSED,
    *,
    times_configs: bool = True,
) -> Callable[..., Any]:
    """Compile a graph that Dynamo traced; return the callable that replaces it.

    A training graph gives a forward and a backward program, the backward maybe not before
    it first runs.  Without ``times_configs``, kernels have their first config only, which
    rules choose.

    Raises:
        DiagnosticError: the graph has something that a program cannot express, or
            ``compile`` raised it.
    """

    def compiler(*, backward: bool, saves: bool = False) -> Callable[..., Any]:
        def compile_traced(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
            take_examples(module, examples)
            accumulate_products(module.graph)
            pad_products(module, saves=saves)
            places = input_places(module.graph, example_offsets(module.graph))
            lowered = lower_to_program(module, rounding, places=places).lowered
            report_layouts(module)
            if not times_configs:
                lowered = evolve(lowered, program=_with_first_configs(lowered.program))
            with unset_fake_temporarily():  # constants are real tensors
                return boxed(compile(lowered, backward))

        return compile_traced

    densify_masks(graph)
    partition: Any = partitioners.min_cut_rematerialization_partition
    backend: Any = aot_autograd(
        fw_compiler=compiler(backward=False, saves=True),
        bw_compiler=compiler(backward=True),
        inference_compiler=compiler(backward=False),
        decompositions=dict(table()),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    with functorch_config.patch(unlift_effect_tokens=True):  # no arguments of the graph
        compiled: Callable[..., Any] = backend(graph, list(example_inputs))
    return compiled


def _with_first_configs(program: Program) -> Program:
    definitions = tuple(
        evolve(line, configs=line.configs[:1])
        if isinstance(line, KernelDefinitionLine)
        else line
        for line in program.definitions
    )
    return evolve(program, definitions=definitions)


def boxed(function: Callable[[list[Any]], Any]) -> Any:
    """Have AOTAutograd give a function one list, which it empties."""

    def call(args: list[Any]) -> Any:
        return function(args)

    vars(call)["_boxed_call"] = True
    return call
