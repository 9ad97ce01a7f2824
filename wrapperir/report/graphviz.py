"""Programs as graphs in the language of Graphviz, DOT."""

from collections.abc import Iterator, Sequence

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import buffers_in
from wrapperir.report.spans import line_head

_STREAM_COLOURS = ("black", "blue", "darkorange", "forestgreen", "purple", "firebrick")
"""Colours of lines by the number of their stream, from the first again for further ones."""


def format_dot(program: wir.Program) -> str:
    """Return the graph of a program, whose lines are nodes.

    An edge has the name of a value, and leads from the line that defined it, or the last
    one that may write it under this name.  Inputs, constants and kernels are nodes too, a
    nested block is a cluster, and lines on other streams than the first have the stream's
    colour.
    """
    return "".join(f"{line}\n" for line in _Graph(program).lines())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@define(eq=False)
class _Graph:
    program: wir.Program
    _effects: LineEffects = field(init=False)
    _nodes: int = 0
    _clusters: int = 0
    _edges: list[str] = field(factory=list[str], init=False)
    _kernels: dict[str, str] = field(factory=dict[str, str], init=False)
    _constants: dict[str, str] = field(factory=dict[str, str], init=False)

    def __attrs_post_init__(self) -> None:
        self._effects = LineEffects.of_program(self.program)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the graph."""
        program = self.program
        yield f"digraph {_quoted(program.name)} {{"
        yield '  node [shape=box, fontname="monospace"]'
        for definition in program.definitions:
            node = self._kernels[definition.name] = self._new_node()
            yield f"  {node} [shape=component, label={_quoted(f'@{definition.name}')}]"
        values: dict[str, str] = {}
        for kind, named in (("input", program.inputs), ("constant", program.constants)):
            for each in named:
                node = values[each.name] = self._new_node()
                label = _quoted(f"{kind} %{each.name}")
                yield f"  {node} [shape=ellipse, label={label}]"
        self._constants = {each.name: values[each.name] for each in program.constants}
        yield from self._block(program.lines, program.outputs, values, "  ")
        yield from self._edges
        yield "}"

    def _new_node(self) -> str:
        self._nodes += 1
        return f"n{self._nodes}"

    def _edge(self, source: str, target: str, name: str) -> None:
        self._edges.append(f"  {source} -> {target} [label={_quoted(f'%{name}')}]")

    def _block(
        self,
        lines: Sequence[wir.BodyLine],
        results: Sequence[wir.Argument],
        values: dict[str, str],
        indent: str,
    ) -> Iterator[str]:
        """Yield the nodes of a block, where ``values`` has the node of each name so far."""
        for line in lines:
            done = self._effects.visit(line)
            node = self._new_node()
            yield f"{indent}{node} [label={_quoted(line_head(line))}{_style(done)}]"
            for name in dict.fromkeys(done.uses):
                if name in values:
                    self._edge(values[name], node, name)
            if isinstance(line, wir.KernelCallLine) and line.kernel in self._kernels:
                kernel = self._kernels[line.kernel]
                self._edges.append(f"  {kernel} -> {node} [style=dashed]")
            for nested in done.blocks:
                self._clusters += 1
                yield f"{indent}subgraph cluster_{self._clusters} {{"
                yield f"{indent}  label={_quoted(nested.field)}"
                block = nested.block
                given = {each.name: node for each in block.parameters}
                inner = {**self._constants, **given}
                yield from self._block(block.lines, block.results, inner, f"{indent}  ")
                yield f"{indent}}}"
            values.update((x.name, node) for x in done.accesses if x.writes)
            values.update((x.name, node) for x in done.definitions)
        node = self._new_node()
        yield f"{indent}{node} [shape=ellipse, label=return]"
        for name in dict.fromkeys(x for result in results for x in buffers_in(result)):
            if name in values:
                self._edge(values[name], node, name)


def _style(done: Effects) -> str:
    if done.stream is None or not done.stream.number:
        return ""
    colour = _STREAM_COLOURS[done.stream.number % len(_STREAM_COLOURS)]
    return f", color={colour}"
