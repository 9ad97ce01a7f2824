"""The module that runs the graph of a program, with its kernels; it is pickled by nodes."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, cast

import torch
from attrs import evolve, frozen
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import PythonCode
from torch.fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY
from torch.fx.node import map_aggregate

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.context import ProgramFacts
from wrapperir.fx import (
    LINES,
    PROVENANCE,
    GraphParts,
    MultiKernelDefinition,
    make_workspace,
    recorded_program,
)
from wrapperir.fx import operators as operators
from wrapperir.ir import (
    KernelCallLine,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Program,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir_fx.choosing import register_multi_kernels
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.kernel_functions import (
    bind_triton_kernels,
    enter_triton_kernel,
    register_kernels,
)
from wrapperir_fx.nodes import NoTracer

_KEPT = (LINES, PROVENANCE, "stack_trace")
"""Keys of ``node.meta`` that are saved; fake values are made again on loading."""
KERNELS = "_wrapperir_kernels"
"""The attribute of a module that has its kernels; no name of a program begins so."""
_DYNAMO = cast(Any, torch)._C._dynamo.eval_frame
_DEFAULT = _DYNAMO._FrameAction.DEFAULT
_STATE = ("meta", "training", KERNELS)


class ProgramModule(GraphModule):
    """The module of a graph; a pickle of it has the graph's nodes, with their lines."""

    def recompile(self) -> PythonCode:
        """Write the code of the graph anew, and let Dynamo compile it.

        Dynamo skips the code of graphs that is written while it compiles, as it is under
        ``torch.compile``.  Another ``torch.compile`` of this module would then not compile
        it.
        """
        code = super().recompile()
        strategy = _DYNAMO._FrameExecStrategy(_DEFAULT, _DEFAULT)
        _DYNAMO.set_code_exec_strategy(type(self).forward.__code__, strategy)
        return code

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a function and its arguments that restore the module."""
        names = {
            node.target: functools.reduce(getattr, str(node.target).split("."), self)
            for node in self.graph.nodes
            if node.op in ("get_attr", "call_module")
        }
        state = {key: vars(self)[key] for key in _STATE if key in vars(self)}
        nodes = tuple([_saved(node) for node in self.graph.nodes])
        return restored_module, (nodes, names, state)


@frozen
class SavedNode:
    """A node as data: its arguments have a :class:`SavedName` for each node."""

    op: str
    name: str
    target: object
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    meta: Mapping[str, object]


@frozen
class SavedName:
    """The name of a node, of an operator such as ``aten.mm.out``, or of a memory format.

    Older protocols of pickle refuse memory formats, which are attributes of ``torch``.
    """

    kind: Literal["node", "operator", "torch"]
    name: str


def restored_module(
    nodes: Sequence[SavedNode], held: Mapping[str, object], state: Mapping[str, object]
) -> ProgramModule:
    """Return the module of saved nodes; ``held`` has the attributes that these name."""
    graph = Graph(tracer_cls=NoTracer)
    known: dict[str, Node] = {}

    def named(value: object) -> Any:
        if not isinstance(value, SavedName):
            return value
        return known[value.name] if value.kind == "node" else getattr(torch, value.name)

    for saved in nodes:
        args: Any = map_aggregate(saved.args, named)
        kwargs: Any = map_aggregate(dict(saved.kwargs), named)
        target = saved.target
        if isinstance(target, SavedName):
            target = functools.reduce(getattr, target.name.split("."), torch.ops)
        node = graph.create_node(
            saved.op, cast(Callable[..., Any], target), args, kwargs, saved.name
        )
        node.meta.update(saved.meta)
        known[saved.name] = node
    module = ProgramModule(dict(held), graph)
    vars(module).update(state)
    _restore_values(module)
    return module


def _saved(node: Node) -> SavedNode:
    target: object = node.target
    if isinstance(target, OpOverload | HigherOrderOperator):
        namespace = "" if isinstance(target, OpOverload) else f"{target.namespace}."
        target = SavedName("operator", f"{namespace}{target}")
    meta = {key: node.meta[key] for key in _KEPT if key in node.meta}
    args: Any = map_aggregate(node.args, _name)
    kwargs: Any = map_aggregate(node.kwargs, _name)
    return SavedNode(node.op, node.name, target, args, dict(kwargs), meta)


def _name(value: object) -> Any:
    if isinstance(value, torch.memory_format):
        return SavedName("torch", str(value).removeprefix("torch."))
    return SavedName("node", value.name) if isinstance(value, Node) else value


def _restore_values(module: GraphModule) -> None:
    """Restore the ``val`` of each node that is as its line makes it.

    The lines of the graph are built again for that.  A changed node, and nodes that take
    its result, get no ``val``; no node gets one where the lines are not a valid program.
    """
    program = recorded_program(module)
    if program is not None:
        with contextlib.suppress(DiagnosticError):
            _restore(module, build_graph(program))


def _restore(module: GraphModule, parts: GraphParts) -> bool:
    """Restore the values of a graph and those nested in it; say whether all are alike."""
    changed: set[str] = set()
    for name, nested in parts.attributes.graphs.items():
        held: object = getattr(module, name, None)
        if not isinstance(held, GraphModule) or not _restore(held, nested):
            changed.add(name)
    built: dict[str, Node] = {node.name: node for node in parts.graph.nodes}
    alike: set[Node] = set()
    for node in module.graph.nodes:
        twin = built.get(node.name)
        if (
            twin is None
            or node.target in changed
            or not alike.issuperset(node.all_input_nodes)
            or _format_call(node) != _format_call(twin)
        ):
            continue
        alike.add(node)
        if "val" in twin.meta:
            node.meta["val"] = twin.meta["val"]
    return not changed and len(alike) == len(built) == len(module.graph.nodes)


def _format_call(node: Node) -> str:
    """Return a text that is the same for nodes that are called alike."""
    return repr(evolve(_saved(node), meta={}))


# A saved graph calls the operators that this registers.


def build_graph_module(
    program: Program, constants: Mapping[str, torch.Tensor]
) -> GraphModule:
    """Return a module that runs a verified program: inputs in order, outputs as a tuple.

    Kernels are compiled.  ``constants`` maps each constant's key to its tensor; the
    module holds them detached, so that no operator records gradients.

    Raises:
        DiagnosticError: as :func:`build_graph`; or a kernel does not compile.
    """
    module = assemble(build_graph(program), constants)
    module.meta[LINES] = evolve(program, lines=())
    bind_kernels(module, program)
    return module


def assemble(parts: GraphParts, constants: Mapping[str, torch.Tensor]) -> GraphModule:
    """Return the module of a graph, with its attributes."""
    attributes = parts.attributes
    held: dict[str, object] = {
        name: constants[key].detach() for name, key in attributes.constants.items()
    }
    held |= {name: make_workspace(type) for name, type in attributes.workspaces.items()}
    held |= {name: assemble(graph, {}) for name, graph in attributes.graphs.items()}
    return ProgramModule(held, parts.graph)


def bind_kernels(module: GraphModule, program: Program) -> None:
    """Build the kernels that the graph of a program calls, and bind the graph to them.

    From then on ``module`` runs, and is saved and copied with its kernels.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    facts = ProgramFacts(program)
    calls = [line for line in walk_lines(program.lines) if isinstance(line, KernelCallLine)]
    undecided = {
        line.kernel for line in calls if not isinstance(facts.runnable(line).dispatch, int)
    }
    multi_kernels = [
        MultiKernelDefinition.of(line, facts.definitions)
        for line in program.definitions
        if isinstance(line, MultiKernelLine) and line.name in undecided
    ]
    kernels = [
        line
        for line in program.definitions
        if isinstance(line, KernelDefinitionLine) and line.name in facts.kernel_devices
    ]
    # The emitter refuses programs with Triton kernels on the CPU and elsewhere.
    interpreted = "cpu" in facts.triton_calls
    saved = SavedKernels(tuple(kernels), tuple(multi_kernels), interpreted)
    saved.register()
    bind_triton_kernels(module, program.definitions, interpreted=interpreted)
    for owner in module.modules():
        if isinstance(owner, GraphModule):
            setattr(owner, KERNELS, saved)
            kept = owner.meta.setdefault(_USER_PRESERVED_ATTRIBUTES_KEY, {})
            kept[KERNELS] = saved  # a copy gets its attributes from there


