"""Fold conditions on indices that hold at all points, or at none.

Before, over ``i0 < 64``::

    v0 = index i0 + 64
    v1 = literal 64
    v2 = lt v0 v1
    v3 = load x[i0 + 64] if v2 else 0.0
    v4 = load y[i0]
    v5 = where v2 v3 v4

After, ``v4`` is in the place of ``v5``.
"""

from attrs import evolve

from wrapperir.analysis.arithmetic import Interval
from wrapperir.ir import DType
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.loops import (
    Apply,
    Check,
    IndexValue,
    Instruction,
    Literal,
    Load,
    Store,
)
from wrapperir.lowering.scalar_op import ScalarOp


class ConditionFolding:
    """Folds instructions in order; ``ranges`` are those of axes and size symbols."""

    def __init__(self, ranges: IndexRanges) -> None:
        """Begin without values."""
        self._ranges = ranges
        self._intervals: dict[str, Interval] = {}
        self._known: dict[str, bool] = {}

    def fold(self, old: Instruction) -> Instruction | str:
        """Return an instruction to take the place of one, or the value that its is."""
        match old:
            case Literal():
                self._note(old)
            case IndexValue():
                if old.dtype is DType.I64:
                    self._intervals[old.result] = self._ranges.interval(old.expr)
            case Load():
                if self._known.get(old.mask or "") is False:
                    return _literal(old, old.other)
                return self._without_mask(old)
            case Store() | Check():
                return self._without_mask(old)
            case Apply():
                return self._fold_operator(old)
            case _:
                pass
        return old

    def _note(self, literal: Literal) -> None:
        if literal.dtype is DType.BOOL:
            self._known[literal.result] = bool(literal.value)
        elif literal.dtype is DType.I64:
            self._intervals[literal.result] = (literal.value, literal.value)

    def _without_mask(self, old: Load | Store | Check) -> Instruction:
        return evolve(old, mask=None) if self._known.get(old.mask or "") else old

    def _fold_operator(self, old: Apply) -> Instruction | str:
        first, *others = old.operands
        if old.op is ScalarOp.WHERE:
            test = self._known.get(first)
            return old if test is None else others[0 if test else 1]
        if old.op is ScalarOp.AND and old.dtype is DType.BOOL:
            for one, other in ((first, others[0]), (others[0], first)):
                if one in self._known:
                    return other if self._known[one] else one
        result = self._result(old)
        if result is None:
            return old
        literal = _literal(old, result)
        self._note(literal)
        return literal

    def _result(self, old: Apply) -> bool | None:
        """Return the result of a negation or of a comparison of indices, if it is known."""
        if old.op is ScalarOp.NOT:
            known = self._known.get(old.operands[0])
            return None if known is None else not known
        if len(old.operands) != 2:
            return None
        left, right = map(self._intervals.get, old.operands)
        if left is None or right is None:
            return None
        match old.op:
            case ScalarOp.LT:
                return _is_less(left, right)
            case ScalarOp.GT:
                return _is_less(right, left)
            case ScalarOp.GE:
                result = _is_less(left, right)
            case ScalarOp.LE:
                result = _is_less(right, left)
            case _:
                return None
        return None if result is None else not result


def _is_less(left: Interval, right: Interval) -> bool | None:
    """Return whether values of an interval are less than those of another, if known."""
    if left[1] < right[0]:
        return True
    return False if left[0] >= right[1] else None


def _literal(old: Load | Apply, value: int | float | bool) -> Literal:
    return Literal(result=old.result, dtype=old.dtype, value=value, origins=old.origins)
