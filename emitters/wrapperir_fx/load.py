"""Loading an artifact: a callable that runs its graph."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Mapping, Set

import torch
from torch.fx import Graph, GraphModule
from torch.fx.graph import CodeGen

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Artifact, GraphCompiler, Loaded, Value
from wrapperir.emit.checked_inputs import input_checker
from wrapperir.emit.constants import check_constants
from wrapperir.fx import stream_functions
from wrapperir.text import parse_program
from wrapperir_fx.dead_nodes import erase_dead_nodes
from wrapperir_fx.graph_compilers import compiled
from wrapperir_fx.graph_module import build_graph_module


def load_graph(
    artifact: Artifact,
    constants: Mapping[str, torch.Tensor],
    compile_graph: GraphCompiler | None,
    *,
    trusts_inputs: bool = False,
) -> Loaded:
    """Build the graph of an artifact and return a callable that runs it.

    Unless it ``trusts_inputs``, it checks that they are as the program declares them.

    Raises:
        DiagnosticError: a constant is missing or of another type, a kernel does not
            compile, or WIR713, ``compile_graph`` fails.
    """
    text = artifact.files[artifact.entry]
    assert isinstance(text, str)
    program = parse_program(text)
    wrong = check_constants(program, constants)
    if wrong:
        raise DiagnosticError(*wrong)
    module = build_graph_module(program, constants)
    if compile_graph is None:
        call = boxed(module)
    else:
        call = compiled(module, compile_graph, len(program.outputs))
    call = restoring_streams(call, module.graph)
    check = input_checker(program, constants)
    return call if trusts_inputs else checking_inputs(call, check)


def checking_inputs(call: Loaded, check: Callable[[list[Value]], None]) -> Loaded:
    """Return ``call``, made to check its inputs first.

    The check is not part of the graph, which other compilers may take and export.
    """

    def run(inputs: list[Value]) -> tuple[Value, ...]:
        check(inputs)
        return call(inputs)

    return run


def boxed(module: GraphModule) -> Loaded:
    """Return a callable that runs a module's graph and empties the list of its inputs.

    The graph takes such a list from then on, without the nodes that a run does not need.
    """
    erase_dead_nodes(module.graph)
    names = {node.name for node in module.graph.nodes}
    module.graph.set_codegen(_BoxedCode(names))
    module.recompile()
    run: Loaded = module.forward
    return run


class _BoxedCode(CodeGen):
    """Writes ``forward`` with one parameter, a list that it empties.

    So the code frees an input where it drops it, unless the caller holds it too.
    """

    def __init__(self, names: Set[str]) -> None:
        """Choose a parameter's name that is not in ``names``, the names of the nodes."""
        super().__init__()
        self._given = "inputs"
        while self._given in names:
            self._given += "_"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, **_: object
    ) -> str:
        names = [name.split(":")[0].split("=")[0].strip() for name in free_vars]
        targets = "".join(f"{name}, " for name in names if name != "self")
        given = self._given
        text = f"def {self._func_name}(self, {given}){maybe_return_annotation}:"
        if targets:
            text += f"\n    {targets}= {given}"
        return text + f"\n    {given}.clear()"


def restoring_streams(call: Loaded, graph: Graph) -> Loaded:
    """Return ``call``, made to restore the current streams and device where it fails.

    Its graph may enter streams and fail before it exits them.
    """
    nodes = graph.find_nodes(op="call_function", target=stream_functions.stream)
    given = [node.args[0] for node in nodes]
    devices = {device for device in given if isinstance(device, torch.device)}
    indices = sorted(device.index for device in devices if device.type == "cuda")
    if not indices:
        return call

    def run(inputs: list[Value]) -> tuple[Value, ...]:
        device = torch.cuda.current_device()
        streams = [torch.cuda.current_stream(index) for index in indices]
        try:
            return call(inputs)
        except BaseException:
            for stream in streams:
                torch.cuda.set_stream(stream)
            torch.cuda.set_device(device)
            raise

    return run
