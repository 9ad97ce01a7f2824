"""Origins of lines: nodes of traced graphs, their operators, modules and stacks."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from attrs import define, evolve, field
from torch._ops import OperatorBase

import wrapperir
from wrapperir.ir import (
    NodeOrigin,
    OriginTable,
    Program,
    Provenance,
    SourcePlace,
    is_identifier,
)

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)(?:, in ([^\n]+))?')
_WRAPPERIR, _TORCH = (
    str(Path(str(package.__file__)).parent / "_")[:-1] for package in (wrapperir, torch)
)
_HOLDERS = re.compile(r"\._(?:modules|parameters|buffers)(?=\[)")
_ITEM = re.compile(r"\[(['\"]?)([^\]'\"]*)\1\]")
_SLICE = re.compile(r"\.slice\([^)]*\)")
_SCOPE = re.compile(r"^[LG]\.(?:(?:self|fn)(?:\.|$))?")


def user_stack(stack_trace: object) -> list[SourcePlace]:
    """Return the places outside torch and this package, the outermost first.

    Without any, as for a module of torch that is lowered by itself, they are those in
    torch.  Places have no callers yet.
    """
    if not isinstance(stack_trace, str):
        return []
    own: list[SourcePlace] = []
    in_torch: list[SourcePlace] = []
    for frame in _FRAME.finditer(stack_trace):
        file, line, function = frame.groups()
        # Generated code has names such as <eval_with_key>.
        if not file.startswith(("<", _WRAPPERIR)):
            found = in_torch if file.startswith(_TORCH) else own
            found.append(SourcePlace(file=file, line=int(line), function=function))
    return own or in_torch


def user_place(stack_trace: object) -> SourcePlace | None:
    """Return the innermost place of :func:`user_stack`; ``None`` if it has none."""
    return next(reversed(user_stack(stack_trace)), None)


def node_facts(node: torch.fx.Node) -> tuple[str | None, str | None, str | None]:
    """Return the original operator of a node, its module and its stack, as traced."""
    meta = node.meta
    original = meta.get("original_aten")
    operator = original if original is not None else node.target
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    path: object = list(stack.values())[-1][0] if stack else None
    trace = meta.get("stack_trace")
    return (
        str(operator) if isinstance(operator, OperatorBase) else None,
        path if isinstance(path, str) and not path.startswith("_empty_nn") else None,
        trace if isinstance(trace, str) else None,
    )


def module_path(path: str | None) -> str | None:
    """Return ``layers.0.mlp`` for a path of Dynamo's; ``None`` for the outermost module."""
    if path is None:
        return None
    flat = _ITEM.sub(r".\2", _HOLDERS.sub("", _SLICE.sub("", path)))
    return _SCOPE.sub("", flat) or None


@define(eq=False)
class TracedOrigins:
    """The origins of a program under construction, and their places.

    A node of the first graph has its own name.  Nodes of the graphs of blocks have the
    number of the graph before theirs, as in ``block_1.sin``.
    """

    _names: dict[Any, str] = field(factory=dict[Any, str])
    _graphs: dict[Any, str] = field(factory=dict[Any, str])
    _origins: dict[str, NodeOrigin] = field(factory=dict[str, NodeOrigin])
    _places: dict[SourcePlace, int] = field(factory=dict[SourcePlace, int])
    _stacks: dict[str | None, int | None] = field(factory=dict[str | None, int | None])
    _provenances: dict[tuple[str, ...], Provenance] = field(
        factory=dict[tuple[str, ...], Provenance]
    )

    def provenance(self, *nodes: Any) -> Provenance:
        """Return the provenance of a line that was made from these nodes.

        A node of the FX emitter has the provenance of its line.
        """
        if len(nodes) == 1:
            known = nodes[0].meta.get("provenance")
            if isinstance(known, Provenance):
                self._list_emitted(known, nodes[0])
                return known
        return self.named(self.origin(node).name for node in nodes)

    def given(self, node: Any) -> Provenance | None:
        """Return the provenance of an input that a node of another graph is.

        AOTAutograd leaves the node's facts at the input of a backward graph.
        """
        is_made = node.meta.get("original_aten") is not None
        return self.provenance(node) if is_made else None

    def named(self, names: Iterable[str]) -> Provenance:
        """Return the provenance of origins by their names, each once."""
        key = tuple(dict.fromkeys(names))
        found = self._provenances.get(key)
        if found is None:
            found = self._provenances[key] = Provenance(origins=key)
        return found

    def origin(self, node: Any) -> NodeOrigin:
        """Return the origin that a node is, which is listed from now on."""
        name = self._names.get(node)
        if name is None:
            operator, path, trace = node_facts(node)
            name = self._names[node] = self._new_name(node)
            self._origins[name] = NodeOrigin(
                name=name,
                operator=operator,
                module=module_path(path),
                place=self._place(trace),
            )
        return self._origins[name]

    def include(self, program: Program) -> None:
        """List the origins of a program, some of whose lines are kept."""
        table = OriginTable(program)
        for origin in program.origins:
            place = self._add_places(table.stack(origin))
            self._origins.setdefault(origin.name, evolve(origin, place=place))

    def listed(self, program: Program) -> Program:
        """Return a program with the origins so far, in the order of their graphs."""
        order: dict[str, tuple[int, int]] = {}
        for rank, graph in enumerate(self._graphs):
            for index, node in enumerate(graph.nodes):
                if node in self._names:
                    order[self._names[node]] = rank, index
        origins = sorted(
            self._origins.values(), key=lambda each: order.get(each.name, (-1, 0))
        )
        return evolve(program, origins=tuple(origins), places=tuple(self._places))

    def _list_emitted(self, provenance: Provenance, node: Any) -> None:
        """List the origins of a node of the FX emitter that has no program any more."""
        for name in provenance.origins:
            if name not in self._origins:
                place = self._place(node.meta.get("stack_trace"))
                self._origins[name] = NodeOrigin(name=name, place=place)

    def _new_name(self, node: Any) -> str:
        count = len(self._graphs)
        label = self._graphs.setdefault(node.graph, f"block_{count}." if count else "")
        name = f"{label}{node.name if is_identifier(node.name) else 'node'}"
        unique, number = name, 0
        while unique in self._origins:
            number += 1
            unique = f"{name}_{number}"
        return unique

    def _place(self, trace: str | None) -> int | None:
        if trace not in self._stacks:
            self._stacks[trace] = self._add_places(user_stack(trace))
        return self._stacks[trace]

    def _add_places(self, stack: Iterable[SourcePlace]) -> int | None:
        caller: int | None = None
        for place in stack:
            called = evolve(place, caller=caller)
            caller = self._places.setdefault(called, len(self._places))
        return caller
