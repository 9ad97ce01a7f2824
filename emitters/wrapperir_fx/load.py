"""Loading an artifact: a callable that runs its graph, or what a user compiled of it."""

import traceback
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import cast

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import CodeGen

from wrapperir.diagnostics import Code, DiagnosticError, Note
from wrapperir.emit import Artifact, GraphCompiler, Loaded, Value
from wrapperir.emit.checked_inputs import input_checker
from wrapperir.emit.constants import check_constants
from wrapperir.fx import LINES, functions, stream_functions
from wrapperir.ir import ReuseLine
from wrapperir.text import parse_program
from wrapperir_fx.graph_module import build_graph_module
from wrapperir_fx.kernel_functions import launch_directly
from wrapperir_fx.plain_tensors import given_plain_tensors


def erase_dead_nodes(graph: Graph) -> None:
    """Erase frees, and reuses of memory that has a node with the same layout.

    The code drops a value after its last use, so without a free it does so no later.
    """
    seen: dict[object, Node] = {}
    for node in list(graph.nodes):
        if node.target is functions.free:
            (source,) = node.args
            # The code keeps an input that nothing uses until it returns.
            if isinstance(source, Node) and len(source.users) > 1:
                graph.erase_node(node)
        elif node.target is torch.as_strided:
            known = _seen_before(node, seen)
            lines = node.meta.get(LINES, ())
            if known is not None and lines and isinstance(lines[-1], ReuseLine):
                node.replace_all_uses_with(known)
                graph.erase_node(node)


def _seen_before(node: Node, seen: dict[object, Node]) -> Node | None:
    """Return an earlier node of the same memory and layout; record this one.

    A node that is an output is never returned: outputs stay distinct tensors.
    """
    root = node.args[0]
    assert isinstance(root, Node)
    layout = _layout(node)
    if _layout(root) == layout and not _is_returned(root):
        return root
    known = seen.setdefault((root, layout), node)
    return None if known is node or _is_returned(known) else known


def _is_returned(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _layout(node: Node) -> tuple[object, ...]:
    look = node.meta.get("val")
    assert isinstance(look, torch.Tensor)
    numbers = (*look.size(), *look.stride(), look.storage_offset())
    # To compare symbolic numbers would decide whether they are equal.
    exact = [n.node.expr if isinstance(n, torch.SymInt) else n for n in numbers]
    return (look.dtype, look.dim(), *exact)


_PYTORCH = str(Path(torch.__file__).parent)
_MOST_LINES = 20
_MOST_CHARACTERS = 2000


def compiled(module: GraphModule, compile_graph: GraphCompiler, outputs: int) -> Loaded:
    """Return a function that runs the compiled graph of a program.

    ``compile_graph`` may change the graph.  The function that it returns is called with
    the inputs, or with the list of them if its attribute ``_boxed_call`` is true.
    ``outputs`` is the number of outputs that the program has.

    Raises:
        DiagnosticError: WIR713, ``compile_graph`` raises another error, or returns
            something that cannot be called.
    """
    try:
        made: object = compile_graph(module)
    except DiagnosticError:
        raise
    except Exception as error:
        raise _failure(compile_graph, error) from error
    if not callable(made):
        problem = f"returned a {type(made).__name__}, which cannot be called"
        raise _fault(compile_graph, problem)
    call = cast(Callable[..., object], made)
    boxed = getattr(made, "_boxed_call", False) is True  # PyTorch's mark of such a function

    def run(inputs: list[Value]) -> tuple[Value, ...]:
        # The call holds the only references, so that it can free inputs early.
        results = call(inputs) if boxed else call(*_taken(inputs))
        inputs.clear()
        if not isinstance(results, tuple | list):
            kind = type(results).__name__
            problem = f"returned a function that returns a {kind}, not a tuple or list"
            raise _fault(compile_graph, problem)
        values = tuple(cast("tuple[Value, ...] | list[Value]", results))
        if len(values) != outputs:
            count = f"{len(values)} outputs instead of {outputs}"
            problem = f"returned a function that returns {count}"
            raise _fault(compile_graph, problem)
        return values

    return run


def _taken(inputs: list[Value]) -> tuple[Value, ...]:
    """Return the inputs, and empty their list."""
    given = tuple(inputs)
    inputs.clear()
    return given


def _failure(compile_graph: GraphCompiler, error: Exception) -> DiagnosticError:
    _, *frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_PYTORCH)]
    said = "\n".join(str(error).strip().splitlines()[:_MOST_LINES])[:_MOST_CHARACTERS]
    # All in the message: Dynamo shows that, but neither the notes nor the cause.
    place = f" at {_place(own[-1])}" if own else ""
    problem = f"raised {type(error).__name__}{place}: {said or 'no message'}"
    notes = [Note(message=f"raised at {_place(frame)}") for frame in frames[-1:]]
    return _fault(compile_graph, problem, *notes)


def _place(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno}, in {frame.name}"


def _fault(compile_graph: GraphCompiler, problem: str, *notes: Note) -> DiagnosticError:
    # The name of a function, or of a callable object's type.
    named = compile_graph if hasattr(compile_graph, "__qualname__") else type(compile_graph)
    parts = (getattr(named, key, None) for key in ("__module__", "__qualname__"))
    name = ".".join(str(part) for part in parts if part)
    return Code.GRAPH_COMPILER_FAILED.error(
        f"compile_graph {name} {problem}",
        notes=notes,
        hint="it takes a torch.fx.GraphModule and returns a function of the inputs",
    )


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
    call = given_plain_tensors(restoring_streams(call, module.graph))
    if trusts_inputs:
        return call
    # The check is not part of the graph, which other compilers may take and export.
    check = input_checker(program, constants)

    def checking(inputs: list[Value]) -> tuple[Value, ...]:
        check(inputs)
        return call(inputs)

    return checking


def boxed(module: GraphModule) -> Loaded:
    """Return a callable that runs a module's graph and empties the list of its inputs.

    The graph takes such a list from then on, without the nodes that a run does not need,
    and launches Triton kernels through the driver.
    """
    erase_dead_nodes(module.graph)
    launch_directly(module)
    module.graph.set_codegen(_BoxedCode({node.name for node in module.graph.nodes}))
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
