"""Place buffers at planned offsets of pools."""

from collections.abc import Sequence
from enum import StrEnum

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis import (
    STATIC,
    UNIT,
    Body,
    Footprints,
    Storage,
    StorageKind,
    order_streams,
    rewrite_bodies,
)
from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import value_names
from wrapperir.ir.storage_operators import looks_at_storage
from wrapperir.passes.pool_choice import (
    BufferCandidate,
    PlannedPool,
    PoolClass,
    choose_pools,
)
from wrapperir.passes.pool_filling import fill_pools

OWN_BYTES = 32 << 20
"""From so many bytes on, a buffer on a GPU has an allocation of its own.

PyTorch's allocator has to find a pool in one piece, so that several large buffers in one
leave more memory unused than they share.  A kernel that writes so many bytes takes longer
than the allocation.
"""


class Planned(StrEnum):
    """The buffers that are placed in pools."""

    INTERMEDIATES = "intermediates"
    OUTPUTS = "outputs"
    BOTH = "both"


@frozen
class PoolPlan:
    """One pool of a plan; heights are bytes, in multiples of ``unit`` if symbolic.

    ``lower_bound`` is the most bytes of its buffers that are alive at once, and
    ``solver`` what found the offsets.
    """

    name: str
    buffers: int
    height: int
    lower_bound: int
    unit: wir.Expr
    solver: str

    @property
    def gap(self) -> float:
        """How far the height is above the lower bound, as a fraction of it."""
        return self.height / self.lower_bound - 1 if self.lower_bound else 0.0


@frozen
class MemoryPlan:
    """A program whose buffers are placed, and the pools that hold them.

    ``leaves_out`` says that buffers were left out that another pool might hold.
    """

    program: wir.Program
    pools: tuple[PoolPlan, ...]
    leaves_out: bool


def plan_memory(
    program: wir.Program, *, planned: Planned = Planned.INTERMEDIATES
) -> wir.Program:
    """Return the program with its intermediate buffers placed in pools.

    Before::

        program @main(%x: f32[64, 16]) {
          %buf0 = extern_kernel aten.sin.default(%x) : f32[64, 16]
          %buf1 = extern_kernel aten.amax.default(%buf0, [0]) : f32[16]
          free %buf0
          %buf2 = allocate f32[16]
          extern_kernel aten.exp.out(%buf1, out = %buf2) writes(%buf2)
          free %buf1
          %buf3 = allocate f32[16]
          extern_kernel aten.neg.out(%buf2, out = %buf3) writes(%buf3)
          free %buf2
          %buf4 = extern_kernel aten.sum.default(%buf3) : f32[]
          free %buf3
          free %x
          return %buf4
        }

    After::

        program @main(%x: f32[64, 16]) {
          %buf0 = extern_kernel aten.sin.default(%x) : f32[64, 16]
          %buf1 = extern_kernel aten.amax.default(%buf0, [0]) : f32[16]
          free %buf0
          %pool0 = allocate_pool pool[128]
          %buf2 = place f32[16] in %pool0 at 0
          extern_kernel aten.exp.out(%buf1, out = %buf2) writes(%buf2)
          free %buf1
          %buf3 = place f32[16] in %pool0 at 64
          extern_kernel aten.neg.out(%buf2, out = %buf3) writes(%buf3)
          free %buf2
          %buf4 = extern_kernel aten.sum.default(%buf3) : f32[]
          free %buf3
          free %pool0
          free %x
          return %buf4
        }

    These stay allocated: outputs, buffers with a vendor layout, workspaces of the
    program, what operators and blocks return, what goes to operators that look at a
    tensor's storage (``aten.as_strided``, ``aten.linalg_qr``), buffers of 32 MiB or more
    on a GPU (``OWN_BYTES``), and buffers whose place in a pool would make the block take
    more than it did at its peak.  ``planned`` may have
    outputs placed too, or alone; an output keeps its whole pool alive.
    """
    plan = plan_pools(program, planned)
    while plan.pools and plan.leaves_out:
        plan = plan_pools(plan.program, planned)
    return plan.program


def plan_pools(
    program: wir.Program, planned: Planned = Planned.INTERMEDIATES
) -> MemoryPlan:
    """Return the program with the planned buffers placed, and its pools.

    Each device, memory space and pinning has pools of its own; so have sizes that are
    not multiples of one expression, but for buffers that fit in a gap of another pool for
    all values of the symbols.
    Nested blocks have their own pools, but for their results, which would keep a pool
    after the block.  Buffers used on several streams share bytes only where all uses of
    the one come before all of the other.
    """
    planner = _Planner(
        planned,
        Footprints.of_program(program),
        wir.FreshNames(value_names(program)),
    )
    placed = rewrite_bodies(program, planner.plan)
    return MemoryPlan(placed, tuple(planner.pools), planner.leaves_out)


