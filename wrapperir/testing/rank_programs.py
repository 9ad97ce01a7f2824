"""Programs of several ranks whose collectives belong together, and work around them.

The ranks start the same collectives of each group in the same order, and everything else
differs: what they compute, the views they make, and when they wait.  Or all ranks run one
program.  Numbers are whole, so that sums over ranks are exact.
"""

from collections.abc import Mapping, Sequence

from attrs import define, field
from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.passes import insert_frees

ROWS = 8
"""Elements of the input of each rank."""

_MOST_ROWS = 64
_F32 = wir.DType.F32
_COALESCED = frozenset(
    {wir.Collective.ALL_REDUCE, wir.Collective.ALL_GATHER, wir.Collective.REDUCE_SCATTER}
)
_RARELY = st.sampled_from((False, False, False, True))
_CALLED = (wir.Collective.ALL_GATHER, wir.Collective.REDUCE_SCATTER)
"""Collectives that a block of their own starts and waits for."""


@define(eq=False)
class _InFlight:
    """How many collectives in flight read or write a memory."""

    reads: int = 0
    writes: int = 0


@define(eq=False)
class _RankTensor:
    """A tensor of one dimension, and the memory that it shares with its views."""

    value: NamedValue
    rows: int
    memory: _InFlight = field(factory=_InFlight)


@define(eq=False)
class _RankDraft:
    """The program of a rank while it grows; ``works`` are in flight."""

    draw: st.DrawFn
    builder: ProgramBuilder
    ranks: Mapping[str, int | None]
    tensors: list[_RankTensor]
    works: list[tuple[NamedValue, list[_RankTensor], list[_RankTensor]]] = field(
        factory=list[tuple[NamedValue, list[_RankTensor], list[_RankTensor]]]
    )

    def readable(self, rows: int | None = None) -> list[_RankTensor]:
        """Return the tensors that no collective in flight writes."""
        return [
            each
            for each in self.tensors
            if not each.memory.writes and (rows is None or each.rows == rows)
        ]

    def writable(self, rows: int | None = None) -> list[_RankTensor]:
        """Return the tensors that no collective in flight uses."""
        return [each for each in self.readable(rows) if not each.memory.reads]

    def made(self, value: NamedValue, rows: int) -> _RankTensor:
        """Note a new tensor, and return it."""
        self.tensors.append(_RankTensor(value, rows))
        return self.tensors[-1]

    def full(self, rows: int) -> _RankTensor:
        """Add a tensor of one number."""
        number = float(self.draw(st.integers(-3, 3)))
        operator = "aten.full.default"
        made = self.builder.extern(operator, (rows,), number, type=_vector(rows))
        return self.made(made, rows)

    def compute(self) -> None:
        """Add a sum of two tensors, as a result or in a buffer."""
        readable = self.readable()
        if not readable:
            return
        one = self.draw(st.sampled_from(readable))
        other = self.draw(st.sampled_from(self.readable(one.rows)))
        given, type = (one.value, other.value), _vector(one.rows)
        if self.draw(st.booleans()):
            made = self.builder.extern("aten.add.Tensor", *given, type=type)
        else:
            made = self.builder.allocate(type)
            self.builder.extern_out("aten.add.out", *given, out=made)
        self.made(made, one.rows)

    def write(self) -> None:
        """Change a tensor in place."""
        writable = self.writable()
        if writable:
            value = self.draw(st.sampled_from(writable)).value
            self.builder.extern_out("aten.add_.Scalar", value, 1.0, writes=[value])

    def view(self) -> None:
        """Name a tensor again, or its first half."""
        tensor = self.draw(st.sampled_from(self.readable() or [self.full(ROWS)]))
        rows = tensor.rows
        if rows % 2 == 0 and self.draw(st.booleans()):
            rows //= 2
        made = self.builder.reinterpret(tensor.value, _vector(rows))
        self.made(made, rows).memory = tensor.memory

    def wait(self) -> None:
        """Wait for any collective in flight."""
        if not self.works:
            return
        place = self.draw(st.integers(0, len(self.works) - 1))
        work, reads, writes = self.works.pop(place)
        self.builder.wait_collective(work)
        for each in reads:
            each.memory.reads -= 1
        for each in writes:
            each.memory.writes -= 1
        self.tensors += [each for each in writes if each not in self.tensors]

    def steps(self, most: int) -> None:
        """Add a few steps that touch nothing in flight."""
        steps = (self.compute, self.compute, self.write, self.view, self.wait)
        for _ in range(self.draw(st.integers(0, most))):
            self.draw(st.sampled_from(steps))()

    def source(
        self, rows: int, taken: Sequence[_RankTensor], *, writes: bool
    ) -> _RankTensor:
        """Return a tensor for a collective that is given ``taken``, too."""
        found = self.writable(rows) if writes else self.readable(rows)
        memories = {id(each.memory) for each in taken}
        found = [each for each in found if id(each.memory) not in memories]
        if found and not self.draw(_RARELY):
            return self.draw(st.sampled_from(found))
        return self.full(rows)

    def start(self, started: "_Started", name: str, position: int) -> None:
        """Start a collective; ``position`` is that of the rank among the members."""
        operation, in_place = started.operation, started.operation.in_place
        given, taken = started.splits_of(position)
        reads: list[_RankTensor] = []
        if operation is not wir.Collective.RECEIVE:
            for rows in started.reads or (sum(given),):
                reads.append(self.source(rows, reads, writes=in_place))
        writes = reads if in_place else []
        if not in_place and operation is not wir.Collective.SEND:
            for rows in started.writes or (sum(taken),):
                writes.append(_RankTensor(self.builder.allocate(_vector(rows)), rows))
        self.works.append(
            (
                self.builder.collective(
                    operation,
                    name,
                    [each.value for each in reads],
                    [each.value for each in writes],
                    reduction=started.reduction,
                    peer=started.peer,
                    read_splits=given,
                    write_splits=taken,
                ),
                [] if in_place else reads,
                writes,
            )
        )
        for each in () if in_place else reads:
            each.memory.reads += 1
        for each in writes:
            each.memory.writes += 1

    def call(self, started: "_Started", name: str) -> None:
        """Call a block that starts a collective of one tensor, and waits for it."""
        source = self.source(started.reads[0], (), writes=False)
        type = _vector(started.writes[0])

        def body(block: BlockBuilder, given: NamedValue) -> NamedValue:
            target = block.allocate(type)
            reduction = started.reduction
            work = block.collective(
                started.operation, name, [given], [target], reduction=reduction
            )
            block.wait_collective(work)
            return target

        (made,) = self.builder.subgraph_call("part", [source.value], body, results=[type])
        self.made(made, started.writes[0])

    def build(self) -> wir.Program:
        """Wait for everything, and return the program with some tensors as its outputs."""
        while self.works:
            self.wait()
            self.steps(1)
        kept = [each for each in self.tensors if self.draw(st.booleans())]
        kept = kept or self.tensors[-1:]
        return insert_frees(self.builder.build(*(each.value for each in kept)))


