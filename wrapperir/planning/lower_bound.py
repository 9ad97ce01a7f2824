"""The most bytes alive at once, which no plan can go below."""

from collections.abc import Sequence

from wrapperir.planning.instance import Buffer


def check_buffers(buffers: Sequence[Buffer]) -> None:
    """Refuse buffers that no plan can be made for.

    Raises:
        ValueError: a buffer has a negative size or ends before it begins, or an alignment
            is not positive.
    """
    for index, buffer in enumerate(buffers):
        if buffer.size < 0:
            raise ValueError(f"buffer {index} has a negative size, {buffer.size}")
        if buffer.end < buffer.begin:
            raise ValueError(
                f"buffer {index} ends at {buffer.end}, before it begins at {buffer.begin}"
            )
        if buffer.alignment <= 0:
            raise ValueError(
                f"buffer {index} has alignment {buffer.alignment}, which is not positive"
            )


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Return the most bytes alive at once, in n log n steps."""
    change: dict[int, int] = {}
    for buffer in buffers:
        change[buffer.begin] = change.get(buffer.begin, 0) + buffer.size
        change[buffer.end] = change.get(buffer.end, 0) - buffer.size
    live = most = 0
    for time in sorted(change):
        live += change[time]
        most = max(most, live)
    return most
