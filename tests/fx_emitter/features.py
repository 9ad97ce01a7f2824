"""Runs a function through Inductor and the FX emitter; each program's graph is kept.

Without a GPU, Inductor is told to write Triton for CPU tensors, which Triton's interpreter
runs.  Whatever is run here is held against eager PyTorch; and each program, bit for bit,
against the reference interpreter and emitted Python.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import compress
from typing import Any

import torch
from attrs import define, evolve, field
from torch._dynamo import config as dynamo_config
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
from torch._inductor import config
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from tests.python_emitter.running import assert_same
from wrapperir import compile_program
from wrapperir.emit import Loaded, Value
from wrapperir.emit.support import fit_program
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor import compile_graph
from wrapperir.frontend.inductor.cpu_triton import triton_for_cpu
from wrapperir.fx import stream_functions
from wrapperir.interp import interpret
from wrapperir.ir import BodyLine, KernelDefinitionLine, OpaqueType, Program
from wrapperir.passes import MEMORY_PASSES
from wrapperir.text import format_program
from wrapperir_fx.emitter import FxEmitter

DATA_DEPENDENT = {
    "capture_scalar_outputs": True,
    "capture_dynamic_output_shape_ops": True,
}
TRITON = triton_kernel_wrapper_mutation


@define(eq=False)
class Ran:
    """The programs that a function was compiled to, their graphs, and its result."""

    programs: list[Program] = field(factory=list[Program])
    graphs: list[GraphModule] = field(factory=list[GraphModule])
    result: Any = None

    @property
    def program(self) -> Program:
        """The only program."""
        (program,) = self.programs
        return program

    @property
    def graph(self) -> GraphModule:
        """The only graph."""
        (graph,) = self.graphs
        return graph


def run(function: Callable[..., Any], *inputs: Any, dynamic: bool | None = None) -> Ran:
    """Run a compiled function twice, check all that holds for any, return the graphs."""
    ran = Ran()
    compiled = compile_function(function, ran, dynamic=dynamic)
    for _ in range(2):
        wanted_inputs, given = copied(inputs), copied(inputs)
        torch.manual_seed(0)
        wanted = function(*wanted_inputs)
        torch.manual_seed(0)
        ran.result = compiled(*given)
        assert_close(ran.result, wanted)
        assert_close(given, wanted_inputs)
    return ran


def options(**chosen: object) -> Any:
    """Return options of the backend, for the FX emitter."""
    return {"emitter": "fx", **chosen}


def compile_function(
    function: Callable[..., Any], ran: Ran, *, dynamic: bool | None = None
) -> Callable[..., Any]:
    """Return a compiled function that adds its programs and graphs to ``ran``."""
    torch._dynamo.reset()

    def backend(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_graph(graph, inputs, lambda lowered, *_: checked(lowered, ran))

    compiled: Callable[..., Any] = torch.compile(function, backend=backend, dynamic=dynamic)

    def call(*inputs: Any) -> Any:
        with triton_for_all(), dynamo_config.patch(DATA_DEPENDENT):
            return compiled(*inputs)

    return call


@contextlib.contextmanager
def triton_for_all() -> Generator[None]:
    """Have Inductor write Triton for CPU tensors too."""
    with config.patch(cpu_backend="triton"), triton_for_cpu():
        yield


def with_first_configs(program: Program) -> Program:
    """Return a program whose kernels have one config each, the one that graphs launch."""
    return evolve(
        program,
        definitions=tuple(
            evolve(line, configs=line.configs[:1])
            if isinstance(line, KernelDefinitionLine)
            else line
            for line in program.definitions
        ),
    )


def checked(lowered: Lowered, ran: Ran) -> Loaded:
    """Load a program's graph; each call of it is compared with others of the program.

    These are the interpreter, emitted Python, and the graph of the program whose memory is
    planned; on a GPU, where the interpreter has no kernels, the other two.
    """

    def keep(graph: GraphModule) -> GraphModule:
        ran.graphs.append(graph)
        return graph

    program, constants = lowered.program, lowered.constants
    emitter = FxEmitter(compile_graph=keep)
    call = compile_program(program, emitter=emitter, constants=constants)
    ran.programs.append(program)
    assert_described(ran.graphs[-1], program)
    others: list[tuple[Loaded, Mapping[str, torch.Tensor]]] = []
    for one, passes in (("python", ()), ("fx", MEMORY_PASSES)):
        bound = copied(constants)
        other = compile_program(
            with_first_configs(program), emitter=one, passes=passes, constants=bound
        )
        others.append((other, bound))
    if "@cuda" not in format_program(program):
        bound = copied(constants)
        others.append((functools.partial(interpret, program, constants=bound), bound))

    def run(inputs: list[Value]) -> tuple[Value, ...]:
        copies = [copied(inputs) for _ in others]
        stays = [not item.donated for item in program.inputs]
        given = list(compress(inputs, stays))
        torch.manual_seed(0)
        outputs = call(inputs)
        for (other, bound), inputs in zip(others, copies, strict=True):
            kept = list(compress(inputs, stays))
            torch.manual_seed(0)
            assert_same(outputs, other(inputs))
            assert_same(given, kept)
            assert_same(list(constants.values()), list(bound.values()))
        return outputs

    return run


def assert_described(graph: GraphModule, program: Program) -> None:
    """Check that a graph has every line of its program, and says what its values are."""
    assert lines_in(graph) == fit_program(program, FxEmitter.support).lines
    graph.graph.lint()
    opaque = {x.name for x in program.inputs if isinstance(x.type, OpaqueType)}
    for module in modules_of(graph):
        for node in module.graph.nodes:
            stream = getattr(node.target, "__module__", None) == stream_functions.__name__
            if node.users and node.op != "get_attr" and node.name not in opaque:
                assert "val" in node.meta or stream, node.format_node()


def lines_in(graph: GraphModule) -> tuple[BodyLine, ...]:
    """Return the lines that the nodes of a graph, nested ones aside, are of."""
    return tuple(
        line for node in graph.graph.nodes for line in node.meta.get("wrapperir", ())
    )


def modules_of(graph: GraphModule) -> list[GraphModule]:
    """Return a module and those of the graphs nested in it."""
    return [module for module in graph.modules() if isinstance(module, GraphModule)]


def calls(graph: GraphModule, target: Callable[..., Any]) -> list[Node]:
    """Return the nodes that call ``target``, those of nested graphs included."""
    return [
        node
        for module in modules_of(graph)
        for node in module.graph.find_nodes(op="call_function", target=target)
    ]


def argument(node: Node, place: int | str) -> Any:
    """Return a positional or a keyword argument of a call."""
    return node.args[place] if isinstance(place, int) else node.kwargs[place]


def outputs_of(graph: GraphModule) -> tuple[Any, ...]:
    """Return what a graph's output node holds."""
    (output,) = graph.graph.find_nodes(op="output")
    (outputs,) = output.args
    assert isinstance(outputs, tuple)
    return outputs


def copied(value: Any) -> Any:
    """Copy tensors; copies share memory, and are one tensor, where the originals do."""
    detached: dict[int, torch.Tensor] = {}

    def detach(tensor: torch.Tensor) -> torch.Tensor:
        return detached.setdefault(id(tensor), tensor.detach())

    return copy.deepcopy(pytree.tree_map_only(torch.Tensor, detach, value))


def assert_close(actual: Any, wanted: Any) -> None:
    """Compare with eager; sums may be in another order."""
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
