"""Calls of PyTorch's functional collectives, and what each gives to a collective."""

from collections.abc import Mapping, Sequence

from attrs import define

from wrapperir import ir as wir
from wrapperir.diagnostics import Code

_PREFIX = "_c10d_functional."
WAIT = f"{_PREFIX}wait_tensor.default"
"""The operator that waits for a tensor."""

_OPERATIONS: Mapping[str, wir.Collective] = {
    "all_reduce": wir.Collective.ALL_REDUCE,
    "all_reduce_": wir.Collective.ALL_REDUCE,
    "all_reduce_coalesced": wir.Collective.ALL_REDUCE,
    "all_reduce_coalesced_": wir.Collective.ALL_REDUCE,
    "all_gather_into_tensor": wir.Collective.ALL_GATHER,
    "all_gather_into_tensor_out": wir.Collective.ALL_GATHER,
    "all_gather_into_tensor_coalesced": wir.Collective.ALL_GATHER,
    "reduce_scatter_tensor": wir.Collective.REDUCE_SCATTER,
    "reduce_scatter_tensor_out": wir.Collective.REDUCE_SCATTER,
    "reduce_scatter_tensor_coalesced": wir.Collective.REDUCE_SCATTER,
    "all_to_all_single": wir.Collective.ALL_TO_ALL,
    "broadcast": wir.Collective.BROADCAST,
    "broadcast_": wir.Collective.BROADCAST,
}
"""Operators of the namespace, and what each of them does."""


def operation_of(line: wir.BodyLine) -> wir.Collective | None:
    """Return what a line does if it calls a functional collective."""
    if not isinstance(line, wir.ExternKernelLine):
        return None
    name = line.operator.removeprefix(_PREFIX).removesuffix(".default")
    return _OPERATIONS.get(name) if line.operator.startswith(_PREFIX) else None


_RECEIVING = frozenset({f"{_PREFIX}irecv.default", f"{_PREFIX}batch_p2p_ops.default"})


def refuse_hidden_receive(line: wir.BodyLine) -> None:
    """Refuse an operator of PyTorch's graphs that receives into a tensor.

    Its schema does not say that it writes, and later nodes use the tensor from before.

    Raises:
        DiagnosticError: WIR602.
    """
    if not isinstance(line, wir.ExternKernelLine) or line.operator not in _RECEIVING:
        return
    if not line.writes:  # as those of `call_collectives` do
        message = f"{line.operator} writes a tensor, and its schema does not say so"
        hint = "leave TORCHDYNAMO_ENABLE_P2P_COMPILATION unset: graphs then end before it"
        raise Code.UNSUPPORTED_OPERATOR.error(message, subject=line.operator, hint=hint)


@define(eq=False)
class GivenToCall:
    """What an operator call gives to a collective."""

    group: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    reduction: wir.RankReduction | None = None
    peer: int | None = None
    read_splits: tuple[wir.Expr, ...] = ()
    write_splits: tuple[wir.Expr, ...] = ()

    @classmethod
    def of(
        cls, line: wir.ExternKernelLine, operation: wir.Collective
    ) -> "GivenToCall | None":
        """Return what a call gives; ``None`` if it has no form in a line."""
        arguments = list(line.arguments)
        if not arguments or not isinstance(arguments[-1], str):
            return None
        group = arguments.pop()
        sources = arguments.pop(0)
        names = _names(sources if isinstance(sources, tuple) else (sources,))
        keywords = dict(line.keywords)
        out = keywords.pop("out", None)
        if names is None or keywords or (out is not None and line.result is not None):
            return None
        found = cls(str(group), names)
        if isinstance(out, wir.BufferRef):
            found.writes = (out.name,)
        if operation.reduces:
            if not arguments or arguments[0] not in list(wir.RankReduction):
                return None
            found.reduction = wir.RankReduction(str(arguments.pop(0)))
        if operation.has_peer:
            peer = arguments.pop(0) if arguments else None
            if type(peer) is not int:
                return None
            found.peer = peer
        if operation is wir.Collective.ALL_TO_ALL:
            taken, given = (*arguments, None, None)[:2]
            if not isinstance(taken, tuple) or not isinstance(given, tuple):
                return None
            found.write_splits = _sizes(taken)
            found.read_splits = _sizes(given)
        return found

    def line(
        self, call: wir.ExternKernelLine, operation: wir.Collective, handle: str
    ) -> wir.CollectiveLine:
        """Return the collective, without tensors."""
        return wir.CollectiveLine(
            result=handle,
            operation=operation,
            reduction=self.reduction,
            group=self.group,
            peer=self.peer,
            read_splits=self.read_splits,
            write_splits=self.write_splits,
            device=call.device,
            stream=call.stream,
            provenance=call.provenance,
        )


def _sizes(given: tuple[wir.Argument, ...]) -> tuple[wir.Expr, ...]:
    return tuple([x for x in given if isinstance(x, int | wir.Symbol | wir.Operation)])


def _names(arguments: Sequence[object]) -> tuple[str, ...] | None:
    """Return the names of tensors; ``None`` if one is something else, or given twice."""
    names = tuple([each.name for each in arguments if isinstance(each, wir.BufferRef)])
    return names if len({*names}) == len(arguments) else None
