"""Views of memory: each is made of its root, the node that the memory began as.

Other compilers make a graph one without writes.  They follow a write to a view only where
no view but the first one of the root is ``as_strided``; so there are no views of views but
for those that change the element type, which come last.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from attrs import evolve, frozen
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir.ir.expr import Expr, add, mul, product, sub
from wrapperir.ir.quotients import divided, quotient
from wrapperir.ir.types import DType, TensorType, contiguous_stride, storage_extent
from wrapperir_fx.arguments import torch_dtype
from wrapperir_fx.fake_arithmetic import FakeNumber
from wrapperir_fx.values import Root, Value, extent_of

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines

_aten = torch.ops.aten


def view_of(
    lines: "FxLines", name: str, source: Value, type: TensorType, place: Expr = 0
) -> Value:
    """Append a view of memory that begins ``place`` bytes after where the source's does.

    The offset of ``type`` counts from there, and so do those of the view's own views.
    """
    root = source.root
    if root is None:
        root = source.root = Root(source.node, source.tensor_type)
    begin = add(source.begin, place)
    first = add(divided(begin, type.dtype.itemsize), type.offset)
    node = _view(lines, name, root, type, first, begin)
    return Value(node, type, root=root, begin=begin)


def layout_of(lines: "FxLines", type: TensorType) -> tuple[Argument, Argument]:
    """Return the size and stride of a type as arguments."""
    layout = lines.layouts.get(type)
    if layout is None:
        layout = lines.numbers.indices(type.size), lines.numbers.indices(type.stride)
        lines.layouts[type] = layout
    return layout


def flat(type: TensorType, count: Expr) -> TensorType:
    """Return the type of a list without gaps of elements as those of ``type``."""
    return evolve(type, size=(count,), stride=(1,), offset=0)


@frozen
class Run:
    """Elements of a root that elements of another type lie in, and those left out."""

    begin: Expr
    count: Expr
    skipped: int = 0
    """Elements of the other type before the first one of the tensor."""
    spare: bool = False
    """Whether there are others than those of the tensor."""


def run_of(type: TensorType, begin: Expr, itemsize: int) -> Run | None:
    """Return the elements of ``itemsize`` bytes that hold a row-major tensor, if any do.

    ``begin`` is its first byte in memory that has whole elements of so many bytes.
    """
    if type.stride != contiguous_stride(type.size):
        return None
    own = mul(product(type.size), type.dtype.itemsize)
    first, count = quotient(begin, itemsize), quotient(own, itemsize)
    if first is not None and count is not None:
        return Run(first, count)
    if not isinstance(own, int):
        return None
    if first is not None:
        return Run(first, -(-own // itemsize), 0, spare=True)
    if not isinstance(begin, int):
        return None
    first, before = divmod(begin, itemsize)
    skipped, rest = divmod(before, type.dtype.itemsize)
    count = -(-(before + own) // itemsize)
    return None if rest else Run(first, count, skipped, spare=True)


def _view(
    lines: "FxLines",
    name: str | None,
    root: Root,
    type: TensorType,
    first: Expr,
    begin: Expr,
) -> Node:
    """Append a view that begins ``first`` elements, of its own, into a root's memory."""
    old = root.type
    if type.dtype is old.dtype:
        return _elements(lines, name, root, type, first)
    if type.dtype.itemsize == old.dtype.itemsize:
        layout = evolve(type, dtype=old.dtype)
        same = (type.size, type.stride, first) == (old.size, old.stride, old.offset)
        node = root.node if same else _elements(lines, None, root, layout, first)
        return _seen_as(lines, name, node, type)
    byte = add(begin, mul(type.offset, type.dtype.itemsize))
    resized = _resized(lines, name, root, type, byte)
    if resized is not None:
        return resized
    return _view(lines, name, _retyped(lines, root, type.dtype), type, first, begin)


