"""Lowering of a graph: its inputs, then its nodes in order."""

import itertools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from attrs import evolve
from torch._library.fake_class_registry import FakeScriptObject
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental._backward_state import BackwardState

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.arguments import assert_layout
from wrapperir.frontend.aten.collectives import lower_collectives
from wrapperir.frontend.aten.operators import lower_operator
from wrapperir.frontend.aten.scope import Elements, GraphScope, Poison, take
from wrapperir.frontend.aten.storage_offsets import NOWHERE, Place
from wrapperir.frontend.aten.symbols import define_symbols, value_facts
from wrapperir.frontend.aten.values import (
    NO_VALUE,
    SCALARS,
    expr_of,
    jagged_size_in,
    unsupported,
)
from wrapperir.symbolic import lower_sympy


def lower_given(
    scope: GraphScope,
    given: list[torch.fx.Node],
    places: Mapping[str, Place] | None = None,
) -> None:
    """Define the symbols of input nodes, then declare the inputs.

    Their storage offsets are those of ``places``, by default of the examples.  Inputs
    without a type are added to the diagnostics.
    """
    for node in given:
        _refuse_used_size(node)
    names = {node: scope.new_name(node.name) for node in given}
    facts = [
        value_facts(name, node.meta["val"])
        for node, name in names.items()
        if not is_passed_object(node)
    ]
    symbols = define_symbols(scope, list(itertools.chain.from_iterable(facts)))
    for node, name in names.items():
        value = node.meta["val"]
        try:
            type = NO_VALUE if isinstance(value, str) else _input_type(scope, node)
        except DiagnosticError as error:
            scope.poison(node, *error.diagnostics)
            continue
        place = NOWHERE
        if places is not None and isinstance(type, wir.TensorType):
            place = places.get(str(node.target), NOWHERE)
            offset = place.offset
            if place.fixed is not None:
                offset, line = _input_offset(scope, name, place)
                symbols.append(line)
            type = evolve(type, offset=scope.resolve(offset))
        made = scope.shared.origins.given(node)
        scope.shared.inputs.append(wir.Input(name=name, type=type, provenance=made))
        scope.declare_root(name, type)
        if place.guarded is not None:
            # PyTorch may have made the input of several that share memory: it has no guard.
            assert_layout(scope, name, "input", made)
        if isinstance(value, bool | int):
            # The graph was specialised for this value.
            symbol = take(scope.shared.symbols, f"{name}_value")
            fixed, source = int(value), wir.ValueOf(name)
            symbols.append(
                wir.SymbolDefinitionLine(
                    symbol=symbol, lower=fixed, upper=fixed, source=source
                )
            )
        if isinstance(value, SCALARS) and not is_passed_object(node):
            scope.values[node] = scope.lower_scalar(value)
        elif value is None or isinstance(value, str):
            scope.values[node] = value
        else:
            scope.values[node] = wir.BufferRef(name)
    scope.shared.input_symbols.extend(symbols)


def _input_type(scope: GraphScope, node: torch.fx.Node) -> wir.ValueType:
    """Return the type of an input; 0 stands for an object that the graph only passes on."""
    if is_passed_object(node):
        return wir.ScalarType(wir.DType.I64)
    return scope.lower_type(node.meta["val"])


def is_passed_object(node: torch.fx.Node) -> bool:
    """Say whether a node is an object that a graph at most returns.

    Such are meshes of distributed tensors, hooks of compiled autograd, and sizes of jagged
    tensors and multiples of them.
    """
    value = node.meta.get("val")
    is_object = isinstance(value, FakeScriptObject | BackwardState)
    if not is_object and jagged_size_in(value) is None:
        return False
    return all(user.op == "output" or is_passed_object(user) for user in node.users)


def size_multiple(scope: GraphScope, node: torch.fx.Node) -> wir.Expr | None:
    """Return the factor of a node that is a multiple of the size of a jagged tensor."""
    value = node.meta.get("val")
    size = None if node.op == "placeholder" else jagged_size_in(value)
    if size is None:
        return None
    return scope.resolve(lower_sympy(expr_of(value) / size))


def _refuse_used_size(node: torch.fx.Node) -> None:
    """Refuse an input that is the size of a jagged tensor, if the graph computes with it.

    Raises:
        DiagnosticError: WIR604, it does.
    """
    if jagged_size_in(node.meta.get("val")) is None:
        return
    for user in node.users:
        _refuse_used_size(user)
        if user.op != "output" and not is_passed_object(user):
            raise unsupported(f"the size of a jagged tensor, which {user.name} uses,")


