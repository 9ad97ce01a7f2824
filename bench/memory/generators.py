"""Generated buffers: with a known optimum, and like those of a training step."""

import random

from wrapperir.planning import Buffer

_HEIGHT = 1 << 24
_DURATION = 1 << 20
_UNIT = 64
_PINWHEELS = 0.25
"""How many of the cuts are pinwheels, which no sequence of straight cuts makes."""


def perfect_packing(count: int, seed: int) -> tuple[Buffer, ...]:
    """Return ``count`` buffers, shuffled, that fill a rectangle without gaps.

    The best height is the lower bound.  The rectangle is cut in two again and again, or in
    five around a middle piece as in a pinwheel.  There are fewer where pieces become too
    small to cut.
    """
    draw = random.Random(seed)
    todo = [((0, _DURATION), (0, _HEIGHT), count)]
    buffers: list[Buffer] = []
    while todo:
        (begin, end), (low, high), pieces = todo.pop()
        spans = end - begin >= 4, high - low >= 4
        if pieces <= 1 or not any(spans):
            buffers.append(Buffer((high - low) * _UNIT, begin, end, _UNIT))
            continue
        if pieces >= 5 and all(spans) and draw.random() < _PINWHEELS:
            t1, t2 = sorted(draw.sample(range(begin + 1, end), 2))
            o1, o2 = sorted(draw.sample(range(low + 1, high), 2))
            parts = [
                ((begin, t2), (low, o1)),
                ((t2, end), (low, o2)),
                ((t1, end), (o2, high)),
                ((begin, t1), (o1, high)),
                ((t1, t2), (o1, o2)),
            ]
        elif spans[0] and (draw.random() < 0.5 or not spans[1]):
            at = _between(draw, begin, end)
            parts = [((begin, at), (low, high)), ((at, end), (low, high))]
        else:
            at = _between(draw, low, high)
            parts = [((begin, end), (low, at)), ((begin, end), (at, high))]
        areas = [(time[1] - time[0]) * (room[1] - room[0]) for time, room in parts]
        left, area = pieces - len(parts), sum(areas)
        for (time, room), each in zip(parts, areas, strict=True):
            share = left * each // area
            left, area = left - share, area - each
            todo.append((time, room, 1 + share))
    draw.shuffle(buffers)
    return tuple(buffers)


def _between(draw: random.Random, low: int, high: int) -> int:
    """Return where to cut: in the middle half, so that pieces do not become slivers."""
    quarter = max((high - low) // 4, 1)
    return draw.randint(low + quarter, high - quarter)


def training_step(count: int, seed: int) -> tuple[Buffer, ...]:
    """Return about ``count`` buffers of a training step.

    Each layer keeps one to three activations until its backward, which comes in reverse
    order; there are temporaries, gradients that pass from layer to layer, gradients of
    weights that live until the optimizer's step, and the temporaries of that.
    """
    draw = random.Random(seed)
    layers = max(count // 9, 1)
    width = [_UNIT * draw.randint(1, 1 << 14) for _ in range(12)]
    kinds = [draw.choice(width) for _ in range(layers)]
    clock = 0
    buffers: list[Buffer] = []
    saved: list[list[tuple[int, int]]] = []

    def temporaries(size: int) -> None:
        nonlocal clock
        for _ in range(draw.randint(1, 3)):
            bytes_ = _UNIT * max(size * draw.randint(1, 8) // (4 * _UNIT), 1)
            buffers.append(Buffer(bytes_, clock, clock + draw.randint(1, 3), _UNIT))
            clock += 1

    for size in kinds:
        temporaries(size)
        saved.append(
            [
                (clock, _UNIT * max(size // (_UNIT * draw.choice((1, 1, 2, 4))), 1))
                for _ in range(draw.randint(1, 3))
            ]
        )
        clock += 1
    weights: list[tuple[int, int]] = []
    for size, kept in zip(reversed(kinds), reversed(saved), strict=True):
        buffers.append(Buffer(size, clock, clock + 4, _UNIT))
        temporaries(size)
        weights.append((clock, _UNIT * max(size // (_UNIT * draw.choice((4, 8, 16))), 1)))
        clock += 1
        buffers += [Buffer(bytes_, begin, clock, _UNIT) for begin, bytes_ in kept]
    for begin, bytes_ in reversed(weights):
        clock += 1
        buffers.append(Buffer(bytes_, begin, clock, _UNIT))
        buffers.append(Buffer(bytes_, clock - 1, clock, _UNIT))
    return tuple(buffers)
