"""Lowering of operator calls: externs, views, scalars, checks."""

from collections.abc import Iterator
from typing import Any

import torch
from attrs import evolve
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.arguments import lower_argument, tensor_argument, view
from wrapperir.frontend.aten.scope import Elements, GraphScope
from wrapperir.frontend.aten.sharing import (
    may_share,
    returned_arguments,
    shared_results,
    written_arguments,
)
from wrapperir.frontend.aten.symbols import define_symbols, item_facts, value_facts
from wrapperir.frontend.aten.values import (
    SCALARS,
    expr_of,
    is_sparse,
    is_symbolic,
    leaves_of,
    lower_device,
    lower_extent,
    original_expr_of,
)
from wrapperir.ir.mentions import buffers_in
from wrapperir.operators import schema_of
from wrapperir.symbolic import lower_sympy

_ITEMS = frozenset({"aten::item", "aten::_local_scalar_dense"})
_RANGES = frozenset({"aten::sym_constrain_range", "aten::sym_constrain_range_for_size"})
_IDENTITIES = frozenset({"aten::detach_", "aten::requires_grad_"})
"""Operators that change only state of autograd."""


def lower_operator(scope: GraphScope, node: torch.fx.Node, operator: OpOverload) -> None:
    """Append the lines of an operator call and note the value of its node.

    Raises:
        DiagnosticError: WIR602 an operator that changes the shape of its argument, WIR603
            an argument, WIR604 a result that cannot be expressed.
    """
    name = schema_of(operator).name
    if name in _ITEMS:
        _lower_item(scope, node)
    elif name == "aten::_assert_scalar":
        _lower_assert(scope, node)
    elif name in _RANGES:
        _lower_range(scope, node)
    elif name in _IDENTITIES:
        scope.values[node] = scope.values[node.all_input_nodes[0]]
    elif torch.Tag.inplace_view in operator.tags:
        is_decomposed = name != "aten::set_"
        raise Code.UNSUPPORTED_OPERATOR.error(
            f"{operator} changes the shape or memory of its argument in place",
            hint="call exported.run_decompositions() first" if is_decomposed else None,
        )
    elif isinstance(node.meta.get("val"), SCALARS) and _is_known(scope, node.meta["val"]):
        scope.values[node] = scope.lower_scalar(node.meta["val"])
    elif not (
        may_share(operator)
        and _has_known_layouts(scope, node)
        and _lower_views(scope, node, operator)
    ):
        _lower_call(scope, node, operator)


def _has_known_layouts(scope: GraphScope, node: torch.fx.Node) -> bool:
    """Say whether the program has all sizes of a node's results before the call."""
    facts = [
        expr
        for leaf in pytree.tree_leaves(node.meta.get("val"))
        for _, expr in value_facts("", leaf)
    ]
    return all(map(scope.are_defined, facts))


def _is_known(scope: GraphScope, value: Any) -> bool:
    return not is_symbolic(value) or scope.are_defined(expr_of(value))


def _lower_item(scope: GraphScope, node: torch.fx.Node) -> None:
    source, _ = tensor_argument(scope, node.args[0])
    value = node.meta["val"]
    scope.lines.extend(define_symbols(scope, item_facts(source, value)))
    scope.values[node] = scope.lower_scalar(value)


def _lower_assert(scope: GraphScope, node: torch.fx.Node) -> None:
    condition, message = node.args[0], node.args[1] if len(node.args) > 1 else ""
    scope.values[node] = None
    lowered = _condition(scope, condition)
    if not isinstance(lowered, int) or not lowered:
        scope.lines.append(
            wir.AssertScalarLine(
                condition=lowered, message=str(message), provenance=scope.provenance(node)
            )
        )


def _condition(scope: GraphScope, value: Any) -> wir.Expr:
    """Return a condition as it was written, if all its symbols still have a definition."""
    if not isinstance(value, torch.fx.Node):
        return int(bool(value))
    example = value.meta.get("val")
    if is_symbolic(example) and scope.are_defined(original_expr_of(example)):
        return scope.resolve(lower_sympy(original_expr_of(example)))
    return scope.lower_scalar(example)


