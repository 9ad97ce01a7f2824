"""Bytes that a line reads and writes at least, by the types of what it accesses."""

import math
from collections.abc import Mapping

from attrs import frozen

from wrapperir.ir import (
    BodyLine,
    BufferRef,
    KernelCallLine,
    KernelDefinitionLine,
    Number,
    Program,
    TensorParameter,
    TensorType,
    TupleType,
    ValueType,
    evaluate_int,
    runtime_parameters,
)
from wrapperir.ir.effects import Effects, Origin


@frozen
class LineTraffic:
    """Bytes read and written: those that are ``touched``, or else those of whole values."""

    read: int = 0
    written: int = 0
    touched: bool = False


class KernelTraffic:
    """The bytes that calls of kernels touch at most, where kernels say it."""

    def __init__(self, program: Program) -> None:
        """Find what definitions say."""
        self._kernels = {
            line.name: (runtime_parameters(line.parameters), touched)
            for line in program.definitions
            if isinstance(line, KernelDefinitionLine)
            and (touched := line.touched) is not None
        }

    def of(
        self,
        line: BodyLine,
        types: Mapping[str, ValueType],
        symbols: Mapping[str, Number],
    ) -> LineTraffic | None:
        """Return what a line touches; ``None`` if that is not known.

        It is no more than the values that the kernel is given.

        Raises:
            EvaluationError: a symbol has no value in ``symbols``, or a size has none.
        """
        if not isinstance(line, KernelCallLine) or line.kernel not in self._kernels:
            return None
        parameters, touched = self._kernels[line.kernel]
        read, written = 0, 0
        for parameter, argument in zip(parameters, line.arguments, strict=True):
            if isinstance(parameter, TensorParameter) and isinstance(argument, BufferRef):
                most = value_bytes(types[argument.name], symbols)
                size, name = parameter.dtype.itemsize, parameter.name
                read += min(touched.read.get(name, 0) * size, most)
                written += min(touched.written.get(name, 0) * size, most)
        return LineTraffic(read, written, touched=True)


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
    read, written = (
        sum(value_bytes(types[name], symbols) for name in names if name in types)
        for names in (
            dict.fromkeys(access.name for access in done.accesses if access.reads),
            dict.fromkeys(access.name for access in done.accesses if access.writes),
        )
    )
    return LineTraffic(read, written)


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
