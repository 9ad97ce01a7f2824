"""Views of memory, each made from its root: the node that the memory began as.

Other compilers turn a graph into one without writes.  They follow a write to a view only
where no view but the first one of the root is ``as_strided``.  So no view is made from
another one, except that a change of the element type comes last.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from attrs import evolve, frozen
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir import ir as wir
from wrapperir.emit.pools import PoolLayout, layout_at
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir_fx.context import GraphContext, GraphValue, Root
from wrapperir_fx.symbolic_arithmetic import SymbolicNumber


def extent_of(type: wir.TensorType) -> wir.Expr:
    """Return the elements of a tensor's storage, also where symbols make a size zero."""
    extent = wir.storage_extent(type)
    if not isinstance(extent, int) and type.stride != (1,):
        extent = wir.maximum(extent, 0)
    return wir.add(type.offset, extent)


def flat(type: wir.TensorType, count: wir.Expr) -> wir.TensorType:
    """Return the type of ``count`` elements of ``type`` in a list without gaps."""
    return evolve(type, size=(count,), stride=(1,), offset=0)


@frozen
class ElementRun:
    """Consecutive elements of a root that contain a tensor of another element type."""

    begin: wir.Expr
    count: wir.Expr
    skipped: int = 0
    """Elements of the tensor's type before its first one."""
    spare: bool = False
    """Whether the run has bytes that are not the tensor's."""


