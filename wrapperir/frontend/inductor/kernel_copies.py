"""The copies that a kernel of Inductor's makes: buffers with elements of others.

Inductor copies what is in the wrong layout for a call, and what it joins, in loops of
their own, which it then fuses with others.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import sympy
from attrs import frozen
from torch._inductor import ir
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.scheduler import FusedSchedulerNode
from torch._inductor.virtualized import V

from wrapperir.ir import CopyAxis, KernelCopy

_PLACE: Final = object()
"""A value that the place of an element decides, such as whether it is in the first part."""

_COMPARING = frozenset({"and_", "eq", "ge", "gt", "le", "lt"})
_JOINING = frozenset({"load", "masked", "where"})


def kernel_copies(
    parts: Iterable[Any], parameters: Mapping[str, str]
) -> tuple[KernelCopy, ...]:
    """Return the copies that the parts of a kernel make.

    ``parameters`` are those of the buffers that the kernel is given, by their names in the
    graph: other buffers are not in memory.
    """
    found: dict[tuple[str, str], KernelCopy] = {}
    parts = list(parts)
    loops = {part.get_name(): _loop_of(part) for part in parts if _is_loop(part)}
    for part in parts:
        target = parameters.get(part.get_name()) if _is_loop(part) else None
        if target is None:
            continue
        sources, is_whole = _sources(part.data)
        for name in sources:
            source = parameters.get(name, target)
            if source != target and V.graph.get_dtype(name) == part.get_dtype():
                loop = loops[part.get_name()]
                found[target, source] = KernelCopy(
                    target,
                    source,
                    whole=is_whole,
                    axes=_axes(part) if is_whole else None,
                    computed=loop is not None and loops.get(name) is loop,
                )
    return tuple(found.values())


def _loop_of(part: ir.ComputedBuffer) -> object | None:
    """Return what identifies the loop that runs a part without reductions.

    Parts of one loop use values that it has stored, and do not load them.  Where it also
    reduces, it may be several.
    """
    node = V.graph.scheduler.name_to_fused_node.get(part.get_operation_name())
    if type(node) is not FusedSchedulerNode or any(x.is_reduction() for x in node.snodes):
        return None
    return node


def _axes(part: ir.ComputedBuffer) -> tuple[CopyAxis, ...] | None:
    """Return the loops of a part that only loads; ``None`` unless all steps are known."""
    (index,) = part.data.inner_fn_args()
    size, stride = part.get_size(), part.get_stride()
    with V.set_ops_handler(_LoadIndex()):
        loaded = part.data.inner_fn(index)
    place = getattr(loaded, "value", loaded)
    if not isinstance(place, sympy.Expr):
        return None
    ranges = {axis: extent for axis, extent in zip(index, size, strict=True) if axis != 0}
    place = sympy.expand(V.graph.sizevars.simplify_with_ranges(place, ranges))
    found: list[CopyAxis] = []
    for axis, extent, target in zip(index, size, stride, strict=True):
        if axis == 0:  # it has one element
            continue
        source = place.coeff(axis)
        place -= axis * source
        if not all(isinstance(x, int | sympy.Integer) for x in (extent, target, source)):
            return None
        found.append(CopyAxis(int(extent), int(target), int(source)))
    return None if place.free_symbols.intersection(index) else tuple(found)


class _LoadIndex(DefaultHandler):
    """Returns the index of a load."""

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        return args[1] if name == "load" else None


def _is_loop(part: Any) -> bool:
    """Say whether a part stores a value at each point of its loops, in their order."""
    return isinstance(part, ir.ComputedBuffer) and type(part.data) is ir.Pointwise


def _sources(data: ir.Pointwise) -> tuple[tuple[str, ...], bool]:
    """Return the buffers that a loop copies elements of, and whether it does only that."""
    count = data.inner_fn_opcount()
    if count.used_ops == {"load"} and len(count.read_buffers) == 1:
        return tuple(count.read_buffers), True
    if not count.used_ops >= _JOINING or "indirect_indexing" in count.used_ops:
        return (), False
    with V.set_ops_handler(_CopiedElements()):
        value = data.inner_fn(*data.inner_fn_args())
    value = getattr(value, "value", value)
    return (value.sources if isinstance(value, _Elements) else ()), False


@frozen
class _Elements:
    """A value that is an element of a buffer, of which one the place may decide."""

    sources: tuple[str, ...]


class _CopiedElements(DefaultHandler):
    """Finds the buffers whose elements a loop stores as they are.

    Each element of a result of ``torch.cat`` is loaded from the part that it is in.
    """

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        match name, args:
            case "load", (str(buffer), _):
                return _Elements((buffer,))
            case "masked", (mask, body, _):
                value = body()
                return getattr(value, "value", value) if mask is _PLACE else None
            case "where", (condition, *values) if condition is _PLACE:
                found = [each for each in values if isinstance(each, _Elements)]
                sources = (source for each in found for source in each.sources)
                return _Elements(tuple(dict.fromkeys(sources)))
            case (("constant" | "index_expr"), _):
                return _PLACE
            case "frexp", _:
                return None, None
            case _:
                is_place = name in _COMPARING and all(each is _PLACE for each in args)
                return _PLACE if is_place and not kwargs else None
