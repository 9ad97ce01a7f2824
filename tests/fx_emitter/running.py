"""Runs programs through the FX emitter and the interpreter."""

import copy
from collections.abc import Mapping

import pytest
import torch
from torch.fx import GraphModule

from tests.python_emitter.running import assert_same
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Loaded, Value
from wrapperir.fx import LINES
from wrapperir.interp import interpret
from wrapperir.ir import BodyLine, Program
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_module import build_graph_module

# What a graph raises where the interpreter says that the program faults.
FAULTS = (ArithmeticError, AssertionError, RuntimeError, TypeError, ValueError)


def parsed(text: str) -> Program:
    """Return the program of a text without its first line; it is valid."""
    program = parse_program("wrapperir 1\n" + text)
    assert verify(program) == ()
    return program


def built(text: str, constants: Mapping[str, torch.Tensor] | None = None) -> GraphModule:
    """Return the module of the program of a text."""
    return build_graph_module(parsed(text), constants or {})


def load(program: Program, constants: Mapping[str, torch.Tensor]) -> Loaded:
    """Return what runs the graph of a program."""
    emitter = FxEmitter()
    return emitter.load(emitter.emit(program), constants)


def run_both(text: str, *inputs: Value, calls: int = 2) -> tuple[Value, ...]:
    """Run a program both ways, some times; return the last outputs, which are the same."""
    program = parsed(text)
    call = load(program, {})
    assert calls > 0
    outputs: tuple[Value, ...] = ()
    for _ in range(calls):
        ours, theirs = copied(inputs), copied(inputs)
        outputs = call(list(ours))
        assert_same(outputs, interpret(program, theirs, {}))
        assert_same(ours, theirs)
    return outputs


def refuse_both(text: str, *inputs: Value) -> str:
    """Return what the graph says of inputs that the interpreter refuses, too."""
    program = parsed(text)
    call = load(program, {})
    with pytest.raises(DiagnosticError):
        interpret(program, copied(inputs), {})
    with pytest.raises(FAULTS) as caught:
        call(copied(inputs))
    return str(caught.value)


def copied(inputs: tuple[Value, ...]) -> list[Value]:
    """Return inputs of equal values; each tensor lies in its storage as before."""
    return [copy.deepcopy(value) for value in inputs]


def lines_of(module: GraphModule) -> tuple[BodyLine, ...]:
    """Return the lines in the metas of a graph's nodes, those of nested graphs left out."""
    return tuple(line for node in module.graph.nodes for line in node.meta.get(LINES, ()))


def without_dead_code(module: GraphModule) -> GraphModule:
    """Drop what FX takes for unused, in a graph and in those nested in it."""
    for owner in module.modules():
        if isinstance(owner, GraphModule):
            owner.graph.eliminate_dead_code()
            owner.graph.lint()
            owner.recompile()
    return module
