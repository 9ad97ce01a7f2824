"""Values that several inner loops of a nest compute, kept in an array between them.

A loop that needs what an earlier one has computed at the same point reads it again, if that
costs less: softmax computes each exponential once::

    for r0: row[r0] = exp(x[i0, r0] - most)     and their sum
    for r0: out[i0, r0] = row[r0] / total
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from attrs import field, frozen

from wrapperir.ir import DType, Expr, Operation, Symbol, substitute
from wrapperir.lowering.loops import (
    Apply,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Store,
)
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.substitution import instructions, names_used, results

_LONGEST = 4096
"""Elements of an array, which stay in the processor's first cache."""
_MOST_ARRAYS = 3
_LEAST_COST = 5
"""Cost of a value, in simple operators, from which keeping it pays."""
_COSTS: Mapping[ScalarOp, int] = {
    **dict.fromkeys((ScalarOp.DIV, ScalarOp.SQRT, ScalarOp.RSQRT), 10),
    **dict.fromkeys(
        (
            *(ScalarOp.EXP, ScalarOp.EXP2, ScalarOp.EXPM1, ScalarOp.LOG, ScalarOp.LOG2),
            *(ScalarOp.LOG10, ScalarOp.LOG1P, ScalarOp.SIN, ScalarOp.COS, ScalarOp.TAN),
            *(ScalarOp.TANH, ScalarOp.ERF, ScalarOp.POW),
        ),
        25,
    ),
    ScalarOp.CAST: 2,
}

_RowKey: TypeAlias = Hashable


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
    written = {step.buffer for step in instructions(nest.body) if isinstance(step, Store)}
    arrays: dict[_RowKey, KeptRow] = {}
    stored: dict[str, str] = {}
    read: dict[str, str] = {}
    known: dict[_RowKey, str] = {}
    for loop in steps:
        assert isinstance(loop, InnerLoop)
        length = _length(loop)
        if length is None:
            continue
        values = _Values(loop, written)
        for name in values.needed(known):
            key, source = values.keys[name], known[values.keys[name]]
            if key not in arrays:
                if len(arrays) == _MOST_ARRAYS:
                    continue
                row = KeptRow(f"row{len(arrays)}", values.dtypes[name], length)
                arrays[key] = row
                stored[source] = row.name
            read[name] = arrays[key].name
        for name, key in values.keys.items():
            known.setdefault(key, name)
    return KeptRows(tuple(arrays.values()), stored, read)


def _length(loop: InnerLoop) -> int | None:
    """Return the points of a loop, if they are known and few."""
    length = 1
    for axis in loop.axes:
        if not isinstance(axis.extent, int):
            return None
        length *= axis.extent
    return length if length <= _LONGEST else None


class _Values:
    """The values of a loop by keys, which are equal where the values are."""

    def __init__(self, loop: InnerLoop, written: set[str]) -> None:
        """Give a key to each value that no written buffer decides."""
        self.keys: dict[str, _RowKey] = {}
        self.dtypes: dict[str, DType] = {}
        self._loop = loop
        self._costs: dict[str, int] = {}
        extents = tuple(axis.extent for axis in loop.axes)
        self._shape = extents
        axes: dict[str, Expr] = {
            axis.name: Symbol(f"axis {place}") for place, axis in enumerate(loop.axes)
        }
        own = {name for step in loop.body for name in results(step)}
        for step in loop.body:
            if isinstance(step, Load) and step.buffer in written:
                continue
            missing = own.difference(self.keys)
            if not isinstance(step, Literal | IndexValue | Load | Apply) or (
                not missing.isdisjoint(names_used(step))
            ):
                continue
            self.keys[step.result] = (extents, *self._parts(step, axes))
            self.dtypes[step.result] = step.dtype
            self._costs[step.result] = self._cost(step)

    def _parts(
        self, step: Literal | IndexValue | Load | Apply, axes: Mapping[str, Expr]
    ) -> tuple[_RowKey, ...]:
        def part(expr: Expr) -> _RowKey:
            names = (name for name in names_used(step) if name in self.keys)
            used = tuple(self.keys[name] for name in sorted(names))
            return (substitute(expr, axes) if _has_names(expr) else expr, used)

        match step:
            case Literal():
                return ("literal", step.dtype, repr(step.value))
            case IndexValue():
                return ("index", step.dtype, part(step.expr))
            case Load():
                mask = None if step.mask is None else self._key(step.mask)
                index = tuple(part(expr) for expr in step.index)
                return ("load", step.dtype, step.buffer, index, mask, repr(step.other))
            case Apply():
                return (step.op, step.dtype, *map(self._key, step.operands))

    def _key(self, name: str) -> _RowKey:
        return self.keys.get(name, ("outer", name))

    def _cost(self, step: Instruction) -> int:
        own = 0
        if isinstance(step, Load):
            own = 1
        elif isinstance(step, Apply):
            own = _COSTS.get(step.op, 1)
        return own + sum(self._costs.get(name, 0) for name in names_used(step))

    def needed(self, known: Mapping[_RowKey, str]) -> Sequence[str]:
        """Return the costly values that are known and that other values are made of."""
        found = {
            name
            for name, key in self.keys.items()
            if key in known and self._costs[name] >= _LEAST_COST
        }
        used: dict[str, None] = {}
        for step in self._loop.body:
            if found.isdisjoint(results(step)):
                used.update(dict.fromkeys(n for n in names_used(step) if n in found))
        return list(used)


def _has_names(expr: Expr) -> bool:
    return isinstance(expr, Symbol | Operation)