def _input_offset(
    scope: GraphScope, name: str, place: Place
) -> tuple[wir.Symbol, wir.SymbolDefinitionLine]:
    """Return the storage offset of an input as a symbol, whose range may check it."""
    symbol = take(scope.shared.symbols, f"{name}_offset")
    scope.visible.add(symbol)
    line = wir.SymbolDefinitionLine(
        symbol=symbol,
        lower=place.guarded or 0,
        upper=place.guarded,
        source=wir.OffsetOf(name),
    )
    return wir.Symbol(symbol), line


def lower_nodes(scope: GraphScope, nodes: Iterable[torch.fx.Node]) -> None:
    """Append the lines of the nodes.

    Nodes that cannot be lowered are added to the diagnostics, by name; nodes that depend
    on them are left out.
    """
    for node in nodes:
        if node.op in ("placeholder", "output"):
            continue
        if any(isinstance(scope.values.get(arg), Poison) for arg in node.all_input_nodes):
            scope.values[node] = Poison()
            continue
        try:
            _lower_node(scope, node)
        except DiagnosticError as error:
            described = f"node {node.name} ({node.target})"
            scope.poison(
                node,
                *(
                    evolve(found, message=f"{described}: {found.message}")
                    for found in error.diagnostics
                ),
            )


def _lower_node(scope: GraphScope, node: torch.fx.Node) -> None:
    from wrapperir.frontend.aten.control_flow import lower_higher_order

    target: Any = node.target
    dialect = scope.shared.dialect
    if dialect is not None and dialect(scope, node):
        return
    if node.op == "get_attr":
        _lower_attribute(scope, node)
    elif target is operator.getitem and not _is_scalar(node):
        source, index = node.args
        assert isinstance(source, torch.fx.Node)
        assert isinstance(index, int)
        several = scope.values[source]
        assert isinstance(several, Elements | tuple)
        scope.values[node] = several[index]
    elif isinstance(target, OpOverload):
        lower_operator(scope, node, target)  # pyright: ignore
    elif isinstance(target, HigherOrderOperator):
        lower_higher_order(scope, node, target)
    elif node.op == "call_function" and _is_scalar(node):
        scope.values[node] = scope.lower_scalar(node.meta["val"])
    else:
        raise Code.UNSUPPORTED_OPERATOR.error("this is not a registered operator")


def _is_scalar(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), SCALARS)


def _lower_attribute(scope: GraphScope, node: torch.fx.Node) -> None:
    """Lower the use of a tensor that the graph's module holds; ignore graphs."""
    held = scope.held(node)
    if isinstance(held, torch.nn.Module):
        return
    if not isinstance(held, torch.Tensor):
        raise Code.UNSUPPORTED_VALUE.error(
            f"a {type(held).__name__} has no type in a program"
        )
    scope.values[node] = wir.BufferRef(
        add_constant(scope, str(node.target), node.name, held)
    )


def add_constant(scope: GraphScope, key: str, name: str, tensor: torch.Tensor) -> str:
    """Add a tensor that is kept outside the program, and return its name."""
    type = scope.lower_type(tensor)
    assert isinstance(type, wir.TensorType)
    chosen = scope.new_name(name)
    unique = key
    while unique in scope.shared.tensors:
        unique += "_"
    scope.declare_root(chosen, type)
    scope.laid_out.add(chosen)
    scope.shared.constants.append(wir.ConstantInput(name=chosen, type=type, key=unique))
    with unset_fake_temporarily():
        scope.shared.tensors[unique] = tensor.detach()
    return chosen


def finished_program(scope: GraphScope, outputs: tuple[wir.Argument, ...]) -> wir.Program:
    """Return the program of a graph whose nodes have been lowered.

    Raises:
        DiagnosticError: inputs or nodes were reported.
    """
    shared, written = scope.shared, scope.written
    if shared.diagnostics:
        raise DiagnosticError(*shared.diagnostics)
    program = wir.Program(
        inputs=tuple(evolve(x, mutated=x.name in written) for x in shared.inputs),
        symbols=tuple(shared.input_symbols),
        constants=tuple(evolve(x, mutated=x.name in written) for x in shared.constants),
        lines=tuple(scope.lines),
        outputs=outputs,
    )
    return lower_collectives(shared.origins.listed(program))
