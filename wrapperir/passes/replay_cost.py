"""A model of what replaying a graph region costs and saves on the host.

Microseconds on the host of one H100 with emitted Python, torch 2.11.  Where the GPU's own
work takes longer than the host's, launches cost as much, but hide behind that work.
"""

from collections.abc import Iterable

from wrapperir import ir as wir
from wrapperir.analysis import storage_bytes
from wrapperir.ir.effects import NestedBlock
from wrapperir.ir.line_effects import LineEffects

KERNEL_LAUNCH = 3.5
"""A launch of a compiled kernel by address."""

OPERATOR_CALL = 10.0
"""A call of an operator: from 5 for a product with ``out`` to 15 for attention."""

REPLAY = 8.0
"""``cuGraphLaunch``, and the comparison of the operands' addresses."""

PATCH = 1.3
"""One launch whose operands have moved since the last replay."""

COPY = 4.0
"""The copy of a result to fresh memory, which each replay makes, without its bytes."""

COPIED_PER_MICROSECOND = 1_000_000
"""Bytes that a copy reads and writes again: half of the memory's speed, on an A100."""

LEAST_GAIN = 5.0
"""The least gain for which a region is worth its recordings and their memory."""


def copy_cost(types: Iterable[wir.ValueType]) -> float:
    """Return what copying results of these types costs; symbolic sizes count as nothing."""
    cost = 0.0
    for type in types:
        size = storage_bytes(type) if isinstance(type, wir.TensorType) else 0
        cost += COPY + (size / COPIED_PER_MICROSECOND if isinstance(size, int) else 0)
    return cost


def replay_gain(region: wir.GraphRegionLine) -> float:
    """Return the host time that a replay of a region saves, at least.

    All operands are taken to have moved, so that each call that is given one, or a view of
    one, is patched.
    """
    operands = {parameter.name for parameter in region.body.parameters}
    copies = copy_cost(result.type for result in region.results)
    return _gain(region.body, operands) - REPLAY - copies


def _gain(block: wir.Block, operands: set[str]) -> float:
    """Return what the calls of a block cost less as parts of a replay.

    Of a line with nested blocks, the one counts that gains the least.
    """
    gain = 0.0
    for line in block.lines:
        effects = _EFFECTS.visit(line)
        if effects.launches:
            gain += KERNEL_LAUNCH if isinstance(line, wir.KernelCallLine) else OPERATOR_CALL
            gain -= 0 if operands.isdisjoint(effects.uses) else PATCH
            continue
        made = effects.definitions
        operands.update(each.name for each in made if each.source in operands)
        inner = (_gain(each.block, _lent(each, operands)) for each in effects.blocks)
        gain += min(inner, default=0.0)
    return gain


def _lent(nested: NestedBlock, operands: set[str]) -> set[str]:
    """Return the parameters of a nested block that are operands of the region."""
    pairs = zip(nested.block.parameters, nested.operands, strict=True)
    return {
        parameter.name
        for parameter, operand in pairs
        if isinstance(operand, wir.BufferRef) and operand.name in operands
    }


def count_calls(region: wir.GraphRegionLine) -> int:
    """Return how many kernels and operators a region calls, at most."""
    return _calls(region.body)


def _calls(block: wir.Block) -> int:
    count = 0
    for line in block.lines:
        effects = _EFFECTS.visit(line)
        count += effects.launches
        count += max((_calls(each.block) for each in effects.blocks), default=0)
    return count


_EFFECTS = LineEffects(None)
