"""Compilation of exported programs by Inductor, with their signatures and guards."""

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from attrs import evolve
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_export_module
from torch._guards import detect_fake_mode
from torch._inductor import compile_fx
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from wrapperir.diagnostics import Code
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.attention import densify_masks
from wrapperir.frontend.aten.signature import with_tied_keys, without_unused_constants
from wrapperir.frontend.inductor import versions
from wrapperir.frontend.inductor.compilation import compile_inner, own_settings
from wrapperir.frontend.inductor.decompositions import decompositions
from wrapperir.frontend.inductor.signature import plain_graph
from wrapperir.frontend.named_program import name_program
from wrapperir.frontend.user_names import exported_names
from wrapperir.ir import AssertScalarLine, symbols_in
from wrapperir.symbolic import lower_sympy

if TYPE_CHECKING:
    from wrapperir.emit import Loaded


def lower_exported(exported: ExportedProgram) -> Lowered:
    """Return the program that Inductor makes of an exported module, and its constants.

    Inputs and outputs are those of the exported module, unused ones included: the leaves
    of ``(args, kwargs)`` and of its result.  Parameters, buffers and tensors of the
    module that are used are constants, with the names of ``state_dict`` as keys; they share
    its memory.

    Raises:
        DiagnosticError: the graph or its signature has something that a program cannot
            express; WIR907, it computes nothing.
    """
    found: list[Lowered] = []

    def keep(lowered: Lowered, backward: bool, show: object) -> "Loaded":
        found.append(lowered)
        return lambda args: ()

    graph, signature = plain_graph(exported)
    densify_masks(graph)
    given = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
    mode = _fake_mode(graph)
    with _inference(mode):
        export: Any = aot_export_module
        traced, kinds = export(
            graph, given, trace_joint=False, decompositions=decompositions()
        )
        _write_back(traced, kinds.user_inputs_to_mutate)
        _name_inputs(traced, signature.placeholders)
        _keep_strides(traced)
        traced = versions.run_joint_passes(traced, given)
        held = [i for i, n in enumerate(signature.placeholders) if n in signature.keys]
        compile_inner(keep, traced, given, static_input_idxs=held, is_inference=True)
    if not found:
        raise Code.NOTHING_TO_COMPILE.error(
            "Inductor has nothing to compile: no tensor is computed",
            hint="give --frontend export, or a function that computes something",
        )
    (lowered,) = found
    completed = with_guards(signature.complete(lowered), mode.shape_env)
    program = name_program(completed.program, exported_names(exported))
    used = without_unused_constants(Lowered(program, completed.constants))
    return with_tied_keys(used, exported)


def _fake_mode(graph: torch.fx.GraphModule) -> FakeTensorMode:
    found = detect_fake_mode([node.meta.get("val") for node in graph.graph.nodes])
    if found is None or found.shape_env is None:
        return FakeTensorMode(shape_env=ShapeEnv())
    mode: FakeTensorMode = found
    return mode


@contextlib.contextmanager
def _inference(mode: FakeTensorMode) -> Generator[None]:
    """Enter the contexts in which ``compile_fx`` compiles an exported graph."""
    settings = functorch_config.patch(unlift_effect_tokens=True)
    with contextlib.ExitStack() as stack:
        for scope in (
            settings,
            own_settings(),
            torch.no_grad(),
            enable_python_dispatcher(),
            V.set_fake_mode(mode),
        ):
            stack.enter_context(scope)
        # Else patterns of Inductor's, traced now, would have its casts in them.
        if torch._C._is_any_autocast_enabled():
            stack.enter_context(torch._C._DisableAutocast())
        yield


def _write_back(traced: torch.fx.GraphModule, mutated: Mapping[str, str]) -> None:
    """Write new values of inputs to them, where the graph returns those first."""
    output = traced.graph.output_node()
    inputs = {node.name: node for node in traced.graph.find_nodes(op="placeholder")}
    results: Any = output.args[0]
    new, kept = results[: len(mutated)], results[len(mutated) :]
    with traced.graph.inserting_before(output):
        for value in new:
            target = inputs[mutated[value.name]]
            written = traced.graph.call_function(
                torch.ops.aten.copy_.default, (target, value)
            )
            written.meta["val"] = target.meta["val"]
    output.args = (tuple(kept),)
    traced.recompile()


def _name_inputs(traced: torch.fx.GraphModule, names: Sequence[str]) -> None:
    # Inductor names its buffers by target; the names of nodes stay.
    placeholders = traced.graph.find_nodes(op="placeholder")
    for node, name in zip(placeholders, names, strict=True):
        node.target = name


def _keep_strides(traced: torch.fx.GraphModule) -> None:
    """Have Inductor lay out results as the function does."""
    output = traced.graph.output_node()
    results: Any = output.args[0]
    output.meta["user_visible_output_idxs"] = [
        index for index, value in enumerate(results) if isinstance(value, torch.fx.Node)
    ]
    compile_fx._recursive_record_user_visible_output_idxs(traced)


def with_guards(lowered: Lowered, shapes: ShapeEnv | None) -> Lowered:
    """Return the program with a check of each guard that ranges of symbols do not imply.

    Code was chosen by these, for the sizes of the example; ``torch.compile`` would check
    them before each call and compile again.

    Raises:
        DiagnosticError: WIR600, a guard has no form in a program.
    """
    if shapes is None:
        return lowered
    known = {line.symbol for line in lowered.program.symbols}
    checks: dict[Any, None] = {}
    for guard in shapes.guards:
        # Not simplified by the guards themselves.
        expr: Any = guard.expr.xreplace(shapes.replacements)
        if expr.free_symbols and not shapes.bound_sympy(expr).is_singleton():
            checks[expr] = None
    lines: list[AssertScalarLine] = []
    for expr in checks:
        condition = lower_sympy(expr)
        if known.issuperset(symbols_in(condition)):
            message = f"compiled for sizes with {expr}"
            lines.append(AssertScalarLine(condition=condition, message=message))
    program = evolve(lowered.program, lines=(*lines, *lowered.program.lines))
    return Lowered(program, lowered.constants)
