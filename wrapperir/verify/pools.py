"""Checks of pools and placements."""

import math

from wrapperir.diagnostics import Code
from wrapperir.ir import AllocatePoolLine, Expr, PlaceLine, PoolType, TensorType, ZeroMode
from wrapperir.verify.comparison import placement_difference
from wrapperir.verify.layouts import TypeFacts
from wrapperir.verify.names import check_type, define, use
from wrapperir.verify.placements import (
    PlacedExtent,
    Placement,
    PoolContents,
    certain_excess,
    certainly_overlap,
    extent_of,
)
from wrapperir.verify.state import (
    OWNED,
    Role,
    State,
    StorageFacts,
    ValueFacts,
)


def check_allocate_pool(state: State, line: AllocatePoolLine) -> None:
    """Define a pool with memory of its own."""
    define(state, line.result, line.type, Role.OWNED, StorageFacts(pool=PoolContents()))


def check_place(state: State, line: PlaceLine) -> None:
    """Define a storage in a pool."""
    type, workspace = line.type, line.workspace
    pool = use(state, line.pool)
    sound_offset = _check_offset(state, line.offset)
    zeroed = workspace is ZeroMode.ZERO_ON_CALL
    storage = StorageFacts(written=zeroed, workspace=workspace)
    if isinstance(type, TensorType):
        storage.extent, storage.exact = type, True
    else:
        storage.pool = PoolContents()
    value = define(state, line.result, type, OWNED, storage)
    if value.facts.empty:
        storage.written = True
    if pool is None:
        return
    if not isinstance(pool.type, PoolType):
        state.report_value(
            pool,
            Code.NOT_A_POOL,
            f"%{pool.name} is not a pool",
            hint="allocate a pool and place in that",
        )
        return
    if not value.live:
        return
    _keep(pool, value)
    if sound_offset and not value.facts.faults and not pool.facts.faults:
        _check_place(state, line, pool, value)


def _keep(pool: ValueFacts, value: ValueFacts) -> None:
    """Have the placement keep its pool alive, and the pool that this is placed in."""
    outer = pool.storage.placement
    lender = pool.storage.lender
    if outer is not None:
        outer.names += 1
        lender = lender or outer.lender
    value.storage.placement = Placement(value, pool.storage, lender)


def _check_offset(state: State, offset: Expr) -> bool:
    """Report the faults of an offset by itself; say whether it has none."""
    if type(offset) is int and offset >= 0:
        return True
    facts = TypeFacts()
    state.layouts.check_extent(facts, offset, "offset")
    check_type(state, facts)
    return not facts.faults


def _check_place(
    state: State, line: PlaceLine, pool: ValueFacts, value: ValueFacts
) -> None:
    """Check a placement against its pool and the live placements there."""
    assert isinstance(pool.type, PoolType)
    type = line.type
    found = _unplaceable(line)
    if found is not None:
        hint = "allocate it" if isinstance(type, TensorType) else "leave the mode out"
        subject = f"%{value.name}"
        state.report(Code.UNPLACEABLE, f"{subject} {found}", subject, hint=hint)
        return
    found = placement_difference(pool.type, type, f"%{pool.name}")
    code, what = Code.PLACEMENT_INCOMPATIBLE, f"%{value.name} cannot be in %{pool.name}"
    hint = "place it in a pool on its device, in its space and pinned as it is"
    if found is None:
        found = _misalignment(state, pool.type, type, line.offset)
        code = Code.PLACEMENT_ALIGNMENT
        what = f"%{pool.name} cannot give %{value.name} its alignment"
        hint = "the offset must be a multiple of it, and the pool's `align` no less"
    if found is not None:
        state.report_value(value, code, f"{what}: {found}", pool, hint=hint)
        return
    if isinstance(line.offset, int) and value.storage.placement is not None:
        value.storage.placement.alignment = math.gcd(pool.type.alignment, line.offset)
    extent = extent_of(state.layouts, type, line.offset)
    if certain_excess(state.layouts, pool.type, line.offset, extent):
        amounts = ""
        if isinstance(pool.type.size, int) and extent is not None and extent.begin is None:
            amounts = f": it ends at byte {extent.earliest} of {pool.type.size}"
        state.report_value(
            value,
            Code.OUTSIDE_POOL,
            f"%{value.name} reaches past the pool %{pool.name}{amounts}",
            pool,
            hint="make the pool larger, or the offset less: both count bytes",
        )
    elif extent is not None:
        _enter(state, pool, value, extent)


