"""Runs graphs that a user's function compiled, and reports its faults."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import cast

import torch
from torch.fx import GraphModule

from wrapperir.diagnostics import Code, DiagnosticError, Note
from wrapperir.emit import GraphCompiler, Loaded, Value

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
    return Code.GRAPH_COMPILER_FAILED.error(
        f"compile_graph {_name(compile_graph)} {problem}",
        notes=notes,
        hint="it takes a torch.fx.GraphModule and returns a function of the inputs",
    )


def _name(function: object) -> str:
    """Return the name of a function, or of a callable object's type, for messages."""
    named = function if hasattr(function, "__qualname__") else type(function)
    names = (getattr(named, key, None) for key in ("__module__", "__qualname__"))
    return ".".join(str(name) for name in names if name)
