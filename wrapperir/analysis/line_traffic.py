"""Bytes that a line reads and writes at least, by the types of what it accesses."""

import math
from collections.abc import Mapping

from attrs import frozen

from wrapperir.ir import (
    Number,
    TensorType,
    TupleType,
    ValueType,
    evaluate_int,
)
from wrapperir.ir.effects import Effects, Origin


@frozen
class LineTraffic:
    """Bytes read and written."""

    read: int = 0
    written: int = 0


def line_traffic(
    done: Effects, types: Mapping[str, ValueType], symbols: Mapping[str, Number]
) -> LineTraffic:
    """Return the bytes of the values that a line reads, and of those that it writes.

    Each value counts once as read and once as written, as a whole: a kernel that gathers
    rows of a table reads less than the table.  An element that a broadcast repeats counts
    once.  A line with nested blocks moves nothing itself, and neither does an operator
    whose result may be a view, unless it writes an argument.

    Raises:
        EvaluationError: a symbol has no value in ``symbols``, or a size has none.
    """
    writes = any(access.writes for access in done.accesses)
    may_view = any(m.origin is Origin.OPERATOR and m.may_alias for m in done.definitions)
    if done.blocks or (may_view and not writes):
        return LineTraffic()
    names = [
        dict.fromkeys(access.name for access in done.accesses if access.reads),
        dict.fromkeys(access.name for access in done.accesses if access.writes),
    ]
    return LineTraffic(
        *(sum(value_bytes(types[n], symbols) for n in each if n in types) for each in names)
    )


def value_bytes(type: ValueType, symbols: Mapping[str, Number]) -> int:
    """Return the bytes of a value's elements; 0 for values that are not tensors.

    Raises:
        EvaluationError: a symbol has no value in ``symbols``, or a size has none.
    """
    if isinstance(type, TupleType):
        return sum(value_bytes(element, symbols) for element in type.elements)
    if not isinstance(type, TensorType):
        return 0
    pairs = zip(type.size, type.stride, strict=True)
    counts = [
        evaluate_int(size, symbols)
        for size, stride in pairs
        if evaluate_int(stride, symbols) or evaluate_int(size, symbols) == 0
    ]
    return math.prod(counts) * type.dtype.itemsize
