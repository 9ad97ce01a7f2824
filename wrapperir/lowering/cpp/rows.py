"""Values that several inner loops of a nest compute, kept in an array between them.

A loop that needs what an earlier one has computed at the same point reads it again, if that
costs less: softmax computes each exponential once::

    for r0: row[r0] = exp(x[i0, r0] - most)     and their sum
    for r0: out[i0, r0] = row[r0] / total
"""

from collections.abc import Collection, Iterable, Mapping

from attrs import field, frozen

from wrapperir.ir import DType
from wrapperir.lowering.costs import SLOW
from wrapperir.lowering.loops import (
    Apply,
    IndexValue,
    InnerLoop,
    Literal,
    Load,
    Nest,
)
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.substitution import names_used, results
from wrapperir.lowering.value_numbers import ValueNumbers

_LONGEST = 4096
"""Elements of an array, which stay in the processor's first cache."""
_MOST_ARRAYS = 3
_LEAST_COST = 5
"""Cost of a value, in simple operators, from which keeping it pays."""


@frozen
class KeptRow:
    """An array of the values of a loop, by position: its name, dtype and length."""

    name: str
    dtype: DType
    length: int


@frozen
class KeptRows:
    """Arrays, and the values that are stored to them and read from them, by name."""

    arrays: tuple[KeptRow, ...] = ()
    stored: Mapping[str, str] = field(factory=dict[str, str])
    read: Mapping[str, str] = field(factory=dict[str, str])


def find_rows(nest: Nest, places: Iterable[int]) -> KeptRows:
    """Return the values to keep between the inner loops at some places of a nest."""
    steps = [nest.body[place] for place in sorted(places)]
    numbers = ValueNumbers(nest.body)
    arrays: dict[int, KeptRow] = {}
    stored: dict[str, str] = {}
    read: dict[str, str] = {}
    known: dict[int, str] = {}
    for loop in steps:
        assert isinstance(loop, InnerLoop)
        length = _length(loop)
        if length is None:
            continue
        values, costs = numbers.of(loop), _value_costs(loop)
        costly = {n for n, v in values.items() if v in known and costs[n] >= _LEAST_COST}
        dtypes = {s.result: s.dtype for s in loop.body if isinstance(s, Apply | Load)}
        for name in _needed(loop, costly):
            value = values[name]
            if value not in arrays:
                if len(arrays) == _MOST_ARRAYS:
                    continue
                row = KeptRow(f"row{len(arrays)}", dtypes[name], length)
                arrays[value] = row
                stored[known[value]] = row.name
            read[name] = arrays[value].name
        for name, value in values.items():
            known.setdefault(value, name)
    return KeptRows(tuple(arrays.values()), stored, read)


def _length(loop: InnerLoop) -> int | None:
    """Return the points of a loop, if they are known and few."""
    length = 1
    for axis in loop.axes:
        if not isinstance(axis.extent, int):
            return None
        length *= axis.extent
    return length if length <= _LONGEST else None


def _value_costs(loop: InnerLoop) -> dict[str, int]:
    """Return what the values of a loop cost, in simple operators, with what they need."""
    costs: dict[str, int] = {}
    for step in loop.body:
        if not isinstance(step, Literal | IndexValue | Load | Apply):
            continue
        own = int(isinstance(step, Load))
        if isinstance(step, Apply):
            own = 25 if step.op in SLOW else 2 if step.op is ScalarOp.CAST else 1
        costs[step.result] = own + sum(costs.get(name, 0) for name in names_used(step))
    return costs


def _needed(loop: InnerLoop, found: Collection[str]) -> list[str]:
    """Return the found values that other values are made of."""
    used: dict[str, None] = {}
    for step in loop.body:
        if not any(name in found for name in results(step)):
            used.update(dict.fromkeys(n for n in names_used(step) if n in found))
    return list(used)
