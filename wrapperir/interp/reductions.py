"""The results of collectives, from the tensors of all ranks.

Reductions go over the ranks in their order, in the dtype of the elements.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import accumulate

import torch
from attrs import frozen

from wrapperir.analysis.meetings import CollectiveCall
from wrapperir.diagnostics import Code, FaultError
from wrapperir.ir import Collective, RankReduction

_Join = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_JOINS: Mapping[RankReduction, _Join] = {
    RankReduction.SUM: torch.add,
    RankReduction.AVERAGE: torch.add,
    RankReduction.PRODUCT: torch.mul,
    RankReduction.MINIMUM: torch.minimum,
    RankReduction.MAXIMUM: torch.maximum,
    RankReduction.BIT_AND: torch.bitwise_and,
    RankReduction.BIT_OR: torch.bitwise_or,
    RankReduction.BIT_XOR: torch.bitwise_xor,
}


@frozen(eq=False)
class Exchange:
    """What the ranks of a group bring, for the result of one of them."""

    rank: int
    size: int
    calls: Mapping[int, CollectiveCall]
    sent: Mapping[int, tuple[torch.Tensor, ...]]

    @property
    def call(self) -> CollectiveCall:
        """What this rank gives."""
        return self.calls[self.rank]


def exchange(given: Exchange) -> tuple[torch.Tensor, ...]:
    """Return the elements that a rank gets for each tensor that it writes.

    Raises:
        FaultError: the reduction is not one of the dtype's.
    """
    call, ranks = given.call, range(given.size)
    if call.operation is Collective.SEND:
        return ()
    if call.operation is Collective.RECEIVE:
        assert call.peer is not None
        return given.sent[call.peer]
    if call.operation is Collective.BROADCAST:
        assert call.peer is not None
        return given.sent[call.peer]
    if call.operation is Collective.ALL_TO_ALL:
        return (_received_rows(given),)
    columns = zip(*(given.sent[rank] for rank in ranks), strict=True)
    if call.operation is Collective.ALL_GATHER:
        return tuple(torch.cat([each.flatten() for each in tensors]) for tensors in columns)
    assert call.reduction is not None
    whole = [_reduced(call.reduction, tensors) for tensors in columns]
    if call.operation is Collective.ALL_REDUCE:
        return tuple(whole)
    return tuple(each.flatten().chunk(given.size)[given.rank] for each in whole)


def _reduced(reduction: RankReduction, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    try:
        total = reduce(_JOINS[reduction], tensors)
        if reduction is RankReduction.AVERAGE:
            total = total.div(len(tensors), rounding_mode=None).to(total.dtype)
    except RuntimeError as error:
        message = f"{reduction.value} does not reduce {tensors[0].dtype}: {error}"
        raise FaultError(Code.RUN_COLLECTIVE, message, subject=reduction.value) from error
    return total.to(tensors[0].dtype)


def _received_rows(given: Exchange) -> torch.Tensor:
    """Return the rows that all ranks have for one, in the order of the ranks."""
    parts: list[torch.Tensor] = []
    for rank in range(given.size):
        (tensor,) = given.sent[rank]
        splits = [each or 0 for each in given.calls[rank].read_splits]
        if not splits:
            splits = [tensor.shape[0] // given.size] * given.size
        begin = [0, *accumulate(splits)][given.rank]
        parts.append(tensor[begin : begin + splits[given.rank]])
    return torch.cat(parts)