def check_element_alignment(state: State, value: ValueFacts, type: TensorType) -> None:
    """Report a view or reuse whose elements are not aligned where the storage is placed."""
    placement = value.storage.placement
    if placement is None or placement.alignment is None:
        return
    if placement.alignment % type.dtype.itemsize:
        owner = placement.owner
        state.report_value(
            value,
            Code.PLACEMENT_ALIGNMENT,
            f"the place of %{owner.name} is aligned to {placement.alignment} bytes, "
            f"elements of {type.dtype.value} need {type.dtype.itemsize}",
            owner,
            hint="place it at a multiple of that",
        )


def _unplaceable(line: PlaceLine) -> str | None:
    if isinstance(line.type, PoolType):
        return "is a pool, which has no zero mode" if line.workspace is not None else None
    if line.type.layout is not None:
        return "has a vendor layout, whose bytes only its vendor can count"
    if line.workspace is ZeroMode.ZERO_PER_PROGRAM:
        return "is kept by the program between calls, and its pool is not"
    return None


def _misalignment(
    state: State, pool: PoolType, type: TensorType | PoolType, offset: Expr
) -> str | None:
    """Return why a placement lacks the alignment of its type or elements, or ``None``."""
    wanted = type.alignment or 1
    if isinstance(type, TensorType):
        wanted = max(wanted, type.dtype.itemsize)
    if pool.alignment < wanted:
        return f"{wanted} bytes are needed and the pool promises {pool.alignment}"
    if isinstance(offset, int):
        return f"byte {offset} is not a multiple of {wanted}" if offset % wanted else None
    terms = dict(state.layouts.expressions.polynomials.of(offset))
    constant = terms.pop((), 0)
    if constant % wanted and not any(n % wanted for n in terms.values()):
        return f"the offset is never a multiple of {wanted}"
    return None


def _enter(state: State, pool: ValueFacts, value: ValueFacts, extent: PlacedExtent) -> None:
    """Add a placement to its pool, unless it overlaps a live one."""
    living, placement = pool.storage.pool, value.storage.placement
    if living is None or placement is None:
        return
    other = next(living.overlapping(extent.spans), None) or _compared(state, living, extent)
    if other is None:
        placement.extent = extent
        living.enter(placement)
        return
    state.report_value(
        value,
        Code.PLACEMENT_OVERLAP,
        f"%{value.name} overlaps %{other.owner.name}, which lives in %{pool.name}",
        other.owner,
        hint="drop every name of that first, or place this elsewhere",
    )


def _compared(state: State, living: PoolContents, extent: PlacedExtent) -> Placement | None:
    """Return a live placement that certainly overlaps, of those without a common unit.

    A budget for the whole program bounds the cost.  When it is used up, no overlap is
    reported.
    """
    polynomials = state.layouts.expressions.polynomials
    for other in living.incomparable(extent.unit):
        assert other.extent is not None
        state.placement_budget -= 1
        if state.placement_budget < 0:
            return None
        if certainly_overlap(polynomials, extent, other.extent):
            return other
    if extent.begin is not None and isinstance(extent.earliest, int):
        last = extent.earliest - 1
        constants = living.spans.get(None)
        if constants is not None:
            for _, _, other in constants.overlapping(last, last + 1):
                assert other.extent is not None
                if certainly_overlap(polynomials, extent, other.extent):
                    return other
    return None
