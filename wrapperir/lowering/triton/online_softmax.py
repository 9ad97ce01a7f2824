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

from collections.abc import Hashable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from wrapperir.ir import Expr, Symbol, symbols_in
from wrapperir.lowering.loops import (
    Apply,
    Check,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Step,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.substitution import (
    index_of,
    instructions,
    names_used,
    replace_names,
    results,
)


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
    if [axis.extent for axis in first.axes] != [axis.extent for axis in second.axes]:
        return False
    written = {s.buffer for s in instructions(nest.body) if isinstance(s, Store)}
    key = _key(value, first, written)
    return key is not None and key == _key(other, second, written)


def _key(value: str, loop: InnerLoop, written: set[str]) -> Hashable | None:
    """Return what a value is computed from, by the places of the loop's axes.

    ``None`` if it reads a buffer that the nest writes.
    """
    defined = {name: step for step in loop.body for name in results(step)}
    places = {axis.name: Symbol(f"#{n}") for n, axis in enumerate(loop.axes)}
    if value not in defined:
        return value
    step = defined[value]
    match step:
        case Literal():
            return ("literal", step.dtype, repr(step.value))
        case Apply():
            parts = [_key(name, loop, written) for name in step.operands]
            return None if None in parts else (step.op, step.dtype, *parts)
        case Load() | IndexValue():
            index = _placed(index_of(step), places)
            names = (name for expr in index_of(step) for name in symbols_in(expr))
            if any(name in defined for name in names):
                return None
            if isinstance(step, IndexValue):
                return ("index", step.dtype, index)
            if step.buffer in written:
                return None
            mask = None if step.mask is None else _key(step.mask, loop, written)
            if mask is None and step.mask is not None:
                return None
            return ("load", step.buffer, step.dtype, index, mask, repr(step.other))
        case Store() | Reduce() | Scan() | Check():
            return None


def _placed(index: Sequence[Expr], places: Mapping[str, Symbol]) -> tuple[Expr, ...]:
    return tuple(replace_names(expr, places.get) for expr in index)


def _with_pair(nest: Nest, number: int, peak: Reduce, total: _Sum) -> Nest:
    """Return the nest with the maximum and the sum as one reduction."""
    pair = evolve(
        peak,
        results=(*peak.results, *total.step.results),
        op=ReduceOp.ONLINE_SOFTMAX,
    )
    body: list[Step] = list(nest.body)
    first, second = body[number], body[total.loop]
    assert isinstance(first, InnerLoop)
    assert isinstance(second, InnerLoop)
    body[number] = evolve(
        first, body=tuple(pair if step is peak else step for step in first.body)
    )
    rest = _used([step for step in second.body if step is not total.step])
    body[total.loop : total.loop + 1] = [evolve(second, body=rest)] if rest else []
    return evolve(nest, body=tuple(body))


def _used(body: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return the instructions whose results are stored, checked or reduced."""
    used: set[str] = set()
    kept: list[Instruction] = []
    for step in reversed(body):
        if isinstance(step, Store | Check | Reduce) or used.intersection(results(step)):
            kept.append(step)
            used.update(names_used(step))
    return tuple(reversed(kept))
