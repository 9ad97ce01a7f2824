"""Calls of operators as nodes."""

import functools
import keyword
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import Argument as FxArgument

from wrapperir import ir as wir
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.fx import functions
from wrapperir.operators import (
    UnknownOperatorError,
    find_overload,
    schema_of,
)
from wrapperir_fx.context import GraphContext, GraphValue
from wrapperir_fx.streams import launching


def fx_argument(graph: GraphContext, argument: wir.Argument) -> FxArgument:
    """Return an argument of an operator, or an output of a program, as FX takes it."""
    match argument:
        case wir.BufferRef():
            return graph.values[argument.name].node
        case None | int() | float():
            return argument
        case wir.DType():  # before str, its base class
            return torch_dtype(argument)
        case str():
            return argument
        case tuple():
            return [fx_argument(graph, item) for item in argument]
        case wir.Device():
            return torch_device(argument)
        case wir.TorchEnum():
            return _torch_enum(graph, argument)
        case wir.ComplexLiteral(real, imaginary):
            return graph.numbers.complex(real, imaginary)
        case wir.Symbol() | wir.Operation():
            return graph.numbers.value(argument)


def _torch_enum(graph: GraphContext, value: wir.TorchEnum) -> FxArgument:
    found: object = getattr(torch, value.name, None)
    if value.kind == "layout" and isinstance(found, torch.layout):
        return found
    if value.kind == "memory_format" and isinstance(found, torch.memory_format):
        return found
    if value.kind == "quantized_dtype" and isinstance(found, torch.dtype):
        return found
    name = value.name[:80]
    graph.report(f"torch has no {value.kind[:80]!a} named {name!a}", name)
    return None


_KEYWORDS = frozenset(keyword.kwlist)
_find_overload = functools.lru_cache(maxsize=1024)(find_overload)


def emit_extern_kernel(graph: GraphContext, line: wir.ExternKernelLine) -> None:
    """Append a call of an operator on the line's stream."""
    target, args, keywords = _call(graph, line)
    with launching(graph, line):
        if line.result is None or line.type is None:
            val = _look_of_written(target, args, keywords)
            graph.nodes.call(target, args, keywords, val=val)
            return
        val = _look_of_result(graph, line, target, line.type)
        node = graph.nodes.call(target, args, keywords, name=line.result, val=val)
    shared = [graph.values[source].roots for source in line.aliases]
    roots = frozenset((line.result,)).union(*shared)
    graph.values[line.result] = GraphValue(node, line.type, roots)


def _call(
    graph: GraphContext, line: wir.ExternKernelLine
) -> tuple[Callable[..., object], tuple[FxArgument, ...], dict[str, FxArgument]]:
    """Return the target of a call, its arguments and its keywords."""
    args = [fx_argument(graph, argument) for argument in line.arguments]
    keywords = {key: fx_argument(graph, value) for key, value in line.keywords}
    try:
        operator = _find_overload(line.operator)
    except UnknownOperatorError as error:
        graph.report(str(error), line.operator[:80])
        return _unknown_operator, tuple(args), keywords
    if operator._overloadname in _KEYWORDS or not _KEYWORDS.isdisjoint(keywords):
        return functions.call_operator, (line.operator, args, keywords), {}
    return operator, tuple(args), keywords


def _unknown_operator(*args: object, **kwargs: object) -> None:
    """Stand for an operator that was reported as unknown."""


def _look_of_result(
    graph: GraphContext, line: wir.ExternKernelLine, operator: object, type: wir.ValueType
) -> object:
    """Return the fake value of a result: a view, where the schema says so."""
    if (
        len(line.aliases) == 1
        and isinstance(operator, OpOverload)
        and schema_of(operator).may_view
    ):
        source = graph.values[line.aliases[0]]
        given: object = source.node.meta.get("val")
        if isinstance(source.type, wir.TensorType) and isinstance(given, torch.Tensor):
            return _view(graph, given, source.type, type)
    return graph.fakes.of(type, line.result or "")


def _look_of_written(
    operator: object, args: tuple[FxArgument, ...], keywords: Mapping[str, FxArgument]
) -> object:
    """Return the fake value of a call: the tensors that it wrote, if it returns them."""
    if not isinstance(operator, OpOverload):
        return None
    looks: list[object] = []
    for place, name in _returned(operator):
        given = keywords.get(name) if place >= len(args) else args[place]
        looks.append(given.meta.get("val") if isinstance(given, Node) else None)
    return tuple(looks) if len(looks) > 1 else looks[0] if looks else None


@functools.lru_cache(maxsize=1024)
def _returned(operator: OpOverload) -> tuple[tuple[int, str], ...]:
    """Return the places and names of the arguments that are written and returned."""
    schema = schema_of(operator)
    places = {parameter.name: place for place, parameter in enumerate(schema.parameters)}
    names = [name for name in schema.returned if name is not None]
    everything = len(names) == len(schema.returned)
    return tuple((places[name], name) for name in names) if everything else ()


def _view(
    graph: GraphContext, given: torch.Tensor, source: wir.TensorType, type: wir.ValueType
) -> object:
    if isinstance(type, wir.TupleType):
        return tuple(_view(graph, given, source, item) for item in type.elements)
    if not isinstance(type, wir.TensorType):
        return graph.fakes.of(type)
    if type.dtype.itemsize != source.dtype.itemsize:
        return graph.fakes.view(given, type)
    step: Any = graph.fakes.number(wir.sub(type.offset, source.offset))
    return graph.fakes.view(given, type, given.storage_offset() + step)
