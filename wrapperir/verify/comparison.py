"""Certain differences between two types: reach, layout, placement.

Sizes may be symbolic.  A difference is reported only where it holds for every value that
the symbols may have.
"""

from collections.abc import Sequence

from wrapperir.analysis.arithmetic import Polynomial, combine, scaled
from wrapperir.ir import (
    Device,
    EventType,
    Expr,
    OpaqueType,
    Operation,
    PoolType,
    ScalarType,
    Symbol,
    TensorType,
    TupleType,
    ValueType,
)
from wrapperir.verify.layouts import Layouts


def same_device(left: Device, right: Device) -> bool:
    """Say whether two devices may be the same: an index left out is any index."""
    if left is right:
        return True
    return left.kind == right.kind and (
        left.index is None or right.index is None or left.index == right.index
    )


def reaches_past(layouts: Layouts, type: TensorType, extent: TensorType) -> bool:
    """Say whether a view of type ``type`` certainly ends past a storage of type ``extent``.

    A view that may be empty is compared as if it had an element.
    """
    if type is extent:
        return False
    facts, limit = layouts.of(type), layouts.of(extent)
    if facts.empty or facts.faults or limit.faults:
        return False
    if facts.reach is not None and limit.reach is not None:
        return facts.reach > limit.reach
    if (
        type.dtype is extent.dtype
        and are_written_alike(type.size, extent.size)
        and are_written_alike(type.stride, extent.stride)
        and are_written_alike((type.offset,), (extent.offset,))
    ):
        return False
    needs = storage_bytes(layouts, type)
    has = {} if limit.empty else storage_bytes(layouts, extent)
    if needs is None or has is None or needs == has:
        return False
    sizes = frozenset(size.name for size in type.size if isinstance(size, Symbol))
    excess = combine(needs, has, -1)
    return layouts.expressions.polynomials.bounds(excess, sizes)[0] > 0


def are_written_alike(left: Sequence[Expr], right: Sequence[Expr]) -> bool:
    """Say whether two lists have the same numbers, symbols and operations.

    Operations are compared by identity: they may share parts, so that another comparison
    could take exponential time.
    """
    return len(left) == len(right) and all(
        a is b or (not isinstance(a, Operation) and a == b)
        for a, b in zip(left, right, strict=True)
    )


def storage_bytes(layouts: Layouts, type: TensorType | PoolType) -> Polynomial | None:
    """Return the bytes from the start of storage that a non-empty type needs."""
    facts = layouts.of(type)
    if facts.needs is None and not facts.faults:
        facts.needs = _build_reach(layouts, type)
    return facts.needs


def _build_reach(layouts: Layouts, type: TensorType | PoolType) -> Polynomial | None:
    polynomials = layouts.expressions.polynomials
    if isinstance(type, PoolType):
        return polynomials.of(type.size)
    one: Polynomial = {(): 1}
    total = combine(polynomials.of(type.offset), one)
    for size, stride in zip(type.size, type.stride, strict=True):
        span = combine(polynomials.of(size), one, -1)
        step = polynomials.product(span, polynomials.of(stride))
        if step is None:
            return None
        total = combine(total, step)
    return scaled(total, type.dtype.itemsize)


def certainly_differ(layouts: Layouts, left: Expr, right: Expr) -> bool:
    """Say whether two sizes are unequal whatever their symbols are."""
    if left is right:
        return False
    if isinstance(left, int) and isinstance(right, int):
        return left != right
    polynomials = layouts.expressions.polynomials
    low, high = polynomials.bounds(combine(polynomials.of(left), polynomials.of(right), -1))
    return low > 0 or high < 0


def any_differ(layouts: Layouts, left: Sequence[Expr], right: Sequence[Expr]) -> bool:
    """Say whether some of as many sizes are unequal whatever their symbols are."""
    return any(certainly_differ(layouts, a, b) for a, b in zip(left, right, strict=True))


def difference(layouts: Layouts, left: ValueType, right: ValueType) -> str | None:
    """Return how two types certainly differ, in words, or ``None``."""
    if left is right:
        return None
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        if layouts.of(left).faults or layouts.of(right).faults:
            return None
        return _tensor_difference(layouts, left, right)
    if isinstance(left, ScalarType) and isinstance(right, ScalarType):
        return _named("dtype", left.dtype.value, right.dtype.value)
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        if len(left.elements) != len(right.elements):
            return f"{len(left.elements)} elements and {len(right.elements)}"
        pairs = zip(left.elements, right.elements, strict=True)
        texts = (difference(layouts, a, b) for a, b in pairs)
        return next((text for text in texts if text is not None), None)
    if isinstance(left, OpaqueType) and isinstance(right, OpaqueType):
        return None
    if isinstance(left, PoolType) and isinstance(right, PoolType):
        alignments = left.alignment, right.alignment
        found = placement_difference(left, right) or _named("alignment", *alignments)
        if found is None and not (layouts.of(left).faults or layouts.of(right).faults):
            differ = certainly_differ(layouts, left.size, right.size)
            found = "different sizes" if differ else None
        return found
    return f"{kind_of(left)} and {kind_of(right)}"


def kind_of(type: ValueType) -> str:
    """Return the kind of a type in words."""
    if isinstance(type, TensorType):
        return "a tensor"
    if isinstance(type, ScalarType):
        return "a scalar"
    if isinstance(type, PoolType | EventType):
        return "a pool" if isinstance(type, PoolType) else "an event"
    return "a tuple" if isinstance(type, TupleType) else "an opaque value"


def placement_difference(
    left: TensorType | PoolType, right: TensorType | PoolType, name: str = "it"
) -> str | None:
    """Return how device, space or pinning of two types certainly differ, or ``None``.

    ``name`` is the name of ``left`` in the text.
    """
    if not same_device(left.device, right.device):
        return f"{name} is on {left.device}, not on {right.device}"
    if left.space != right.space:
        return f"{name} is in space {left.space}, not {right.space}"
    if left.pinned != right.pinned:
        return f"{name} is {'' if left.pinned else 'not '}pinned"
    return None


def _named(what: str, left: object, right: object) -> str | None:
    return None if left == right else f"{what} {left} and {right}"


def _tensor_difference(layouts: Layouts, left: TensorType, right: TensorType) -> str | None:
    found = (
        _named("dtype", left.dtype.value, right.dtype.value)
        or _named("rank", len(left.size), len(right.size))
        or _named("space", left.space, right.space)
        or _named("pinned", left.pinned, right.pinned)
        or _named("vendor layout", left.layout, right.layout)
    )
    if found is not None:
        return found
    if not same_device(left.device, right.device):
        return f"device {left.device} and {right.device}"
    if any_differ(layouts, left.size, right.size):
        return "different sizes"
    if 0 in left.size or 0 in right.size:
        return None
    steps = zip(left.size, left.stride, right.stride, strict=True)
    if any(
        certainly_differ(layouts, size, 1) and certainly_differ(layouts, a, b)
        for size, a, b in steps
    ):
        return "different strides"
    if certainly_differ(layouts, left.offset, right.offset):
        return "different offsets"
    return None
