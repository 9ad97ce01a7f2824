"""The lines of a collective that does the work of several."""

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from wrapperir import ir as wir

MERGED = frozenset(
    {wir.Collective.ALL_REDUCE, wir.Collective.ALL_GATHER, wir.Collective.REDUCE_SCATTER}
)
"""The operations that are merged."""


@frozen
class BucketLines:
    """A collective that does the work of several, and lines around it and its wait."""

    before: tuple[wir.BodyLine, ...]
    start: wir.CollectiveLine
    after: tuple[wir.BodyLine, ...]


def may_copy(line: wir.CollectiveLine, types: Mapping[str, wir.ValueType]) -> bool:
    """Say whether the tensors of a collective can be copied to and from a buffer.

    All ranks know constant sizes alike.
    """
    return all(
        isinstance(type, wir.TensorType)
        and type.layout is None
        and isinstance(wir.product(type.size), int)
        and 0 not in type.size
        for type in (types[name] for name in (*line.reads, *line.writes))
    )


def bucket_lines(
    starts: Sequence[wir.CollectiveLine],
    types: Mapping[str, wir.ValueType],
    ranks: int,
    names: wir.FreshNames,
) -> BucketLines:
    """Return the lines of collectives of one operation, reduction, group and dtype.

    The last one is started, with the tensors of all.  PyTorch has no operator that gathers
    or scatters several tensors into given ones, so these are copied: the parts of a rank
    lie one after the other in a buffer of their own, and in that of all ranks, each rank
    has a row.
    """
    last = starts[-1]
    reads = tuple(name for start in starts for name in start.reads)
    if last.operation is wir.Collective.ALL_REDUCE:
        return BucketLines((), evolve(last, reads=reads, writes=reads), ())
    writes = tuple(name for start in starts for name in start.writes)
    gathers = last.operation is wir.Collective.ALL_GATHER
    copies = _Copies(last, types, names)
    parts = reads if gathers else writes
    counts = tuple(copies.count(name) for name in parts)
    bucket = copies.buffer(reads[0], sum(counts) * (1 if gathers else ranks))
    result = copies.buffer(writes[0], sum(counts) * (ranks if gathers else 1))
    before = copies.packed(reads, counts, bucket, 1 if gathers else ranks)
    after = copies.unpacked(result, counts, writes, ranks if gathers else 1)
    free = wir.FreeLine(buffer=bucket.result, provenance=last.provenance)
    start = evolve(last, reads=(bucket.result,), writes=(result.result,))
    return BucketLines((bucket, *before, result), start, (free, *after))


@frozen
class _Copies:
    """Makes the copies around a collective, which its line is the origin of."""

    line: wir.CollectiveLine
    types: Mapping[str, wir.ValueType]
    names: wir.FreshNames

    def _type(self, name: str) -> wir.TensorType:
        type = self.types[name]
        assert isinstance(type, wir.TensorType)
        return type

    def count(self, name: str) -> int:
        """Return the number of elements of a tensor."""
        count = wir.product(self._type(name).size)
        assert isinstance(count, int)
        return count

    def buffer(self, like: str, count: int) -> wir.AllocateLine:
        """Return the allocation of a buffer of one dimension."""
        type = self._type(like)
        return wir.AllocateLine(
            result=self.names.new(None, "buf"),
            type=wir.tensor(type.dtype, (count,), device=type.device),
            provenance=self.line.provenance,
        )

    def packed(
        self,
        sources: Sequence[str],
        counts: Sequence[int],
        bucket: wir.AllocateLine,
        rows: int,
    ) -> list[wir.BodyLine]:
        """Return the copies of tensors into a buffer, as columns of its rows."""
        whole = self._view(bucket.result, bucket.type, (rows, sum(counts)))
        views = [
            self._view(name, self._type(name), (rows, count))
            for name, count in zip(sources, counts, strict=True)
        ]
        operator, given = "aten.cat.out", tuple(wir.BufferRef(x.result) for x in views)
        out = wir.BufferRef(whole.result)
        call = self._call(operator, (given, 1), out, (whole.result,))
        return [whole, *views, call, *self._frees((whole, *views))]

    def unpacked(
        self,
        result: wir.AllocateLine,
        counts: Sequence[int],
        targets: Sequence[str],
        rows: int,
    ) -> list[wir.BodyLine]:
        """Return the copies of the columns of a buffer into tensors, and its free."""
        whole = self._view(result.result, result.type, (rows, sum(counts)))
        views = [
            self._view(name, self._type(name), (rows, count))
            for name, count in zip(targets, counts, strict=True)
        ]
        written = tuple(view.result for view in views)
        call = self._call(
            "aten.split_with_sizes_copy.out",
            (wir.BufferRef(whole.result), tuple(counts), 1),
            tuple(map(wir.BufferRef, written)),
            written,
        )
        return [whole, *views, call, *self._frees((whole, *views, result))]

    def _view(
        self, name: str, type: wir.TensorType, size: tuple[int, int]
    ) -> wir.ReinterpretLine:
        return wir.ReinterpretLine(
            result=self.names.new(None, "view"),
            source=name,
            type=evolve(type, size=size, stride=wir.contiguous_stride(size)),
            provenance=self.line.provenance,
        )

    def _call(
        self,
        operator: str,
        arguments: tuple[wir.Argument, ...],
        out: wir.Argument,
        writes: tuple[str, ...],
    ) -> wir.ExternKernelLine:
        return wir.ExternKernelLine(
            operator=operator,
            arguments=arguments,
            keywords=(("out", out),),
            writes=writes,
            device=self.line.device,
            stream=self.line.stream,
            provenance=self.line.provenance,
        )

    def _frees(
        self, lines: Sequence[wir.AllocateLine | wir.ReinterpretLine]
    ) -> list[wir.FreeLine]:
        provenance = self.line.provenance
        return [wir.FreeLine(buffer=x.result, provenance=provenance) for x in lines]
