"""Buffers and plans drawn by Hypothesis."""

from collections.abc import Sequence

from hypothesis import strategies as st

from wrapperir.planning import Buffer, Plan, lower_bound


@st.composite
def buffers(draw: st.DrawFn, most: int = 40) -> tuple[Buffer, ...]:
    """Draw buffers of few times and sizes, so that they meet; some have none."""

    def one() -> Buffer:
        begin = draw(st.integers(-5, 25))
        return Buffer(
            draw(st.integers(0, 9) | st.sampled_from((64, 100, 1 << 40))),
            begin,
            begin + draw(st.integers(0, 12)),
            draw(st.sampled_from((1, 1, 2, 3, 8, 64))),
        )

    return tuple(one() for _ in range(draw(st.integers(0, most))))


def plan_of(buffers: Sequence[Buffer], offsets: Sequence[int]) -> Plan:
    """Return a plan with the height that the offsets give."""
    tops = [
        offset + buffer.size
        for buffer, offset in zip(buffers, offsets, strict=True)
        if buffer.size and buffer.begin < buffer.end
    ]
    bound = lower_bound(buffers)
    return Plan(tuple(offsets), max(tops, default=0), bound, bound, "test")