def _vector(rows: int) -> wir.TensorType:
    return wir.tensor(_F32, (rows,))


@define(eq=False)
class _Started:
    """A collective that members of a group start: the rows of its tensors.

    ``splits`` are the rows that each rank has for each.
    """

    operation: wir.Collective
    reduction: wir.RankReduction | None = None
    peer: int | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    splits: tuple[tuple[int, ...], ...] = ()

    def splits_of(self, position: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the rows that a rank gives to each, and takes from each."""
        if not self.splits:
            return (), ()
        return self.splits[position], tuple(row[position] for row in self.splits)


@st.composite
def rank_programs(
    draw: st.DrawFn, most: int = 6, *, common: bool = False, ranks: int | None = None
) -> list[wir.Program]:
    """Draw valid programs that run together on two to four ranks, or on ``ranks``.

    Each has up to ``most`` collectives, of groups of all ranks, and of each half where
    there are four.  With ``common``, all ranks have the same program.  A program has one
    tensor of eight elements as its input, which it changes.
    """
    count = ranks or draw(st.integers(2, 4))
    parts = {"all": list(range(count)), "too": list(range(count))}
    if count == 4 and not common:
        parts |= {"low": [0, 1], "high": [2, 3]}
    drafts = [_new_draft(draw, None if common else n, parts) for n in range(count)]
    drafts = drafts[:1] if common else drafts
    for _ in range(draw(st.integers(1, most))):
        for draft in drafts:
            draft.steps(2)
        name = draw(st.sampled_from(sorted(parts)))
        members = drafts if common else [drafts[index] for index in parts[name]]
        operation = draw(st.sampled_from(_operations(is_common=common)))
        # Collectives of one kind may be merged where all ranks have one program.
        for _ in range(draw(st.sampled_from((1, 1, 2, 3))) if common else 1):
            _add_collective(draw, operation, name, len(parts[name]), members)
    programs = [draft.build() for draft in drafts]
    return programs * count if common else programs


def _new_draft(
    draw: st.DrawFn, index: int | None, parts: Mapping[str, Sequence[int]]
) -> _RankDraft:
    """Return an empty program of the rank ``index``, or of all."""
    builder = ProgramBuilder("main" if index is None else f"rank{index}")
    x = builder.input(_vector(ROWS), name="x", mutated=True)
    ranks: dict[str, int | None] = {}
    for name, members in parts.items():
        if index is None or index in members:
            ranks[name] = None if index is None else members.index(index)
            builder.process_group(name, len(members), ranks[name])
    return _RankDraft(draw, builder, ranks, [_RankTensor(x, ROWS)])


def _operations(*, is_common: bool) -> list[wir.Collective]:
    """Return the operations that ranks may start, which of one program are not pairwise."""
    return [x for x in wir.Collective if not (is_common and x.is_pairwise)]


def _add_collective(
    draw: st.DrawFn,
    operation: wir.Collective,
    name: str,
    size: int,
    members: Sequence[_RankDraft],
) -> None:
    """Start one collective, or a send and a receive, on the members of a group."""
    is_common = len(members) < size
    if operation.is_pairwise:
        first, second = draw(st.permutations(range(size)))[:2]
        rows = (draw(st.sampled_from(_rows_of(members[first]))),)
        sent = _Started(wir.Collective.SEND, peer=second, reads=rows)
        received = _Started(wir.Collective.RECEIVE, peer=first, writes=rows)
        members[first].start(sent, name, first)
        members[second].start(received, name, second)
        return
    started = _draw_collective(draw, operation, size, members[0])
    if operation is wir.Collective.ALL_TO_ALL and not is_common and draw(st.booleans()):
        row = st.tuples(*[st.integers(0, 2)] * size)
        splits = [draw(row) for _ in range(size)]
        # Each rank has a row for itself, so that no tensor is empty.
        splits = [(*x[:i], x[i] + 1, *x[i + 1 :]) for i, x in enumerate(splits)]
        started = _Started(operation, splits=tuple(splits))
    nested = (
        operation in _CALLED and len(started.reads) == 1 and not draw(st.integers(0, 4))
    )
    for position, draft in enumerate(members):
        if nested:
            draft.call(started, name)
        else:
            draft.start(started, name, position)


def _rows_of(draft: _RankDraft) -> list[int]:
    return sorted({each.rows for each in draft.readable()} | {ROWS})


def _draw_collective(
    draw: st.DrawFn, operation: wir.Collective, size: int, draft: _RankDraft
) -> _Started:
    """Draw the tensors of a collective, with rows that a member has, if they fit."""
    gathers = operation is wir.Collective.ALL_GATHER
    scatters = operation is wir.Collective.REDUCE_SCATTER
    divided = scatters or operation is wir.Collective.ALL_TO_ALL
    fitting = [
        rows
        for rows in _rows_of(draft)
        if not (divided and rows % size) and not (gathers and rows * size > _MOST_ROWS)
    ]
    count = draw(st.integers(1, 2)) if operation in _COALESCED else 1
    reads = tuple(draw(st.sampled_from(fitting or [size])) for _ in range(count))
    writes = reads
    if gathers:
        writes = tuple(rows * size for rows in reads)
    elif scatters:
        writes = tuple(rows // size for rows in reads)
    reductions = (wir.RankReduction.SUM, wir.RankReduction.MAXIMUM)
    return _Started(
        operation,
        reduction=draw(st.sampled_from(reductions)) if operation.reduces else None,
        peer=draw(st.integers(0, size - 1)) if operation.has_peer else None,
        reads=reads,
        writes=writes,
    )
