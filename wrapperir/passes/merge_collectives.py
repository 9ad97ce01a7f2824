"""Merge small collectives that may be started together into one."""

from collections.abc import Mapping, Sequence

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis import (
    BlockStorages,
    Body,
    analyze_memory,
    find_storages,
    rewrite_bodies,
)
from wrapperir.analysis.line_cost import LineCosts
from wrapperir.analysis.machines import Machine
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import value_names
from wrapperir.passes.bucket_lines import MERGED, BucketLines, bucket_lines, may_copy
from wrapperir.passes.line_dependences import is_fixed, pool_of
from wrapperir.passes.overlap_collectives import (
    BY_DEVICE,
    MEMORY_LIMIT,
    find_machine,
    has_collectives,
)

LEAST_SHARE = 0.1
"""The share of a merged collective's seconds that merging saves at least."""


@frozen(kw_only=True)
class MergedCollective:
    """A collective that a pass made of several: ``line`` is the new one.

    ``seconds_before`` are the sum of those that the collectives take by themselves,
    ``seconds`` what the merged one takes, with copies.  The first is started ``delay``
    seconds later.
    """

    line: wir.CollectiveLine
    count: int
    bytes: int
    seconds_before: float
    seconds: float
    delay: float


@frozen
class Merged:
    """A program with merged collectives, and what was merged."""

    program: wir.Program
    collectives: tuple[MergedCollective, ...]


def merge_collectives(
    program: wir.Program, *, machine: str = BY_DEVICE, limit: float = MEMORY_LIMIT
) -> wir.Program:
    """Return the program with small collectives merged into one.

    Before::

        program @main(%a: mutated f32[64], %b: mutated f32[64]) {
          group "0" size 2

          %v = collective all_reduce(sum) "0" reads(%a) writes(%a)
          wait_collective %v reads(%a) writes(%a)
          %w = collective all_reduce(sum) "0" reads(%b) writes(%b)
          wait_collective %w reads(%b) writes(%b)
          free %v
          free %w
          return
        }

    After::

        program @main(%a: mutated f32[64], %b: mutated f32[64]) {
          group "0" size 2

          %w = collective all_reduce(sum) "0" reads(%a, %b) writes(%a, %b)
          wait_collective %w reads(%a, %b) writes(%a, %b)
          free %w
          return
        }

    Consecutive collectives of one group, reduction and dtype are merged if no work between
    their starts uses the tensors of the earlier ones, and if that saves a tenth of the
    merged one's seconds, and more than the work between them takes.  ``all_gather`` and
    ``reduce_scatter`` are merged by copies into a buffer and out of another one, for which
    sizes must be constant: if the peak of live bytes then is more than ``limit`` times what
    it was, only sums are merged.  Programs for one rank stay as they are: other ranks might
    have other lines.  Linear in the program.
    """
    return merge_lines(program, find_machine(program, machine), limit).program


def merge_lines(
    program: wir.Program, machine: Machine, limit: float = MEMORY_LIMIT
) -> Merged:
    """Return the program with merged collectives, and what was merged."""
    common = {group.name for group in program.groups if group.rank is None}
    if not common or not has_collectives(program.lines):
        return Merged(program, ())
    costs = LineCosts.of_program(program, machine, {})
    made = _merged(program, costs, common, MERGED)
    if any(each.line.operation not in _WITHOUT_COPIES for each in made.collectives):
        peaks = (analyze_memory(x, costs.symbols).peak for x in (program, made.program))
        before, after = peaks
        if after > limit * before:
            made = _merged(program, costs, common, _WITHOUT_COPIES)
    return made


_WITHOUT_COPIES = frozenset({wir.Collective.ALL_REDUCE})


def _merged(
    program: wir.Program,
    costs: LineCosts,
    common: set[str],
    operations: frozenset[wir.Collective],
) -> Merged:
    """Return the program with merged collectives of these operations and groups."""
    merged: list[MergedCollective] = []
    names = wir.FreshNames(value_names(program))

    def rewritten(body: Body) -> Sequence[wir.BodyLine]:
        filler = _BucketFiller.of(body, costs, common, operations)
        buckets = [bucket for bucket in filler.buckets if len(bucket.starts) > 1]
        made = {id(bucket): bucket.lines(costs, names) for bucket in buckets}
        merged.extend(bucket.merged(made[id(bucket)].start) for bucket in buckets)
        return _merged_lines(body.lines, buckets, made)

    return Merged(rewrite_bodies(program, rewritten), tuple(merged))


@define(eq=False)
class _Bucket:
    """Collectives that are started together where the last one is, at line ``last``."""

    last: int
    starts: list[wir.CollectiveLine]
    storages: set[int]
    bytes: int
    seconds: float
    separate: float
    delay: float = 0.0
    pending: float = 0.0

    def lines(self, costs: LineCosts, names: wir.FreshNames) -> BucketLines:
        """Return the collective that starts all, and the lines around it."""
        ranks = costs.group_sizes[self.starts[0].group]
        return bucket_lines(self.starts, costs.types, ranks, names)

    def merged(self, line: wir.CollectiveLine) -> MergedCollective:
        """Return the decision, whose line is the new collective."""
        return MergedCollective(
            line=line,
            count=len(self.starts),
            bytes=self.bytes,
            seconds_before=self.separate,
            seconds=self.seconds,
            delay=self.delay,
        )