def _lower_range(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append checks of the bounds of a size."""
    scope.values[node] = None
    value = lower_argument(scope, node.args[0])
    assert value is not None
    assert not isinstance(value, str | tuple)
    if not isinstance(value, int):
        bounds = ("min", wir.ExprOp.GE, ">="), ("max", wir.ExprOp.LE, "<=")
        for key, op, sign in bounds:
            bound = node.kwargs.get(key)
            if isinstance(bound, int):
                scope.lines.append(
                    wir.AssertScalarLine(
                        condition=wir.compare(op, value, bound),  # type: ignore[arg-type]
                        message=f"{node.args[0]} {sign} {bound}",
                        provenance=scope.provenance(node),
                    )
                )


def _lower_views(scope: GraphScope, node: torch.fx.Node, operator: OpOverload) -> bool:
    """Lower a call if its results are all views; return whether they are."""
    value = node.meta.get("val")
    leaves = pytree.tree_leaves(value)
    if written_arguments(operator, node) or not leaves:
        return False
    shared = shared_results(operator, node)
    if shared is None or len(shared) != len(leaves):
        return False
    sources: list[str] = []
    types: list[wir.TensorType] = []
    for (result, source), leaf in zip(shared, leaves, strict=True):
        name = None if source is None else _plain_name(scope, source)
        if source is None or name is None or _is_lazy(leaf):
            return False
        sources.append(name)
        types.append(_view_type(scope, name, source.meta["val"], result, leaf))
    at = scope.provenance(node)
    if isinstance(value, torch.Tensor):
        scope.values[node] = wir.BufferRef(view(scope, node.name, sources[0], types[0], at))
        return True

    def make(index: int) -> wir.BufferRef:
        name = f"{node.name}_{index}"
        return wir.BufferRef(view(scope, name, sources[index], types[index], at))

    scope.values[node] = Elements(len(types), make)
    return True


def _view_type(
    scope: GraphScope, name: str, source: torch.Tensor, result: torch.Tensor, leaf: Any
) -> wir.TensorType:
    """Return the type of ``leaf``, a view of ``name``, with the offset of ``result``.

    ``result`` is the view of the example ``source``, whose storage offset may differ from
    that of ``name``.
    """
    type, own = scope.lower_type(leaf), scope.types[name]
    assert isinstance(type, wir.TensorType)
    assert isinstance(own, wir.TensorType)
    if source.itemsize != result.itemsize:
        return type
    begin, end = source.storage_offset(), result.storage_offset()
    if own.offset == scope.resolve(lower_extent(begin)):
        return evolve(type, offset=scope.resolve(lower_extent(end)))
    return evolve(
        type, offset=wir.add(own.offset, scope.resolve(lower_extent(end - begin)))
    )


def _plain_name(scope: GraphScope, node: torch.fx.Node) -> str | None:
    """Return the name of a tensor that has no operation pending on its elements."""
    value = scope.values[node]
    if not isinstance(value, wir.BufferRef) or _is_lazy(node.meta["val"]):
        return None
    return value.name


def _is_lazy(value: Any) -> bool:
    """Say whether a conjugation or negation is pending, or elements are not in memory.

    Types cannot express these.
    """
    if not isinstance(value, torch.Tensor):
        return False
    return is_sparse(value) or value.is_conj() or value.is_neg()


def _lower_call(scope: GraphScope, node: torch.fx.Node, operator: OpOverload) -> None:
    arguments = tuple(lower_argument(scope, arg) for arg in node.args)
    keywords = tuple((k, lower_argument(scope, v)) for k, v in node.kwargs.items())
    written = tuple(dict.fromkeys(_names(scope, written_arguments(operator, node))))
    for name in written:
        scope.write(name)
    returned = returned_arguments(operator, node)
    value = node.meta.get("val")
    plain = not schema_of(operator).results or bool(returned) or value is None
    aliases = () if plain else _aliases(scope, node, operator)
    line = wir.ExternKernelLine(
        operator=str(operator),
        arguments=arguments,
        keywords=keywords,
        writes=written,
        aliases=aliases,
        device=_device(scope, node, (*arguments, *(value for _, value in keywords))),
        provenance=scope.provenance(node),
    )
    if plain:
        scope.lines.append(line)
        same = tuple(lower_argument(scope, item) for item in returned)
        scope.values[node] = None if not same else same[0] if len(same) == 1 else same
    else:
        append_results(scope, node, line, aliases)


def _names(scope: GraphScope, values: list[Any]) -> Iterator[str]:
    for value in values:
        yield from buffers_in(lower_argument(scope, value))


def _aliases(
    scope: GraphScope, node: torch.fx.Node, operator: OpOverload
) -> tuple[str, ...]:
    """Return the values that a result may alias."""
    if not may_share(operator):
        return ()
    shared = shared_results(operator, node)
    given = node.all_input_nodes
    if shared is not None:
        given = [source for _, source in shared if source is not None]
    return tuple(dict.fromkeys(_names(scope, given)))


def _device(
    scope: GraphScope, node: torch.fx.Node, arguments: tuple[wir.Argument, ...]
) -> wir.Device:
    for leaf in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(leaf, torch.Tensor):
            return lower_device(leaf.device)
    for name in buffers_in(arguments):
        type = scope.types[name]
        if isinstance(type, wir.TensorType):
            return type.device
    return wir.CPU


def append_results(
    scope: GraphScope,
    node: torch.fx.Node,
    line: wir.ExternKernelLine,
    sources: tuple[str, ...],
) -> None:
    """Append a call that returns a value, and definitions of the symbols in its type."""
    value = node.meta["val"]
    result = scope.new_name(node.name)
    leaves = leaves_of(value)
    names = [result]
    if isinstance(value, tuple | list):
        names = [scope.new_name(f"{result}_{i}") for i in range(len(leaves))]
    facts = [value_facts(name, leaf) for name, leaf in zip(names, leaves, strict=True)]
    definitions = [define_symbols(scope, each) for each in facts]
    type = scope.lower_type(value)
    scope.declare(result, type, sources)
    scope.lines.append(evolve(line, result=result, type=type))
    if not isinstance(type, wir.TupleType):
        scope.lines.extend(definitions[0])
        known = isinstance(value, SCALARS) and _is_known(scope, value)
        scope.values[node] = scope.lower_scalar(value) if known else wir.BufferRef(result)
        return
    types = type.elements

    def make(index: int) -> wir.BufferRef:
        scope.declare(names[index], types[index], (result,))
        scope.lines.append(
            wir.MultiOutputLine(
                result=names[index],
                source=result,
                indices=(index,),
                type=types[index],
                provenance=line.provenance,
            )
        )
        return wir.BufferRef(names[index])

    results = scope.values[node] = Elements(len(names), make)
    for index, lines in enumerate(definitions):
        if lines:
            _ = results[index]  # names it
        scope.lines.extend(lines)
