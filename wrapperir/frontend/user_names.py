"""The names that a user gave what torch.compile and torch.export compile.

Dynamo says where it found each input of a graph, and AOTAutograd which input or output of
that graph each input of a traced graph belongs to.
"""

import contextlib
import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

import torch
from attrs import frozen
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch.export import ExportedProgram

from wrapperir.caching import digest_of
from wrapperir.frontend.named_program import ProgramNames
from wrapperir.frontend.provenance import module_path

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
_HOLDERS = re.compile(r"\._(?:modules|parameters|buffers)(?=\[)")
_SCOPE = re.compile(r"^G\['__import_\w+'\]\.|^[LG](?=\[)")
"""Local and global names, and the module of a global of another one."""
_ADDRESS = re.compile(r"_\d{8,}(_c\d+)?")
"""What Dynamo adds to the names of globals that it makes."""
_ARGUMENT = re.compile(r"L\['args'\]\[(\d+)\](.*)", re.DOTALL)
_KEYWORD = re.compile(r"L\['kwargs'\]\['(\w+)'\](.*)", re.DOTALL)


@frozen
class InputName:
    """The name of an input, and the dotted path by which the user's model holds it.

    ``tied`` are other paths of the same tensor.
    """

    name: str
    path: str | None = None
    tied: tuple[str, ...] = ()


@frozen
class UserNames:
    """The name of a function or module, and those of the inputs of its graph, in order.

    An input without a name is ``None``.  ``held`` are the names of the tensors that the
    graph itself holds, such as the parameters of an optimizer.
    """

    program: str | None
    inputs: tuple[InputName | None, ...]
    held: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A digest for keys of kept programs, which have these names."""
        held = list(map(_bare, self.held))
        inputs = [each and (each.name, each.path, each.tied) for each in self.inputs]
        return digest_of({"program": self.program, "inputs": inputs, "held": held})

    def of_traced(self, graph: torch.fx.Graph, *, backward: bool) -> ProgramNames:
        """Return the names for the program of a graph that AOTAutograd traced.

        A backward has its forward's name with ``_backward``, and its gradients are
        ``grad_output_0`` and so on.
        """
        values: dict[str, str] = {}
        paths: dict[str, str] = {}
        tied: dict[str, tuple[str, ...]] = {}
        for node in graph.find_nodes(op="placeholder"):
            found = self._of_description(node.meta.get("desc"))
            if found is None:
                continue
            values[str(node.target)] = values[node.name] = found.name
            if found.path is not None:
                paths[str(node.target)] = paths[node.name] = found.path
                tied[str(node.target)] = tied[node.name] = found.tied
        program = self.program
        if backward and program is not None:
            program = f"{program}_backward"
        return ProgramNames(program, values, paths, tied)

    def _of_description(self, description: Any) -> InputName | None:
        """Return the name that one of AOTAutograd's ``AOTInput`` objects stands for."""
        match type(description).__name__:
            case "PlainAOTInput" if description.idx < len(self.inputs):
                number: int = description.idx
                return self.inputs[number]
            case "ParamAOTInput" | "BufferAOTInput":
                target = str(description.target)
                name = re.sub("__+", "_", _bare(target)).removeprefix("self_")
                # Dynamo has other names than the user for what its graph holds.
                return InputName(name, target if self.program is None else None)
            case "TangentAOTInput":
                output = description.output
                is_plain = type(output).__name__ == "PlainAOTOutput"
                return InputName(f"grad_output_{output.idx}") if is_plain else None
            case "SubclassGetAttrAOTInput":
                base = self._of_description(description.base)
                if base is None:
                    return None
                attribute = f".{description.attr}"
                path = None if base.path is None else base.path + attribute
                return InputName(base.name + attribute, path)
            case _:
                return None


def dynamo_names(graph: torch.fx.GraphModule) -> UserNames:
    """Return the names of a graph that Dynamo has traced and now hands on.

    The inputs of another graph have the names of its placeholders.
    """
    function = _traced_function()
    placeholders = graph.graph.find_nodes(op="placeholder")
    return UserNames(
        None if function is None else function.name,
        tuple([_input_name(node, function) for node in placeholders]),
        tuple([name for name, _ in (*graph.named_parameters(), *graph.named_buffers())]),
    )