@define(eq=False)
class _BucketFiller:
    """Fills buckets with the collectives of a block, in the order of its lines."""

    lines: Sequence[wir.BodyLine]
    found: BlockStorages
    costs: LineCosts
    common: set[str]
    operations: frozenset[wir.Collective]
    buckets: list[_Bucket] = field(factory=list[_Bucket])
    open: _Bucket | None = None

    @classmethod
    def of(
        cls,
        body: Body,
        costs: LineCosts,
        common: set[str],
        operations: frozenset[wir.Collective],
    ) -> "_BucketFiller":
        """Return the buckets of a block, filled."""
        found = find_storages(body.lines, body.results, body.entry, costs.effects)
        filler = cls(body.lines, found, costs, common, operations)
        for index, (line, done) in enumerate(zip(body.lines, found.effects, strict=True)):
            filler._see(index, line, done)
        return filler

    def _see(self, index: int, line: wir.BodyLine, done: Effects) -> None:
        """Add a collective to the bucket, or close the bucket at a line that needs it."""
        if isinstance(line, wir.CollectiveLine):
            self._add(index, line)
            return
        bucket = self.open
        if bucket is None or (
            isinstance(line, wir.WaitCollectiveLine)
            and any(start.result == line.work for start in bucket.starts)
        ):
            return
        if isinstance(line, wir.FreeLine):
            return  # what a collective names is freed after its wait
        touched = [access.name for access in done.accesses]
        if done.drops is not None:
            touched.append(done.drops)
        if is_fixed(line, done) or self._storages(touched) & bucket.storages:
            self.open = None
            return
        bucket.pending += self.costs.work(line, done)

    def _storages(self, names: Sequence[str]) -> set[int]:
        held = (each for name in names for each in self.found.of_name.get(name, ()))
        return {id(pool_of(each)) for each in held}

    def _add(self, index: int, line: wir.CollectiveLine) -> None:
        bytes = self.costs.collective_bytes(line)
        seconds = self.costs.collective_of(line, bytes)
        storages = self._storages((*line.reads, *line.writes))
        may_merge = line.operation in self.operations and line.group in self.common
        copies = line.operation not in _WITHOUT_COPIES
        if copies and not may_copy(line, self.costs.types):
            may_merge = False
        bucket = self.open
        if bucket is not None and may_merge and self._fits(bucket, line, storages):
            total = bucket.bytes + bytes
            merged = self.costs.collective_of(line, total)
            if copies:
                parts = total // self.costs.group_sizes[line.group]
                merged += self.costs.copied(parts) + self.costs.copied(total)
            saved = bucket.separate + seconds - merged
            gained = bucket.seconds + seconds - merged
            delay = bucket.delay + bucket.pending
            if gained >= LEAST_SHARE * merged and delay <= saved:
                bucket.starts.append(line)
                bucket.storages |= storages
                bucket.last, bucket.bytes, bucket.seconds = index, total, merged
                bucket.separate += seconds
                bucket.delay, bucket.pending = delay, 0.0
                return
        self.open = None
        if may_merge:
            self.open = _Bucket(index, [line], storages, bytes, seconds, seconds)
            self.buckets.append(self.open)

    def _fits(self, bucket: _Bucket, line: wir.CollectiveLine, storages: set[int]) -> bool:
        first = bucket.starts[0]
        types = [self.costs.types[name] for name in (*first.reads, *line.reads)]
        dtypes = {type.dtype for type in types if isinstance(type, wir.TensorType)}
        return (
            (first.operation, first.reduction, first.group, first.device, first.stream)
            == (line.operation, line.reduction, line.group, line.device, line.stream)
            and len(dtypes) == 1
            and not storages & bucket.storages
        )


def _merged_lines(
    lines: Sequence[wir.BodyLine],
    buckets: Sequence[_Bucket],
    made: Mapping[int, BucketLines],
) -> list[wir.BodyLine]:
    """Return the lines of a block with one collective and one wait for each bucket."""
    of_work = {start.result: each for each in buckets for start in each.starts}
    of_name = {
        name: each
        for each in buckets
        for s in each.starts
        for name in (*s.reads, *s.writes)
    }
    first: dict[int, int] = {}
    for index, line in enumerate(lines):
        if isinstance(line, wir.WaitCollectiveLine) and line.work in of_work:
            first.setdefault(id(of_work[line.work]), index)
    result: list[wir.BodyLine] = []
    delayed: dict[int, list[wir.BodyLine]] = {}
    for index, line in enumerate(lines):
        bucket = of_work.get(_handle_of(line) or "")
        if bucket is None:
            freed = of_name.get(line.buffer) if isinstance(line, wir.FreeLine) else None
            if freed is not None and index < max(freed.last, first[id(freed)]):
                delayed.setdefault(id(freed), []).append(line)
            else:
                result.append(line)
            continue
        merged, wait = made[id(bucket)], first[id(bucket)]
        start = merged.start
        if index == bucket.last:
            result += [*merged.before, start]
        if index == max(bucket.last, wait):
            waiting = lines[wait]
            assert isinstance(waiting, wir.WaitCollectiveLine)
            waiting = evolve(waiting, work=start.result)
            result.append(evolve(waiting, reads=start.reads, writes=start.writes))
            result += merged.after
            result += delayed.get(id(bucket), ())
        if isinstance(line, wir.FreeLine) and line.buffer == start.result:
            result.append(line)
    return result


def _handle_of(line: wir.BodyLine) -> str | None:
    """Return the handle that a line starts, waits for or frees, if it is one."""
    if isinstance(line, wir.CollectiveLine):
        return line.result
    if isinstance(line, wir.WaitCollectiveLine):
        return line.work
    return line.buffer if isinstance(line, wir.FreeLine) else None
