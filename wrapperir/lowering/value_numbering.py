"""Remove repeated and unused work from a list of instructions.

Before::

    v0 = load x[i0]
    v1 = exp v0
    store y[i0] = v1
    v2 = load y[i0]        forwarded from the store
    v3 = load x[i0]        loaded before
    v4 = add v2 v3
    store z[i0] = v4

After, if nothing else reads ``y``::

    v0 = load x[i0]
    v1 = exp v0
    v4 = add v1 v0
    store z[i0] = v4

This is local value numbering (Cocke and Schwartz, 1970).
"""

import math
from collections.abc import Callable, Hashable

from attrs import evolve

from wrapperir.ir import DType, Expr, NodeOrigin
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.flat_nest import FlatNest, is_atomic
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.known_conditions import ConditionFolding
from wrapperir.lowering.loops import (
    Apply,
    Check,
    IndexValue,
    Instruction,
    Literal,
    Load,
    Reduce,
    Scan,
    Store,
)
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.substitution import Substitution, needed, results


def remove_redundancy(
    flat: FlatNest,
    ranges: IndexRanges,
    is_dead: Callable[[str], bool],
    *,
    round_casts: bool = False,
) -> FlatNest:
    """Return a list of instructions without repeated or unused ones.

    Loads of what was stored before take the stored value; stores to buffers of which
    ``is_dead`` is true, which nothing else reads, go.  Unless ``round_casts``, a value
    that is cast from f32 to a half type and back keeps the bits of f32.
    """
    numbering = _Numbering(ranges, round_casts)
    code: list[Instruction] = []
    deep: list[bool] = []
    for each, is_deep in zip(flat.code, flat.deep, strict=True):
        for kept in numbering.rewrite(each):
            code.append(kept)
            deep.append(is_deep)
    code = list(map(numbering.with_origins, code))
    roots = [
        place
        for place, each in enumerate(code)
        if isinstance(each, Check) or (isinstance(each, Store) and not is_dead(each.buffer))
    ]
    numbered = evolve(flat, code=tuple(code), deep=tuple(deep))
    return numbered.at(needed(code, roots))


class _Numbering:
    def __init__(self, ranges: IndexRanges, round_casts: bool) -> None:
        self._round_casts = round_casts
        self._conditions = ConditionFolding(ranges)
        self._names: dict[str, str] = {}
        self._rename = Substitution(self._names, simplify=ranges.simplify)
        self._computed: dict[Hashable, Instruction] = {}
        self._origins: dict[int, tuple[NodeOrigin, ...]] = {}
        self._casts: dict[str, Apply] = {}
        self._dtypes: dict[str, DType] = {}
        self._literals: dict[str, int | float | bool] = {}
        self._stored: dict[str, dict[tuple[Expr, ...], str]] = {}
        self._versions: dict[str, int] = {}

    def rewrite(self, old: Instruction) -> tuple[Instruction, ...]:
        """Return what stays of an instruction."""
        renamed = self._rename.instruction(old) if self._names else old
        new = self._conditions.fold(renamed)
        if isinstance(new, str):
            self._names.update((result, new) for result in results(renamed))
            return ()
        if isinstance(new, Store):
            self._note_store(new)
            return (new,)
        if isinstance(new, Load):
            forwarded = self._stored.get(new.buffer, {}).get(new.index)
            if forwarded is not None:
                return self._forward(new, forwarded)
        elif isinstance(new, Apply):
            is_cast = new.op is ScalarOp.CAST
            source = self._cast_source(new) if is_cast else self._identity_operand(new)
            if source is not None:
                self._names[new.result] = source
                return ()
            if is_cast:
                self._casts[new.result] = new
        key = self._key(new)
        found = self._computed.get(key)
        if found is not None:
            self._names.update(zip(results(new), results(found), strict=True))
            self._add_origins(found, new)
            return ()
        self._computed[key] = new
        if isinstance(new, Load | Apply | Literal | IndexValue):
            self._dtypes[new.result] = new.dtype
        if isinstance(new, Literal):
            self._literals[new.result] = new.value
        return (new,)

    def with_origins(self, kept: Instruction) -> Instruction:
        """Return an instruction with the origins of those that are computed by it too."""
        origins = self._origins.get(id(kept))
        return kept if origins is None else evolve(kept, origins=origins)

    def _add_origins(self, kept: Instruction, other: Instruction) -> None:
        before = self._origins.get(id(kept), kept.origins)
        if other.origins is not before:
            both = tuple(dict.fromkeys((*before, *other.origins)))
            self._origins[id(kept)] = both

    def _note_store(self, store: Store) -> None:
        self._versions[store.buffer] = self._versions.get(store.buffer, 0) + 1
        known = store.mask is None and not is_atomic(store)
        self._stored[store.buffer] = {store.index: store.value} if known else {}

    def _forward(self, load: Load, value: str) -> tuple[Instruction, ...]:
        """Return what a load of a stored value becomes: its mask chooses."""
        if load.mask is None:
            self._names[load.result] = value
            return ()
        self._dtypes[load.result] = load.dtype
        return masked_value(load, value, load.mask)

    def _cast_source(self, cast: Apply) -> str | None:
        """Return the value that a cast's result equals, or is folded to."""
        (operand,) = cast.operands
        if self._dtypes.get(operand) is cast.dtype:
            return operand
        before = self._casts.get(operand)
        if (
            before is not None
            and not self._round_casts
            and before.dtype in HALVES
            and cast.dtype is DType.F32
            and self._dtypes.get(before.operands[0]) is DType.F32
        ):
            return before.operands[0]
        return None

    def _identity_operand(self, new: Apply) -> str | None:
        """Return the operand that a result equals in every bit, such as ``x * 1``."""
        if len(new.operands) != 2:
            return None
        left, right = new.operands
        one, two = self._literals.get(left), self._literals.get(right)
        if new.op is ScalarOp.MUL and one == 1:
            return right
        if new.op in (ScalarOp.MUL, ScalarOp.DIV) and two == 1:
            return left
        # A sum of -0.0 and 0.0 is 0.0.
        if new.op is ScalarOp.SUB and two == 0 and math.copysign(1, two) > 0:
            return left
        if new.op is ScalarOp.ADD and new.dtype.is_integer:
            return right if one == 0 else left if two == 0 else None
        return None

    def _key(self, new: Instruction) -> Hashable:
        match new:
            case Literal():
                # -0.0 equals 0.0, and True equals 1.
                return (Literal, new.dtype, repr(new.value))
            case IndexValue():
                return (IndexValue, new.dtype, new.expr)
            case Load():
                version = self._versions.get(new.buffer, 0)
                return (Load, new.buffer, new.index, version, new.mask, repr(new.other))
            case Apply():
                return (Apply, new.op, new.dtype, new.operands)
            case Reduce() | Scan():
                return (type(new), new.op, new.dtype, new.operands)
            case Check():
                return (Check, new.condition, new.mask)
            case Store():
                raise AssertionError("stores are not numbered")


def masked_value(
    load: Load, value: str, mask: str, prefix: str = ""
) -> tuple[Literal, Apply]:
    """Return what a masked load of a known value becomes; a new name has the prefix."""
    other = Literal(
        result=f"{prefix}{load.result}~",
        dtype=load.dtype,
        value=load.other,
        origins=load.origins,
    )
    choice = Apply(
        result=load.result,
        dtype=load.dtype,
        op=ScalarOp.WHERE,
        operands=(mask, value, other.result),
        origins=load.origins,
    )
    return other, choice