def _resized(
    lines: "FxLines", name: str | None, root: Root, type: TensorType, byte: Expr
) -> Node | None:
    """Append a view from a byte on, of elements of another size than the root's."""
    size, itemsize = root.type.dtype.itemsize, type.dtype.itemsize
    run = run_of(type, byte, size)
    wider = itemsize // size
    rank = len(type.size)
    if run is not None:
        layout = evolve(root.type, size=(run.count,), stride=(1,))
        node = _elements(lines, None, root, layout, run.begin)
        count = product(type.size)
        seen = evolve(type, size=(count,), stride=(1,))
        only = rank == 1 and not run.spare
        if run.spare:
            assert isinstance(run.count, int)
            seen = evolve(seen, size=(run.count * size // itemsize,))
        node = _seen_as(lines, name if only else None, node, seen)
        if run.spare:
            assert isinstance(count, int)
            args: tuple[Argument, ...] = (node, 0, run.skipped, run.skipped + count)
            part = evolve(type, size=(count,), stride=(1,))
            wanted = name if rank == 1 else None
            node = _viewed(lines, _aten.slice.Tensor, wanted, args, part, run.skipped)
        if rank != 1:
            args = (node, lines.numbers.indices(type.size))
            node = _viewed(lines, _aten.view.default, name, args, type)
        return node
    if wider > 1:
        strides = [mul(stride, wider) for stride in type.stride]
        layout = evolve(root.type, size=(*type.size, wider), stride=(*strides, 1))
        node = _elements(lines, None, root, layout, divided(byte, size))
        seen = evolve(type, size=(*type.size, 1), stride=(*type.stride, 1))
        node = _seen_as(lines, None, node, seen)
        return _viewed(lines, _aten.squeeze.dim, name, (node, -1), type)
    return None


def _elements(
    lines: "FxLines", name: str | None, root: Root, type: TensorType, first: Expr
) -> Node:
    """Append a view of elements of the root's own type, ``first`` into its memory."""
    begin: tuple[Argument, ...]
    fake: FakeNumber
    if root.origin is not None:
        offset = add(root.origin, first)
        begin, fake = (lines.numbers.index(offset),), lines.fakes.number(offset)
    elif first == root.type.offset:  # there as_strided begins unless told otherwise
        begin, fake = (), _fake_offset(lines, root)
    else:
        part = _part(lines, name, root, type, first)
        if part is not None:
            return part
        node = _offset(lines, root, first)
        begin, fake = (node,), node.meta["val"]
    look = lines.fakes.view(root.node.meta.get("val"), type, fake)
    args = (root.node, *layout_of(lines, type), *begin)
    return lines.nodes.call(torch.as_strided, args, name=name, val=look)


def _part(
    lines: "FxLines", name: str | None, root: Root, type: TensorType, first: Expr
) -> Node | None:
    """Append a view of what is a slice of its root, in one dimension or as rows.

    Unlike ``as_strided`` it counts from where the root is, which export would fix.
    """
    old = root.type
    step = sub(first, old.offset)
    if not isinstance(step, int) or step < 0:
        return None
    if type.stride == old.stride:
        other = [d for d, n in enumerate(type.size) if n != old.size[d]]
        if len(other) == 1:
            (dim,) = other
            return _slice(lines, name, root.node, type, dim, step, old)
    if type.stride != contiguous_stride(type.size):
        return None
    count, extent = product(type.size), storage_extent(old)
    if not (isinstance(count, int) and isinstance(extent, int)):
        return None
    if step + count > extent or count == 0:
        return None
    node = root.node
    if old.stride != (1,):
        if root.rows is None:
            args = (node, (extent,), (1,))
            root.rows = _viewed(lines, torch.as_strided, None, args, flat(old, extent))
        node = root.rows
    run = evolve(type, size=(count,), stride=(1,))
    one = len(type.size) == 1
    taken = (node, 0, step, step + count)
    node = _viewed(lines, _aten.slice.Tensor, name if one else None, taken, run, step)
    if one:
        return node
    shape = (node, lines.numbers.indices(type.size))
    return _viewed(lines, _aten.view.default, name, shape, type)


def _slice(
    lines: "FxLines",
    name: str | None,
    node: Node,
    type: TensorType,
    dim: int,
    step: int,
    old: TensorType,
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
    return _viewed(lines, _aten.slice.Tensor, name, args, type, step)


def _offset(lines: "FxLines", root: Root, first: Expr) -> Node:
    """Return the node of the offset in PyTorch's storage of what begins ``first`` in."""
    node = root.offsets.get(first)
    if node is not None:
        return node
    begin = root.offsets.get(root.type.offset)
    if begin is None:
        target = _aten.sym_storage_offset.default
        begin = lines.nodes.call(target, (root.node,), val=lines.fakes.unknown())
        root.offsets[root.type.offset] = begin
    step = sub(first, root.type.offset) if root.type.offset != 0 else first
    args = begin, lines.numbers.index(step)
    val = begin.meta["val"] + lines.fakes.number(step)
    node = root.offsets[first] = lines.nodes.call(operator.add, args, val=val)
    return node


def _retyped(lines: "FxLines", root: Root, dtype: DType) -> Root:
    """Return what is seen of all of a root's memory in another element type, once made."""
    known = root.retyped.get(dtype)
    if known is not None:
        return known
    old = root.type
    size, itemsize = old.dtype.itemsize, dtype.itemsize
    whole = max(size, itemsize)  # only what fills whole elements of both can be seen so
    count = mul(divided(mul(extent_of(old), size), whole), whole // size)
    node = root.node
    if old.size != (count,) or old.stride != (1,) or old.offset != 0:
        node = _elements(lines, None, root, flat(old, count), 0)
    length = mul(divided(count, whole // size), whole // itemsize)
    type = flat(evolve(old, dtype=dtype), length)
    node = _seen_as(lines, None, node, type)
    origin = None
    if root.origin is not None:
        origin = divided(mul(root.origin, size), itemsize)
    known = root.retyped[dtype] = Root(node, type, origin)
    return known


def _seen_as(lines: "FxLines", name: str | None, node: Node, type: TensorType) -> Node:
    """Append the view of a node in the element type of ``type``."""
    look: object = node.meta.get("val")
    begin: Any = None
    if isinstance(look, torch.Tensor):
        begin = look.storage_offset()
        old, new = look.dtype.itemsize, type.dtype.itemsize
        if old != new:
            begin = begin * old // new
    val = lines.fakes.view(look, type, begin)
    args = (node, torch_dtype(type.dtype))
    return lines.nodes.call(_aten.view.dtype, args, name=name, val=val)


def _viewed(
    lines: "FxLines",
    target: Callable[..., object],
    name: str | None,
    args: tuple[Argument, ...],
    type: TensorType,
    step: int = 0,
) -> Node:
    """Append a view that begins ``step`` elements into the tensor that it is of."""
    (source, *_) = args
    assert isinstance(source, Node)
    look: object = source.meta.get("val")
    begin = look.storage_offset() + step if isinstance(look, torch.Tensor) else None
    val = lines.fakes.view(look, type, begin)
    return lines.nodes.call(target, args, name=name, val=val)


def _fake_offset(lines: "FxLines", root: Root) -> FakeNumber:
    look: object = root.node.meta.get("val")
    if isinstance(look, torch.Tensor):
        return look.storage_offset()
    return lines.fakes.number(root.type.offset)
