"""Nodes of one graph, each with its fake value, its line and the line's provenance."""

import copyreg
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from torch.fx import Graph, Node, Tracer
from torch.fx.node import Argument

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit.context import format_provenance
from wrapperir.fx import LINES, PROVENANCE
from wrapperir.ir import BodyLine, OriginTable, Provenance

GraphNumber: TypeAlias = int | float | bool | Node
"""A known number, or the node that computes it."""

# FX uses the first as the module's name, and writes the second as a name.
_RESERVED = frozenset({"self", "None"})


class _NotPickled(type):
    """The metaclass of tracers that FX must not name in a pickle."""


class NoTracer(Tracer, metaclass=_NotPickled):
    """Refuses to trace the code of a graph again, as FX does when it loads a module.

    Calls of ``torch.empty_strided`` with known sizes would then allocate once, while the
    code is traced, and all calls of the module would share that memory.
    """

    def trace(self, *args: object, **kwargs: object) -> Graph:
        """Refuse.

        Raises:
            DiagnosticError: WIR705, always.
        """
        raise _refused()


def _refuse(tracer: type) -> NoReturn:
    raise _refused()


def _refused() -> DiagnosticError:
    return Code.UNSUPPORTED_FEATURE.error(
        "the code of a graph cannot be traced again: it allocates memory",
        hint="save the module that the fx emitter made, or a copy.deepcopy of it, not"
        " another module of its graph",
    )


# FX saves a module with the tracer of its graph: it refuses to save what it cannot load.
copyreg.pickle(_NotPickled, _refuse)


class GraphNodes:
    """Appends nodes to a graph.

    :meth:`begin` says which line the nodes that follow are of.  A line that makes no node
    is kept with the next node that is made.
    """

    def __init__(self, origins: OriginTable) -> None:
        """Start with an empty graph; ``origins`` are those of the program's lines."""
        self._origins = origins
        self.graph = Graph(tracer_cls=NoTracer)
        self._stems: dict[Callable[..., object], str] = {}
        self._begun: list[BodyLine] = []
        self._provenance: Provenance | None = None
        self._trace = ""

    def begin(self, line: BodyLine) -> None:
        """Record ``line`` as the line of the nodes that follow."""
        self._begun.append(line)
        origin = line.provenance
        if origin is not self._provenance:
            self._provenance = origin
            self._trace = "" if origin is None else _stack_trace(origin, self._origins)

    def call(
        self,
        target: Callable[..., object],
        args: tuple[Argument, ...] = (),
        kwargs: dict[str, Argument] | None = None,
        *,
        name: str | None = None,
        val: object = None,
    ) -> Node:
        """Append a call and return its node; ``val`` is the fake value of its result."""
        if name is None:
            name = self._stems.get(target)
            if name is None:  # what FX would find anew for each node
                name = self._stems[target] = self.graph._target_to_str(target)
        elif name in _RESERVED:
            name = _legal(name)
        node = self.graph.create_node("call_function", target, args, kwargs, name)
        return self._described(node, val)

    def call_module(
        self,
        target: str,
        args: tuple[Argument, ...],
        *,
        name: str | None = None,
        val: object = None,
    ) -> Node:
        """Append a call of a module that is the attribute ``target``."""
        node = self.graph.create_node("call_module", target, args, {}, _legal(name))
        return self._described(node, val)

    def placeholder(self, name: str, val: object) -> Node:
        """Append an input."""
        node = self.graph.create_node("placeholder", name, (), {}, _legal(name))
        node.target = node.name  # FX writes it as the parameter's name
        return self._described(node, val)

    def get_attr(self, target: str, *, name: str | None = None, val: object = None) -> Node:
        """Append a read of an attribute of the module."""
        node = self.graph.create_node("get_attr", target, (), {}, _legal(name))
        return self._described(node, val)

    def output(self, value: Argument) -> None:
        """Append the output, which completes the graph."""
        self._provenance = None
        self._described(self.graph.output(value), None)

    def _described(self, node: Node, val: object) -> Node:
        meta = node.meta
        if val is not None:
            meta["val"] = val
        if self._begun:
            meta[LINES] = tuple(self._begun)
            self._begun.clear()
        if self._provenance is not None:
            meta[PROVENANCE] = self._provenance
            if self._trace:
                meta["stack_trace"] = self._trace
        return node


def _legal(name: str | None) -> str | None:
    return f"{name}_" if name in _RESERVED else name


def _stack_trace(provenance: Provenance, table: OriginTable) -> str:
    """Return the stack of the first origin that has one, in the form that FX prints."""
    stack = next(filter(None, map(table.stack, table.of(provenance))), ())
    frames: list[str] = []
    for place in stack:
        file = _comment_text(place.file).replace('"', "'")
        function = _comment_text(place.function or "forward")
        frames.append(f'  File "{file}", line {place.line}, in {function}\n')
    said = _comment_text(format_provenance(provenance, table))
    return f"{''.join(frames)}    {said}\n" if frames else ""


def _comment_text(text: str) -> str:
    """Return a text without characters that end a line of a comment."""
    if text.isprintable():
        return text
    return "".join([letter if letter.isprintable() else " " for letter in text])