@frozen(eq=False, slots=False)
class SavedKernels:
    """Kernels that are registered again where a module that holds them is unpickled.

    ``interpreted`` says that the Triton kernels among them run on the CPU.
    """

    kernels: tuple[KernelDefinitionLine, ...]
    multi_kernels: tuple[MultiKernelDefinition, ...]
    interpreted: bool

    def register(self) -> None:
        """Build and register the kernels, and register the multi-kernels.

        Raises:
            DiagnosticError: WIR709, a kernel does not build.
        """
        register_kernels(self.kernels, interpreted=self.interpreted)
        register_multi_kernels(self.multi_kernels)

    def __reduce__(self) -> tuple[object, ...]:
        """Return a function and its arguments that register the kernels again."""
        return restored_kernels, (self.kernels, self.multi_kernels, self.interpreted)

    def __copy__(self) -> Self:
        """Return this object: it does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return this object: it does not change."""
        return self


def restored_kernels(
    kernels: tuple[KernelDefinitionLine, ...],
    multi_kernels: tuple[MultiKernelDefinition, ...],
    interpreted: bool,
) -> SavedKernels:
    """Register kernels; a graph module that was saved calls this where it is loaded.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    saved = SavedKernels(kernels, multi_kernels, interpreted)
    saved.register()
    for definition in kernels:
        if definition.language is Language.TRITON:  # a saved graph has its index
            enter_triton_kernel(definition, interpreted=interpreted)
    return saved
