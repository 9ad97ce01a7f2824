"""Merge small collectives that may be started together into one."""

from collections.abc import Sequence

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis import BlockStorages, Body, find_storages, rewrite_bodies
from wrapperir.analysis.line_cost import LineCosts
from wrapperir.analysis.machines import Machine
from wrapperir.ir.effects import Effects
from wrapperir.passes.line_dependences import is_fixed, pool_of
from wrapperir.passes.overlap_collectives import BY_DEVICE, find_machine, has_collectives

LEAST_SHARE = 0.1
"""The share of a merged collective's seconds that merging saves at least."""

# PyTorch has no operator that gathers or scatters several tensors into given ones: such a
# collective becomes as many calls as before.
_MERGED = frozenset({wir.Collective.ALL_REDUCE})


@frozen(kw_only=True)
class MergedCollective:
    """A collective that a pass made of several: ``line`` is the new one.

    ``seconds_before`` are the sum of those that the collectives take by themselves,
    ``seconds`` what the merged one takes.  The first is started ``delay`` seconds later.
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


def merge_collectives(program: wir.Program, *, machine: str = BY_DEVICE) -> wir.Program:
    """Return the program with small sums over ranks merged into one collective.

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
    merged one's seconds, and more than the work between them takes.  Programs for one
    rank stay as they are: other ranks might have other lines.  Linear in the program.
    """
    return merge_lines(program, find_machine(program, machine)).program


def merge_lines(program: wir.Program, machine: Machine) -> Merged:
    """Return the program with merged collectives, and what was merged."""
    merged: list[MergedCollective] = []
    common = {group.name for group in program.groups if group.rank is None}
    if not common or not has_collectives(program.lines):
        return Merged(program, ())
    costs = LineCosts.of_program(program, machine, {})

    def rewritten(body: Body) -> Sequence[wir.BodyLine]:
        filler = _BucketFiller.of(body, costs, common)
        lines = filler.merged_lines()
        merged.extend(each.merged(costs) for each in filler.buckets if len(each.starts) > 1)
        return lines

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

    def line(self) -> wir.CollectiveLine:
        """Return the collective that starts all."""
        names = tuple(name for start in self.starts for name in start.reads)
        return evolve(self.starts[-1], reads=names, writes=names)

    def merged(self, costs: LineCosts) -> MergedCollective:
        """Return the decision."""
        return MergedCollective(
            line=self.line(),
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
    buckets: list[_Bucket] = field(factory=list[_Bucket])
    open: _Bucket | None = None

    @classmethod
    def of(cls, body: Body, costs: LineCosts, common: set[str]) -> "_BucketFiller":
        """Return the buckets of a block, filled."""
        found = find_storages(body.lines, body.results, body.entry, costs.effects)
        filler = cls(body.lines, found, costs, common)
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
        may_merge = line.operation in _MERGED and line.group in self.common
        bucket = self.open
        if bucket is not None and may_merge and self._fits(bucket, line, storages):
            total = bucket.bytes + bytes
            merged = self.costs.collective_of(line, total)
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

    def merged_lines(self) -> list[wir.BodyLine]:
        """Return the lines with one collective and one wait for each bucket."""
        buckets = [bucket for bucket in self.buckets if len(bucket.starts) > 1]
        of_work = {start.result: each for each in buckets for start in each.starts}
        of_name = {name: each for each in buckets for s in each.starts for name in s.reads}
        first: dict[int, int] = {}
        for index, line in enumerate(self.lines):
            if isinstance(line, wir.WaitCollectiveLine) and line.work in of_work:
                first.setdefault(id(of_work[line.work]), index)
        result: list[wir.BodyLine] = []
        delayed: dict[int, list[wir.BodyLine]] = {}
        for index, line in enumerate(self.lines):
            bucket = of_work.get(_handle_of(line) or "")
            if bucket is None:
                freed = of_name.get(line.buffer) if isinstance(line, wir.FreeLine) else None
                if freed is not None and index < max(freed.last, first[id(freed)]):
                    delayed.setdefault(id(freed), []).append(line)
                else:
                    result.append(line)
                continue
            merged, wait = bucket.line(), first[id(bucket)]
            if index == bucket.last:
                result.append(merged)
            if index == max(bucket.last, wait):
                waiting = self.lines[wait]
                assert isinstance(waiting, wir.WaitCollectiveLine)
                tensors = merged.reads
                result.append(
                    evolve(waiting, work=merged.result, reads=tensors, writes=tensors)
                )
                result += delayed.get(id(bucket), ())
            if isinstance(line, wir.FreeLine) and line.buffer == merged.result:
                result.append(line)
        return result


def _handle_of(line: wir.BodyLine) -> str | None:
    """Return the handle that a line starts, waits for or frees, if it is one."""
    if isinstance(line, wir.CollectiveLine):
        return line.result
    if isinstance(line, wir.WaitCollectiveLine):
        return line.work
    return line.buffer if isinstance(line, wir.FreeLine) else None
