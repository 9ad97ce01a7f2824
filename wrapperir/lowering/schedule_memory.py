"""The memory that a schedule's items hold, also where several of them run as one."""

from collections.abc import Iterable

from attrs import define, field

from wrapperir.lowering.costs import TypicalSizes
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.schedule import Schedule, SchedulingOptions, buffers_of

_MOST_MORE = 2


@define(eq=False)
class ScheduleMemory:
    """Bytes at the items of a schedule, by their places.

    A buffer is held from its first item to its last, donated inputs from the start and
    outputs to the end; other inputs do not count.  ``born`` has the bytes whose first item
    each is, ``held`` what is held while it runs alone.  ``lasting`` are the bytes of
    donated inputs and outputs.
    """

    born: list[int]
    held: list[int]
    lasting: int
    most: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find how much joined items may hold.

        That is the peak of items that run alone, and some times what it has of values that
        are neither donated nor outputs: those are short-lived.
        """
        peak = max(self.held, default=0)
        self.most = peak + _MOST_MORE * max(peak - self.lasting, 0)

    @classmethod
    def of(
        cls, schedule: Schedule, options: SchedulingOptions, inputs: Iterable[str]
    ) -> "ScheduleMemory":
        """Return the memory of a schedule whose inputs are in buffers of these names."""
        count = len(schedule.items)
        sizes = TypicalSizes(options.symbols)
        spans: dict[str, tuple[int, int]] = dict.fromkeys(options.donated, (0, 0))
        lasting = {*options.donated}
        taken: dict[str, str] = {}
        for place, item in enumerate(schedule.items):
            if isinstance(item, KernelLaunch):
                for result, source in item.in_place:
                    taken[result] = taken.get(source, source)
            for each in buffers_of(item):
                name = taken.get(each, each)
                spans[name] = spans.get(name, (place, place))[0], place
        for _, view in schedule.outputs:
            name = taken.get(view.buffer, view.buffer)
            if name in spans:
                spans[name] = spans[name][0], count - 1
                lasting.add(name)
        counted = spans.keys() - (set(inputs) - options.donated)
        born, died = [0] * count, [0] * count
        for name in counted:
            size = sizes.bytes(schedule.buffers[name])
            first, last = spans[name]
            born[first] += size
            died[last] += size
        held: list[int] = []
        total = 0
        for place in range(count):
            total += born[place]
            held.append(total)
            total -= died[place]
        kept = sum(sizes.bytes(schedule.buffers[name]) for name in lasting & counted)
        return cls(born, held, kept)

    def joined(self, first: int, last: int) -> int:
        """Return what is held while the items between two places run as one."""
        return self.held[first] + sum(self.born[first + 1 : last + 1])
