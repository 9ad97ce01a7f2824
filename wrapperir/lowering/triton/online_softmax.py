"""Compute the maximum and the sum of a softmax in one loop over a row.

Before::

    for r0 < 5000:
        v0 = load x[i0, r0]
        v1 = reduce max v0
    for r0 < 5000:
        v2 = load x[i0, r0]
        v3 = sub v2 v1
        v4 = exp v3
        v5 = reduce sum v4

After::

    for r0 < 5000:
        v0 = load x[i0, r0]
        v1, v5 = reduce online_softmax v0

A row that is read in blocks is then read once less (Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018).
"""

from collections.abc import Iterator

from attrs import evolve, frozen

from wrapperir.lowering.loops import (
    Apply,
    Check,
    InnerLoop,
    Nest,
    Reduce,
    Step,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.substitution import needed
from wrapperir.lowering.value_numbers import ValueNumbers


@frozen
class _Sum:
    """The sum of a softmax: its step and loop, and the value and maximum it is of."""

    loop: int
    step: Reduce
    value: str
    peak: str


def join_softmax(nest: Nest) -> Nest:
    """Return a nest whose sums of a softmax are computed with their maxima."""
    while True:
        joined = _joined(nest)
        if joined is None:
            return nest
        nest = joined


def _joined(nest: Nest) -> Nest | None:
    """Return the nest with one sum joined to its maximum; ``None`` if there is none."""
    for total in _sums(nest):
        for number in range(total.loop):
            first = nest.body[number]
            if not isinstance(first, InnerLoop):
                continue
            for step in first.body:
                if not isinstance(step, Reduce) or step.results != (total.peak,):
                    continue
                second = nest.body[total.loop]
                assert isinstance(second, InnerLoop)
                value = step.operands[0]
                is_same = _is_same(nest, first, value, second, total.value)
                if is_same and step.op is ReduceOp.MAX:
                    return _with_pair(nest, number, step, total)
    return None


def _sums(nest: Nest) -> Iterator[_Sum]:
    """Yield the sums of exponentials of differences."""
    for number, loop in enumerate(nest.body):
        if not isinstance(loop, InnerLoop):
            continue
        applied = {step.result: step for step in loop.body if isinstance(step, Apply)}
        for step in loop.body:
            if not isinstance(step, Reduce) or step.op is not ReduceOp.SUM:
                continue
            power = applied.get(step.operands[0])
            if power is None or power.op is not ScalarOp.EXP:
                continue
            difference = applied.get(power.operands[0])
            if difference is not None and difference.op is ScalarOp.SUB:
                value, peak = difference.operands
                yield _Sum(number, step, value, peak)


def _is_same(
    nest: Nest, first: InnerLoop, value: str, second: InnerLoop, other: str
) -> bool:
    """Say whether values of two loops are equal at each point."""
    numbers = ValueNumbers(nest.body)
    number = numbers.of(first).get(value)
    return number is not None and number == numbers.of(second).get(other)


def _with_pair(nest: Nest, number: int, peak: Reduce, total: _Sum) -> Nest:
    """Return the nest with the maximum and the sum as one reduction."""
    pair = evolve(
        peak,
        results=(*peak.results, *total.step.results),
        op=ReduceOp.ONLINE_SOFTMAX,
        origins=tuple(dict.fromkeys((*peak.origins, *total.step.origins))),
    )
    body: list[Step] = list(nest.body)
    first, second = body[number], body[total.loop]
    assert isinstance(first, InnerLoop)
    assert isinstance(second, InnerLoop)
    body[number] = evolve(
        first, body=tuple(pair if step is peak else step for step in first.body)
    )
    others = [step for step in second.body if step is not total.step]
    roots = [p for p, e in enumerate(others) if isinstance(e, Store | Check | Reduce)]
    rest = tuple(others[place] for place in needed(others, roots))
    body[total.loop : total.loop + 1] = [evolve(second, body=rest)] if rest else []
    return evolve(nest, body=tuple(body))