@define
class _Planner:
    planned: Planned
    footprints: Footprints
    names: wir.FreshNames
    pools: list[PoolPlan] = field(factory=list[PoolPlan])
    leaves_out: bool = False

    def plan(self, body: Body) -> list[wir.BodyLine]:
        """Return the lines of a body with its buffers placed."""
        lines = body.lines
        found, footprint = self.footprints.of(lines, body.results, body.entry)
        fixed = {number for number, line in enumerate(lines) if _looks_at_storage(line)}
        storages = [
            storage
            for storage in found.storages
            if self._may_place(storage)
            and not (body.is_nested and storage.escapes)
            and not any(use.line in fixed for use in storage.uses)
        ]
        groups: dict[PoolClass, list[BufferCandidate]] = {}
        for storage, settled in zip(
            storages, _settled(storages, found.effects), strict=True
        ):
            kind, candidate = self._candidate(storage, settled)
            groups.setdefault(kind, []).append(candidate)
        pools = fill_pools(
            choose_pools(groups, footprint, len(lines)),
            *(groups, self.footprints.sizes, len(lines)),
        )
        placed = {id(buffer) for pool in pools for buffer in pool.buffers}
        for buffers in groups.values():
            self.leaves_out |= sum(id(buffer) not in placed for buffer in buffers) > 1
        return self._placed(lines, pools)

    def _may_place(self, storage: Storage) -> bool:
        type = storage.type
        if storage.kind is not StorageKind.ALLOCATED or not isinstance(
            type, wir.TensorType
        ):
            return False
        if type.layout is not None or storage.end <= storage.begin:
            return False
        wanted = storage.escapes is (self.planned is Planned.OUTPUTS)
        if not (wanted or self.planned is Planned.BOTH):
            return False
        size = self.footprints.sizes.of(type)
        if size.unit is STATIC:
            own = type.device.kind == "cuda" and size.count * UNIT >= OWN_BYTES
            return size.count > 0 and not own
        return size.exact and (type.alignment or 1) <= UNIT

    def _candidate(
        self, storage: Storage, settled: int
    ) -> tuple[PoolClass, BufferCandidate]:
        dimension, size = self.footprints.dimension(storage)
        alignment = max(storage.type.alignment or 1, UNIT) // UNIT
        type = storage.type
        return (
            PoolClass(dimension, type.device, type.space, type.pinned),
            BufferCandidate(storage.begin, storage.end, settled, size, alignment),
        )

    def _placed(
        self, lines: Sequence[wir.BodyLine], pools: Sequence[PlannedPool]
    ) -> list[wir.BodyLine]:
        """Return the lines with pools allocated, filled and freed."""
        placed: dict[int, tuple[str, wir.Expr]] = {}
        begins: dict[int, list[wir.AllocatePoolLine]] = {}
        ends: dict[int, list[wir.FreeLine]] = {}
        for pool in sorted(pools, key=lambda pool: pool.begin):
            name = self.names.new(None, "pool")
            unit = pool.kind.dimension[1].expr
            self._report(name, pool, unit)
            for buffer, offset in zip(pool.buffers, pool.offsets, strict=True):
                placed[buffer.begin] = (name, wir.mul(offset, unit))
            type = _pool_type(pool, unit)
            begins.setdefault(pool.begin, []).append(
                wir.AllocatePoolLine(result=name, type=type)
            )
            last = pool.end if pool.end < len(lines) else max(b.begin for b in pool.buffers)
            ends.setdefault(last, []).append(wir.FreeLine(buffer=name))
        result: list[wir.BodyLine] = []
        for index, line in enumerate(lines):
            result.extend(begins.get(index, ()))
            place = placed.get(index)
            result.append(line if place is None else _placement(line, *place))
            result.extend(ends.get(index, ()))
        return result

    def _report(self, name: str, pool: PlannedPool, unit: wir.Expr) -> None:
        scale = unit if isinstance(unit, int) else 1
        self.pools.append(
            PoolPlan(
                name=name,
                buffers=len(pool.buffers),
                height=pool.height * scale,
                lower_bound=pool.lower_bound * scale,
                unit=1 if isinstance(unit, int) else unit,
                solver=pool.solver,
            )
        )


def _looks_at_storage(line: wir.BodyLine) -> bool:
    if isinstance(line, wir.ExternKernelLine):
        return looks_at_storage(line.operator)
    return any(_looks_at_storage(each) for block in blocks_of(line) for each in block.lines)


def _settled(storages: Sequence[Storage], effects: Sequence[Effects]) -> list[int]:
    """Return the line from which on each storage's bytes are free for the others."""
    order = order_streams(effects)
    ends = [max(storage.end, storage.begin + 1) for storage in storages]
    if order.is_trivial:
        return ends
    touching: dict[wir.Stream, list[int]] = {}
    uses = [(use, index) for index, s in enumerate(storages) for use in s.uses]
    launched = [(u.line, u.stream, index) for u, index in uses if u.stream is not None]
    for line, stream, _ in sorted(launched, key=lambda launch: launch[0]):
        touching.setdefault(stream, []).append(line)
    for line, stream, index in launched:
        ends[index] = max(ends[index], order.settled(line, stream, touching))
    return ends


def _pool_type(pool: PlannedPool, unit: wir.Expr) -> wir.PoolType:
    alignment = max(buffer.alignment for buffer in pool.buffers) * UNIT
    return wir.PoolType(
        size=wir.mul(pool.height, unit),
        device=pool.kind.device,
        space=pool.kind.space,
        pinned=pool.kind.pinned,
        alignment=alignment,
    )


def _placement(line: wir.BodyLine, pool: str, offset: wir.Expr) -> wir.PlaceLine:
    assert isinstance(line, wir.AllocateLine)
    return wir.PlaceLine(
        result=line.result,
        type=line.type,
        pool=pool,
        offset=offset,
        workspace=line.workspace,
        provenance=line.provenance,
    )
