"""Run instructions for a part of the points of an axis: the others touch nothing.

Before, over ``r0 < 1000``::

    v0 = load x[r0]
    v1 = reduce sum v0

After, where ``r0`` is ``i0 * 256 + r1``, which may pass the end::

    m = lt (i0 * 256 + r1) 1000
    v0 = load x[i0 * 256 + r1] if m
    w0 = where m v0 0.0
    v1 = reduce sum w0
"""

from attrs import evolve

from wrapperir.ir import DType, Expr, Symbol
from wrapperir.lowering.dtypes import identity
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.inline import can_mask
from wrapperir.lowering.loops import (
    Apply,
    Check,
    IndexValue,
    Instruction,
    Literal,
    Load,
    Reduce,
    Store,
)
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.substitution import names_used, results


def masked_rows(flat: FlatNest, axis: str, extent: Expr) -> FlatNest | None:
    """Return instructions that do nothing where ``axis`` is ``extent`` or more.

    ``None`` if they cannot: a reduction has no value that changes nothing, or operators
    would divide by what is not loaded.
    """
    if not can_mask(flat.code):
        return None
    mask = f"{axis}.inside"
    found: list[Instruction] = [
        IndexValue(result=f"{axis}.at", dtype=DType.I64, expr=Symbol(axis)),
        IndexValue(result=f"{axis}.end", dtype=DType.I64, expr=extent),
        Apply(
            result=mask,
            dtype=DType.BOOL,
            op=ScalarOp.LT,
            operands=(f"{axis}.at", f"{axis}.end"),
        ),
    ]
    found_deep = [True, True, True]
    along = {axis}

    def both(masked: Load | Store | Check) -> str:
        if masked.mask is None:
            return mask
        name = f"{axis}.mask{len(found)}"
        both_hold = Apply(
            result=name,
            dtype=DType.BOOL,
            op=ScalarOp.AND,
            operands=(masked.mask, mask),
            origins=masked.origins,
        )
        add(both_hold)
        return name

    def add(instruction: Instruction, is_deep: bool = True) -> None:
        found.append(instruction)
        found_deep.append(is_deep)

    for each, is_deep in zip(flat.code, flat.deep, strict=True):
        if isinstance(each, Reduce):
            value = identity(each.op, each.dtype)
            if value is None or len(each.operands) != 1:
                return None
            name = f"{axis}.value{len(found)}"
            other = Literal(
                result=f"{name}~", dtype=each.dtype, value=value, origins=each.origins
            )
            add(other)
            chosen = Apply(
                result=name,
                dtype=each.dtype,
                op=ScalarOp.WHERE,
                operands=(mask, each.operands[0], other.result),
                origins=each.origins,
            )
            add(chosen)
            add(evolve(each, operands=(name,)))
            continue
        is_along = not along.isdisjoint(names_used(each))
        if is_along:
            along.update(results(each))
        if isinstance(each, Load) and is_along:
            add(evolve(each, mask=both(each)), is_deep)
        elif isinstance(each, Store | Check) and is_deep:
            add(evolve(each, mask=both(each)))
        else:
            add(each, is_deep)
    return evolve(flat, code=tuple(found), deep=tuple(found_deep))
