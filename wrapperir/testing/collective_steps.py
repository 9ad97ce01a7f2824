"""Steps that add collectives of a group with one rank, and other steps until the wait."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from wrapperir import ir as wir
from wrapperir.testing.generator import BlockGenerator, NothingToUseError, Tracked, indices

GROUP = wir.ProcessGroup(name="one", size=1)
"""The group of drawn programs."""

_MOST_BETWEEN = 3
_REDUCTIONS = (
    *(wir.RankReduction.SUM, wir.RankReduction.MAXIMUM, wir.RankReduction.MINIMUM),
    wir.RankReduction.PRODUCT,
)


def collective(generator: BlockGenerator) -> None:
    """Start a collective, add a few steps, and wait for it."""
    if generator.recorded:
        raise NothingToUseError
    operation = generator.choose(_OPERATIONS)
    source = generator.pick_matrix()
    if operation.in_place:
        source = generator.pick(
            lambda t: generator.is_matrix(t) and t.memory.written and generator.fills(t)
        )
    targets = [source]
    if not operation.in_place:
        targets = [generator.buffer(generator.world.matrix(source.type.dtype))]
    reduction = generator.choose(_REDUCTIONS) if operation.reduces else None
    work = generator.block.collective(
        operation,
        GROUP.name,
        [source.value],
        [target.value for target in targets],
        reduction=reduction,
        peer=0 if operation.has_peer else None,
    )
    _add_between(generator, source, *targets)
    generator.block.wait_collective(work)
    for target in targets:
        target.memory.written = True


_OPERATIONS = tuple(each for each in wir.Collective if not each.is_pairwise)


def _add_between(generator: BlockGenerator, *used: Tracked) -> None:
    """Add steps that do not use the memory of a collective."""
    before = generator.flying
    generator.flying = (*before, *(each.memory for each in used))
    steps: list[Callable[[BlockGenerator], object]] = [
        step for step in generator.world.steps if not isinstance(step, partial)
    ]
    for _ in range(generator.draw(indices(_MOST_BETWEEN))):
        with suppress(NothingToUseError):
            generator.choose(steps)(generator)
    generator.flying = before
