"""Collectives of a group of processes: their names, reductions, groups and lines."""

from enum import StrEnum

from attrs import frozen

from wrapperir.ir.definition import Line
from wrapperir.ir.expr import Expr
from wrapperir.ir.types import CPU, Device


class Collective(StrEnum):
    """What the ranks of a group do together; the value is the name in text and JSON."""

    ALL_REDUCE = "all_reduce"
    """Each tensor becomes the reduction of that of all ranks."""
    ALL_GATHER = "all_gather"
    """Each rank gets the tensors of all ranks, one after the other."""
    REDUCE_SCATTER = "reduce_scatter"
    """Each rank gets its part of the reduction of a tensor."""
    ALL_TO_ALL = "all_to_all"
    """Each rank gets a part of the tensor of each rank."""
    BROADCAST = "broadcast"
    """Each tensor becomes that of the peer."""
    SEND = "send"
    """The peer is given a tensor, which it receives."""
    RECEIVE = "receive"
    """A tensor becomes the one that the peer sends."""

    @property
    def in_place(self) -> bool:
        """Whether it writes the tensors that it reads."""
        return self in (Collective.ALL_REDUCE, Collective.BROADCAST)

    @property
    def reduces(self) -> bool:
        """Whether it needs a reduction."""
        return self in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)

    @property
    def has_peer(self) -> bool:
        """Whether it needs a peer."""
        return self in (Collective.BROADCAST, Collective.SEND, Collective.RECEIVE)

    @property
    def is_pairwise(self) -> bool:
        """Whether two ranks of the group take part, not all."""
        return self in (Collective.SEND, Collective.RECEIVE)


class RankReduction(StrEnum):
    """How elements of several ranks become one; the value is PyTorch's name."""

    SUM = "sum"
    AVERAGE = "avg"
    PRODUCT = "product"
    MINIMUM = "min"
    MAXIMUM = "max"
    BIT_AND = "band"
    BIT_OR = "bor"
    BIT_XOR = "bxor"


@frozen(kw_only=True)
class ProcessGroup:
    """A group of processes that a program's collectives name.

    ``size`` is the number of its ranks.  ``rank`` is that of the process that runs the
    program; ``None`` is any, for a program that all ranks run.
    """

    name: str
    size: int
    rank: int | None = None


@frozen(kw_only=True)
class CollectiveLine(Line):
    """Start work that the ranks of ``group`` do together, which a later line waits for.

    The work begins after what ``stream`` was given before.  Until the wait, it may read
    the tensors ``reads`` and write ``writes`` at any time.  Several tensors are coalesced:
    each is reduced or gathered alone.  ``peer`` is a rank of the group.  The splits are
    the rows for and from each rank; without, all ranks have as many.
    """

    result: str
    operation: Collective
    reduction: RankReduction | None = None
    group: str
    peer: int | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    read_splits: tuple[Expr, ...] = ()
    write_splits: tuple[Expr, ...] = ()
    device: Device = CPU
    stream: int = 0


@frozen(kw_only=True)
class WaitCollectiveLine(Line):
    """Have later work on a stream wait for a collective that the stream started.

    ``reads`` and ``writes`` are those of the collective, which are free after this.
    """

    work: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    device: Device = CPU
    stream: int = 0


def operand_fault(line: CollectiveLine, size: int | None) -> str | None:
    """Return why the operands of a collective are not those that it has, in words.

    ``size`` is that of its group, if it is known.
    """
    operation, name = line.operation, line.operation.value
    reads, writes = len(line.reads), len(line.writes)
    if operation.reduces != (line.reduction is not None):
        needs = "needs a reduction" if operation.reduces else "has no reduction"
        return f"{name} {needs}"
    if operation.has_peer != (line.peer is not None):
        return f"{name} {'needs' if operation.has_peer else 'has no'} peer"
    if line.peer is not None and (
        line.peer < 0 or (size is not None and line.peer >= size)
    ):
        return f"the group has no rank {line.peer}"
    if operation.in_place and line.reads != line.writes:
        return f"{name} writes the tensors that it reads"
    wanted = {
        Collective.BROADCAST: (1, 1),
        Collective.ALL_TO_ALL: (1, 1),
        Collective.SEND: (1, 0),
        Collective.RECEIVE: (0, 1),
    }.get(operation)
    if wanted is not None and (reads, writes) != wanted:
        return f"{name} reads {wanted[0]} and writes {wanted[1]} tensors"
    if wanted is None and (reads != writes or not reads):
        return f"{name} reads and writes as many tensors, one or more"
    if len(set(line.writes)) != writes or (
        not operation.in_place and not set(line.writes).isdisjoint(line.reads)
    ):
        return f"{name} is given a tensor twice, and writes it"
    splits = line.read_splits, line.write_splits
    if operation is not Collective.ALL_TO_ALL:
        return f"{name} has no splits" if any(splits) else None
    if bool(splits[0]) != bool(splits[1]):
        return f"{name} has both kinds of splits or none"
    if size is not None and splits[0] and {len(each) for each in splits} != {size}:
        return f"{name} has a split for each of the {size} ranks"
    return None