def run_of(layout: PoolLayout, itemsize: int) -> ElementRun | None:
    """Return the elements of ``itemsize`` bytes that hold a row-major tensor, if any do."""
    begin, dtype, shape, stride = layout
    if stride != wir.contiguous_stride(shape):
        return None
    own = wir.mul(wir.product(shape), dtype.itemsize)
    first, count = wir.quotient(begin, itemsize), wir.quotient(own, itemsize)
    if first is not None and count is not None:
        return ElementRun(first, count)
    if not isinstance(own, int):
        return None
    if first is not None:
        return ElementRun(first, -(-own // itemsize), 0, spare=True)
    if not isinstance(begin, int):
        return None
    first, before = divmod(begin, itemsize)
    skipped, rest = divmod(before, dtype.itemsize)
    count = -(-(before + own) // itemsize)
    return None if rest else ElementRun(first, count, skipped, spare=True)


_aten = torch.ops.aten


def view_of(
    graph: GraphContext,
    name: str,
    source: GraphValue,
    type: wir.TensorType,
    place: wir.Expr = 0,
) -> GraphValue:
    """Append a view that begins ``place`` bytes after ``source``.

    The offset of ``type``, and of views of the view, count from there.
    """
    root = source.root
    if root is None:
        root = source.root = Root(source.node, source.tensor_type)
    begin = wir.add(source.begin, place)
    first = wir.add(wir.divided(begin, type.dtype.itemsize), type.offset)
    node = _view(graph, name, root, type, first, begin)
    return GraphValue(node, type, root=root, begin=begin)


def layout_of(graph: GraphContext, type: wir.TensorType) -> tuple[Argument, Argument]:
    """Return the size and stride of a type as arguments."""
    layout = graph.layouts.get(type)
    if layout is None:
        layout = graph.numbers.indices(type.size), graph.numbers.indices(type.stride)
        graph.layouts[type] = layout
    return layout


def _view(
    graph: GraphContext,
    name: str | None,
    root: Root,
    type: wir.TensorType,
    first: wir.Expr,
    begin: wir.Expr,
) -> Node:
    """Append a view that begins ``first`` elements of its own type into a root."""
    old = root.type
    if type.dtype is old.dtype:
        return _elements(graph, name, root, type, first)
    if type.dtype.itemsize == old.dtype.itemsize:
        layout = evolve(type, dtype=old.dtype)
        same = (type.size, type.stride, first) == (old.size, old.stride, old.offset)
        node = root.node if same else _elements(graph, None, root, layout, first)
        return _seen_as(graph, name, node, type)
    resized = _resized(graph, name, root, type, begin)
    if resized is not None:
        return resized
    return _view(graph, name, _retyped(graph, root, type.dtype), type, first, begin)


def _resized(
    graph: GraphContext, name: str | None, root: Root, type: wir.TensorType, begin: wir.Expr
) -> Node | None:
    """Append a view with elements of another size, whose storage begins at a byte."""
    size, itemsize = root.type.dtype.itemsize, type.dtype.itemsize
    at = layout_at(begin, type)
    run = run_of(at, size)
    wider = itemsize // size
    if run is not None:
        layout = evolve(root.type, size=(run.count,), stride=(1,))
        node = _elements(graph, None, root, layout, run.begin)
        count = wir.product(type.size)
        if run.spare:
            assert isinstance(run.count, int)
            count = run.count * size // itemsize
        seen = evolve(type, size=(count,), stride=(1,))
        only = len(type.size) == 1 and not run.spare
        node = _seen_as(graph, name if only else None, node, seen)
        return _shaped(graph, name, node, type, run.skipped if run.spare else None)
    if wider > 1:
        strides = [wir.mul(stride, wider) for stride in type.stride]
        layout = evolve(root.type, size=(*type.size, wider), stride=(*strides, 1))
        node = _elements(graph, None, root, layout, wir.divided(at[0], size))
        seen = evolve(type, size=(*type.size, 1), stride=(*type.stride, 1))
        node = _seen_as(graph, None, node, seen)
        return _viewed(graph, _aten.squeeze.dim, name, (node, -1), type)
    return None


def _elements(
    graph: GraphContext, name: str | None, root: Root, type: wir.TensorType, first: wir.Expr
) -> Node:
    """Append a view in the root's element type that begins ``first`` elements into it."""
    begin: tuple[Argument, ...]
    fake: SymbolicNumber
    if root.origin is not None:
        offset = wir.add(root.origin, first)
        begin, fake = (graph.numbers.index(offset),), graph.fakes.number(offset)
    elif first == root.type.offset:  # the default of as_strided
        begin, fake = (), _fake_offset(graph, root)
    else:
        part = _part(graph, name, root, type, first)
        if part is not None:
            return part
        node = _offset(graph, root, first)
        begin, fake = (node,), node.meta["val"]
    look = graph.fakes.view(root.node.meta.get("val"), type, fake)
    args = (root.node, *layout_of(graph, type), *begin)
    return graph.nodes.call(torch.as_strided, args, name=name, val=look)


def _part(
    graph: GraphContext, name: str | None, root: Root, type: wir.TensorType, first: wir.Expr
) -> Node | None:
    """Append a view that is a slice of its root, in one dimension or of its flat list.

    A slice counts from the root; ``as_strided`` counts from the start of the storage,
    which export would fix.
    """
    old = root.type
    step = wir.sub(first, old.offset)
    if not isinstance(step, int) or step < 0:
        return None
    if type.stride == old.stride:
        other = [d for d, n in enumerate(type.size) if n != old.size[d]]
        if len(other) == 1:
            (dim,) = other
            return _slice(graph, name, root.node, type, dim, step, old)
    if type.stride != wir.contiguous_stride(type.size):
        return None
    count, extent = wir.product(type.size), wir.storage_extent(old)
    if not (isinstance(count, int) and isinstance(extent, int)):
        return None
    if step + count > extent or count == 0:
        return None
    node = root.node
    if old.stride != (1,):
        if root.rows is None:
            args = (node, (extent,), (1,))
            root.rows = _viewed(graph, torch.as_strided, None, args, flat(old, extent))
        node = root.rows
    return _shaped(graph, name, node, type, step)


def _shaped(
    graph: GraphContext,
    name: str | None,
    node: Node,
    type: wir.TensorType,
    begin: int | None,
) -> Node:
    """Append a row-major view of a flat list, from element ``begin``; ``None`` for all."""
    args: tuple[Argument, ...]
    one, count = len(type.size) == 1, wir.product(type.size)
    if begin is not None:
        assert isinstance(count, int)
        args, part = (node, 0, begin, begin + count), flat(type, count)
        wanted = name if one else None
        node = _viewed(graph, _aten.slice.Tensor, wanted, args, part, begin)
    if one:
        return node
    args = (node, graph.numbers.indices(type.size))
    return _viewed(graph, _aten.view.default, name, args, type)


def _slice(
    graph: GraphContext,
    name: str | None,
    node: Node,
    type: wir.TensorType,
    dim: int,
    step: int,
    old: wir.TensorType,
) -> Node | None:
    stride, size, whole = type.stride[dim], type.size[dim], old.size[dim]
    if not isinstance(size, int) or not isinstance(whole, int):
        return None
    if not isinstance(stride, int) or stride == 0 or step % stride:
        return None
    start = step // stride
    if start + size > whole:
        return None
    args = (node, dim, start, start + size)
    return _viewed(graph, _aten.slice.Tensor, name, args, type, step)


def _offset(graph: GraphContext, root: Root, first: wir.Expr) -> Node:
    """Return the node of PyTorch's storage offset ``first`` elements into a root."""
    node = root.offsets.get(first)
    if node is not None:
        return node
    begin = root.offsets.get(root.type.offset)
    if begin is None:
        target = _aten.sym_storage_offset.default
        begin = graph.nodes.call(target, (root.node,), val=graph.fakes.unknown())
        root.offsets[root.type.offset] = begin
    step = wir.sub(first, root.type.offset) if root.type.offset != 0 else first
    args = begin, graph.numbers.index(step)
    val = begin.meta["val"] + graph.fakes.number(step)
    node = root.offsets[first] = graph.nodes.call(operator.add, args, val=val)
    return node


def _retyped(graph: GraphContext, root: Root, dtype: wir.DType) -> Root:
    """Return all of a root's memory as elements of another type; it is made once."""
    known = root.retyped.get(dtype)
    if known is not None:
        return known
    old = root.type
    size, itemsize = old.dtype.itemsize, dtype.itemsize
    whole = max(size, itemsize)  # bytes that fill no whole element of both are left out
    count = wir.mul(wir.divided(wir.mul(extent_of(old), size), whole), whole // size)
    node = root.node
    if old.size != (count,) or old.stride != (1,) or old.offset != 0:
        node = _elements(graph, None, root, flat(old, count), 0)
    length = wir.mul(wir.divided(count, whole // size), whole // itemsize)
    type = flat(evolve(old, dtype=dtype), length)
    node = _seen_as(graph, None, node, type)
    origin = None
    if root.origin is not None:
        origin = wir.divided(wir.mul(root.origin, size), itemsize)
    known = root.retyped[dtype] = Root(node, type, origin)
    return known


def _seen_as(
    graph: GraphContext, name: str | None, node: Node, type: wir.TensorType
) -> Node:
    """Append the view of a node in the element type of ``type``."""
    look: object = node.meta.get("val")
    begin: Any = None
    if isinstance(look, torch.Tensor):
        begin = look.storage_offset()
        old, new = look.dtype.itemsize, type.dtype.itemsize
        if old != new:
            begin = begin * old // new
    val = graph.fakes.view(look, type, begin)
    args = (node, torch_dtype(type.dtype))
    return graph.nodes.call(_aten.view.dtype, args, name=name, val=val)


def _viewed(
    graph: GraphContext,
    target: Callable[..., object],
    name: str | None,
    args: tuple[Argument, ...],
    type: wir.TensorType,
    step: int = 0,
) -> Node:
    """Append a view that begins ``step`` elements into the tensor ``args[0]``."""
    (source, *_) = args
    assert isinstance(source, Node)
    look: object = source.meta.get("val")
    begin = look.storage_offset() + step if isinstance(look, torch.Tensor) else None
    val = graph.fakes.view(look, type, begin)
    return graph.nodes.call(target, args, name=name, val=val)


def _fake_offset(graph: GraphContext, root: Root) -> SymbolicNumber:
    look: object = root.node.meta.get("val")
    if isinstance(look, torch.Tensor):
        return look.storage_offset()
    return graph.fakes.number(root.type.offset)
