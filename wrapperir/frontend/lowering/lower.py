"""From an ATen graph to a program, without Inductor."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from attrs import evolve, frozen
from torch._guards import detect_fake_mode
from torch._ops import OpOverload

from wrapperir import ir as wir
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.attention import shorten_attention
from wrapperir.frontend.aten.graph import (
    add_constant,
    finished_program,
    is_passed_object,
    lower_given,
    lower_nodes,
    size_multiple,
)
from wrapperir.frontend.aten.scope import GraphScope, Shared
from wrapperir.frontend.aten.storage_offsets import Place
from wrapperir.frontend.lowering.depthwise import lay_out_depthwise
from wrapperir.frontend.lowering.effect_tokens import HAS_EFFECTS, remove_effect_tokens
from wrapperir.frontend.lowering.graph import lower_graph
from wrapperir.frontend.lowering.program import ScheduleLines, output_values
from wrapperir.ir.renaming import replace_cpu
from wrapperir.lowering.kernel import SizeSymbol, SizeSymbols
from wrapperir.lowering.loops import LoopGraph
from wrapperir.lowering.schedule import (
    Rounding,
    Schedule,
    SchedulingOptions,
    plan_kernels,
)
from wrapperir.lowering.sequences import SequenceLaunch
from wrapperir.passes import insert_frees


@frozen(kw_only=True)
class LoweringStages:
    """The stages of a graph: loop nests, kernels in order, program.

    ``symbols`` is what was known of its size symbols, ``joined`` are the launches of the
    program that are several of the schedule's.
    """

    symbols: SizeSymbols
    loops: LoopGraph
    schedule: Schedule
    joined: tuple[SequenceLaunch, ...]
    lowered: Lowered


@frozen(kw_only=True)
class HeldTensor:
    """A tensor that a module holds for an input of its graph, and its key."""

    key: str
    tensor: torch.Tensor


def lower_to_program(
    module: torch.fx.GraphModule,
    rounding: Rounding = Rounding.FUSED,
    held: Mapping[torch.fx.Node, HeldTensor] | None = None,
    places: Mapping[str, Place] | None = None,
    donated: Collection[int] = (),
    kernel_device: str | None = None,
) -> LoweringStages:
    """Return the program of a functional ATen graph, with the stages before it.

    Each node has its example value as ``meta["val"]``, as AOTAutograd leaves it.  Inputs
    in ``held`` are constants of the program.  Storage offsets of inputs are those of
    ``places``, by default of the examples.  The inputs at the positions in ``donated`` are
    the program's, unless it writes to them.  Tensors and work of the CPU are on a device of
    ``kernel_device``, if it is given: the graph of a caller whose tensors are on the host,
    for an emitter that copies them to a device of its own.

    Raises:
        DiagnosticError: WIR600 to WIR605, what neither loops nor lines express.
    """
    graph = module.graph
    shorten_attention(graph)
    lay_out_depthwise(graph)
    remove_effect_tokens(graph)
    ranges = value_ranges(graph)
    scope = GraphScope(Shared(ranges, kernel_device=kernel_device), module)
    constants = dict(held or {})
    given = graph.find_nodes(op="placeholder")
    attributes = graph.find_nodes(op="get_attr")
    for node, constant in constants.items():
        name = add_constant(scope, constant.key, node.name, constant.tensor)
        scope.values[node] = wir.BufferRef(name)
    lower_given(scope, [node for node in given if node not in constants], places)
    objects = returned_objects(module)
    attributes = [node for node in attributes if node not in objects]
    lower_nodes(scope, attributes)
    for node in attributes:
        node.meta.setdefault("val", scope.held(node))
    symbols = size_symbols(ranges)
    lowered = lower_graph(graph, symbols, places, kernel_device, scope.shared.origins)
    options = SchedulingOptions(
        symbols=symbols,
        rounding=rounding,
        ordered_calls=ordered_calls(lowered.called),
        owning_calls=owning_calls(lowered.called),
        donated=frozenset(given[number].name for number in donated),
    )
    schedule = plan_kernels(lowered.loops, options)
    builder = ScheduleLines(scope, lowered, schedule, options)
    for node in (*given, *attributes):
        value = scope.values.get(node)
        if isinstance(value, wir.BufferRef):
            builder.names[node.name] = value.name
    builder.append_items()

    def is_given(result: object) -> bool:
        return isinstance(result, torch.fx.Node) and is_passed_object(result)

    output = graph.output_node()
    results: Any = output.args[0]
    outputs = output_values(
        builder, [None if x in objects or is_given(x) else x for x in results]
    )
    multiples = {
        number: size_multiple(scope, result)
        for number, result in enumerate(results)
        if is_given(result)
    }
    outputs = tuple(multiples.get(number, each) for number, each in enumerate(outputs))
    program = finished_program(scope, outputs)
    program = evolve(
        program,
        definitions=tuple(builder.definitions.values()),
        inputs=tuple(
            evolve(each, donated=number in donated and not each.mutated)
            for number, each in enumerate(program.inputs)
        ),
    )
    return LoweringStages(
        symbols=symbols,
        loops=lowered.loops,
        schedule=schedule,
        joined=tuple(builder.joined),
        lowered=Lowered(
            insert_frees(replace_cpu(program, kernel_device)), scope.shared.tensors
        ),
    )


def returned_objects(module: torch.fx.GraphModule) -> dict[torch.fx.Node, object]:
    """Return the objects of a graph's own that it only returns, such as a mesh, by node.

    Its program returns ``None`` in their places.
    """
    found: dict[torch.fx.Node, object] = {}
    for node in module.graph.find_nodes(op="get_attr"):
        held: Any = module
        for name in str(node.target).split("."):
            held = getattr(held, name)
        is_plain = isinstance(held, torch.Tensor | torch.nn.Module)
        if not is_plain and all(user.op == "output" for user in node.users):
            found[node] = held
    return found


def ordered_calls(called: Mapping[str, torch.fx.Node]) -> frozenset[str]:
    """Return the calls that draw random numbers, have effects, or return nothing."""

    def is_ordered(node: torch.fx.Node) -> bool:
        tags: Any = getattr(node.target, "tags", ())
        if node.meta.get("val") is None or HAS_EFFECTS in node.meta:
            return True
        return torch.Tag.nondeterministic_seeded in tags

    return frozenset(name for name, node in called.items() if is_ordered(node))


def owning_calls(called: Mapping[str, torch.fx.Node]) -> frozenset[str]:
    """Return the calls of PyTorch's operators whose results alias no argument."""

    def owns(target: Any) -> bool:
        schema: Any = getattr(target, "_schema", None)
        is_known = isinstance(target, OpOverload) and target.namespace == "aten"
        return is_known and all(each.alias_info is None for each in schema.returns)

    return frozenset(name for name, node in called.items() if owns(node.target))


def value_ranges(graph: torch.fx.Graph) -> Mapping[Any, Any]:
    """Return torch's ranges of the size symbols of a graph, by sympy symbol."""
    mode = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    shapes = None if mode is None else mode.shape_env
    return {} if shapes is None else shapes.var_to_range


def size_symbols(ranges: Mapping[Any, Any]) -> dict[str, SizeSymbol]:
    """Return what scheduling knows of size symbols."""
    found: dict[str, SizeSymbol] = {}
    for symbol, bounds in ranges.items():
        if not symbol.is_integer:
            found[symbol.name] = SizeSymbol(dtype=wir.DType.F64)
            continue
        low = int(bounds.lower) if bounds.lower.is_Integer else 0
        high = int(bounds.upper) if bounds.upper.is_Integer else None
        found[symbol.name] = SizeSymbol(low=max(low, 0), high=high)
    return found