@frozen
class _TracedFunction:
    """A function that Dynamo traces.

    Attributes:
        name: Its name; that of the class where it is the forward method of a module.
        owner: The expression by which Dynamo finds the module.
        module: The module, where it is known.
        wrapped: What Dynamo calls with ``args`` and ``kwargs``, for a callable whose code
            is not in Python or is PyTorch's own.
    """

    name: str
    owner: str | None = None
    wrapped: Any = None
    module: torch.nn.Module | None = None

    @functools.cached_property
    def tied(self) -> Mapping[str, tuple[str, ...]]:
        """The other paths of each tensor that the module holds by several."""
        if self.module is None:
            return {}
        paths: dict[int, list[str]] = {}
        for held in (self.module.named_parameters, self.module.named_buffers):
            for path, tensor in held(remove_duplicate=False):
                paths.setdefault(id(tensor), []).append(path)
        return {
            path: tuple(each for each in equal if each != path)
            for equal in paths.values()
            for path in equal
        }

    def argument_names(self) -> Sequence[str]:
        """Return the names of the parameters of what is wrapped."""
        called = self.wrapped
        if isinstance(called, torch.nn.Module):
            called = called.forward
        try:
            parameters = inspect.signature(called).parameters.values()
        except (TypeError, ValueError):  # a function in C
            return ()
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [each.name for each in parameters if each.kind in kinds]


def _traced_function() -> _TracedFunction | None:
    translator: Any = None
    with contextlib.suppress(AttributeError):  # Dynamo traces nothing
        translator = InstructionTranslator.current_tx()
    if translator is None:
        return None
    code: CodeType = translator.f_code
    held: Mapping[str, Any] = translator.f_locals
    if code.co_qualname == "wrap_inline.<locals>.inner" and "fn" in held:
        wrapped = held["fn"]
        module = wrapped if isinstance(wrapped, torch.nn.Module) else None
        return _TracedFunction(_name_of(wrapped), "L['fn']", wrapped, module)
    resumed = _RESUMED.fullmatch(code.co_name)
    name = code.co_name if resumed is None else resumed[1]
    first = code.co_varnames[0] if code.co_argcount and resumed is None else "self"
    module = held.get(first)
    if name == "forward" and isinstance(module, torch.nn.Module):
        return _TracedFunction(type(module).__name__, f"L['{first}']", module=module)
    return _TracedFunction(name, "L['self']" if "self" in held else None)


def _name_of(called: Any) -> str:
    while isinstance(called, functools.partial):
        called = called.func
    return str(getattr(called, "__name__", None) or type(called).__name__)


def _input_name(node: torch.fx.Node, function: _TracedFunction | None) -> InputName | None:
    source = getattr(node, "_dynamo_source", None)
    if source is None:
        return InputName(str(node.target))
    text: Any = source.name
    whole = path = str(text() if callable(text) else text)
    if function is not None and function.owner is not None:
        path = path.removeprefix(function.owner)
    is_held = path != whole or _HOLDERS.search(whole) is not None  # not an argument
    if function is not None and function.wrapped is not None:
        path = _with_argument(path, function)
    name = _bare(_SCOPE.sub("", _HOLDERS.sub("", path)))
    if name[:1].isdigit():  # as torch.export names parameters and buffers
        name = f"{'b' if '._buffers[' in path else 'p'}_{name}"
    if not name:
        return None
    held_by = module_path(whole) if is_held else None
    tied = () if function is None else function.tied.get(held_by or "", ())
    return InputName(name, held_by, tied)


def _bare(path: str) -> str:
    """Return a path as one word, without the addresses of objects."""
    return re.sub(r"\W+", "_", _ADDRESS.sub("", path), flags=re.ASCII).strip("_")


def _with_argument(path: str, function: _TracedFunction) -> str:
    """Return a path with the names of parameters in place of ``args`` and ``kwargs``."""
    if (found := _ARGUMENT.fullmatch(path)) is not None:
        names = function.argument_names()
        number = int(found[1])
        return f"{names[number]}{found[2]}" if number < len(names) else path
    found = _KEYWORD.fullmatch(path)
    return path if found is None else f"{found[1]}{found[2]}"


def exported_names(exported: ExportedProgram) -> ProgramNames:
    """Return the name of the class of an exported module, if its graph has it.

    The names of its inputs are those of the graph.
    """
    for node in exported.graph.nodes:
        for path, kind in node.meta.get("nn_module_stack", {}).values():
            name = kind if isinstance(kind, str) else kind.__name__
            return ProgramNames(None if path else name.rpartition(".")[2])
    return ProgramNames()
