"""Programs of the conformance kit with collectives, of a group with one rank."""

from wrapperir import ir as wir
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.testing.conformance_case import MATRIX, Case, built
from wrapperir.testing.process_groups import GROUP


def _collectives(b: ProgramBuilder) -> wir.Program:
    """Each collective of one rank, the work of some in flight together."""
    x, group = b.input(MATRIX, mutated=True), b.process_group(GROUP, 1)
    results: list[NamedValue] = []
    started: list[NamedValue] = []
    for operation in ("all_gather", "reduce_scatter", "all_to_all"):
        out = b.allocate(MATRIX)
        reduction = "sum" if operation == "reduce_scatter" else None
        started.append(b.collective(operation, group, [x], [out], reduction=reduction))
        results.append(out)
    for work in reversed(started):
        b.wait_collective(work)
    b.wait_collective(b.collective("all_reduce", group, [x], reduction="max"))
    b.wait_collective(b.collective("broadcast", group, [x], peer=0))
    splits = b.allocate(MATRIX)
    work = b.collective(
        *("all_to_all", group, [x], [splits]), read_splits=(4,), write_splits=(4,)
    )
    b.wait_collective(work)
    return b.build(x, splits, *results)


def _coalesced_collectives(b: ProgramBuilder) -> wir.Program:
    """Collectives of several tensors, views of one storage among them, and a nested one."""
    x, group = b.input(MATRIX), b.process_group(GROUP, 1)
    whole = b.extern("aten.clone.default", x, type=MATRIX)
    row = wir.tensor("f32", (8,))
    first = b.reinterpret(whole, row)
    second = b.reinterpret(whole, wir.tensor("f32", (8,), offset=8))
    b.wait_collective(b.collective("all_reduce", group, [first, second], reduction="sum"))
    gathered = [b.allocate(row), b.allocate(row)]
    work = b.collective("all_gather", group, [first, second], gathered)
    b.wait_collective(work).free(first, second)

    def body(block: BlockBuilder, source: NamedValue) -> NamedValue:
        out = block.allocate(row)
        block.wait_collective(block.collective("all_gather", group, [source], [out]))
        return out

    (result,) = b.subgraph_call("gather", [gathered[0]], body, results=[row])
    return b.build(whole, result, *gathered)


COLLECTIVE_CASES: tuple[Case, ...] = (built(_collectives), built(_coalesced_collectives))
"""One or more for each collective that a rank can do alone."""
