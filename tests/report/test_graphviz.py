"""Graphs of programs: DOT that a grammar accepts, with the edges that names make."""

import re

import lark
from attrs import frozen
from hypothesis import given, settings

from tests.draws import draws
from wrapperir.ir import Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import uses
from wrapperir.report import format_dot
from wrapperir.testing import programs
from wrapperir.text import parse_program

GRAMMAR = r"""
start: "digraph" ID "{" statement* "}"
statement: ID attributes -> node
  | ID "->" ID attributes -> edge
  | ID "=" ID -> setting
  | "subgraph" ID "{" statement* "}" -> cluster
attributes: "[" ID "=" ID ("," ID "=" ID)* "]"
ID: /[A-Za-z_][A-Za-z_0-9]*/ | /"([^"\\\n]|\\.)*"/
%import common.WS
%ignore WS
"""
PARSER = lark.Lark(GRAMMAR, parser="lalr")
TEXT = """\
wrapperir 1

kernel_definition @scale cpp(x: read f32*, y: write f32*) {
  entry = scale
  source {
    | extern "C" void scale(const float* x, float* y) { *y = *x * 2; }
  }
}

program @main(%x: f32[1]@cuda) {
  %y = allocate f32[1]@cuda
  extern_kernel aten.sin.out(%x, out = %y) writes(%y) @cuda stream(1)
  free %x
  %z = subgraph_call @f (%y) : f32[1]@cuda {
    body (%p: f32[1]@cuda) {
      %q = extern_kernel aten.cos.default(%p) @cuda : f32[1]@cuda
      return %q
    }
  }
  return %y, %z
}
"""


@frozen
class Graph:
    """The labels and colours of nodes, the edges with their labels, and the clusters."""

    nodes: dict[str, dict[str, str]]
    edges: list[tuple[str, str, str]]
    clusters: int

    def label(self, node: str) -> str:
        return self.nodes[node]["label"]


def unquoted(token: object) -> str:
    text = str(token)
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def parsed(text: str) -> Graph:
    tree = PARSER.parse(text)
    nodes: dict[str, dict[str, str]] = {}
    edges: list[tuple[str, str, str]] = []
    for each in tree.iter_subtrees_topdown():  # type: ignore[no-untyped-call]
        if each.data not in ("node", "edge"):
            continue
        *names, attributes = each.children
        assert isinstance(attributes, lark.Tree)
        words = list(map(unquoted, attributes.children))
        facts = dict(zip(words[::2], words[1::2], strict=True))
        if each.data == "node" and str(names[0]) != "node":
            assert str(names[0]) not in nodes
            nodes[str(names[0])] = facts
        elif each.data == "edge":
            edges.append((str(names[0]), str(names[1]), facts.get("label", "")))
    return Graph(nodes, edges, len(list(tree.find_data("cluster"))))


def test_values_lead_from_the_line_that_wrote_them() -> None:
    graph = parsed(format_dot(parse_program(TEXT)))
    found = {
        (graph.label(a).split("(")[0], graph.label(b).split("(")[0], name)
        for a, b, name in graph.edges
    }
    call = "extern_kernel aten.sin.out"
    assert ("input %x", call, "%x") in found
    assert ("%y = allocate f32[1]@cuda", call, "%y") in found
    # What a nested block is given it may write.
    assert (call, "%z = subgraph_call @f ", "%y") in found
    assert ("%z = subgraph_call @f ", "return", "%y") in found
    assert graph.clusters == 1
    colours = {
        facts["label"].split("(")[0]: facts.get("color") for facts in graph.nodes.values()
    }
    assert colours[call] == "blue"
    assert colours["input %x"] is None


@settings(max_examples=draws(60, fuzz=600), deadline=None)
@given(programs())
def test_each_line_and_use_is_in_the_graph(program: Program) -> None:
    graph = parsed(format_dot(program))
    lines = list(walk_lines(program.lines))
    blocks = graph.clusters
    given_nodes = len(program.definitions) + len(program.inputs) + len(program.constants)
    assert len(graph.nodes) == given_nodes + len(lines) + blocks + 1
    assert all(a in graph.nodes and b in graph.nodes for a, b, _ in graph.edges)
    named = [name for _, _, name in graph.edges if name]
    used = sum(len(set(uses(line))) for line in lines)
    assert len(named) >= used
