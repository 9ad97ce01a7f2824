"""Facts about a kernel in its metadata: what it copies, and how much memory it touches.

The key ``copies.out0.in0`` says that the kernel writes elements of ``in0`` to ``out0`` as
they are.  Its value is how many, ``all`` of ``out0``, or ``some``.
``copies.out0.in0.axes`` has the loops of the copy, ``2 512 1024, 512 1 2``: for each its
length, the step in ``out0`` and the step in ``in0``, in elements.  With
``copies.out0.out1.computed = true`` the kernel computes what it writes to both, and reads
neither.

``touched.reads`` and ``touched.writes``, as ``in0 64, in1 8``, are the numbers of elements
that a call reads and writes at most, each counted once.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from attrs import frozen

Constant: TypeAlias = int | float | bool | str | None

_COPIES = "copies"
_AXES = "axes"
_COMPUTED = "computed"
_READS = "touched.reads"
_WRITES = "touched.writes"
_COUNT = re.compile(r"(\S{1,200}) ([0-9]{1,18})")
_AXIS = re.compile(r"([0-9]{1,18}) ([0-9]{1,18}) (-?[0-9]{1,18})")


@frozen
class CopyAxis:
    """A loop of a copy: its length, and its steps in both parameters, in elements."""

    extent: int
    target: int
    source: int


@frozen
class KernelCopy:
    """A kernel's copy of elements of one parameter to another.

    ``count`` is the number of elements, if it is known; without it, ``whole`` says that all
    elements of ``target`` are copies.  Elements that loops of the kernel compute may be
    among those of ``source``, as they are once these loops have run.  ``axes`` are the
    loops of the copy, if it is one, whose steps are known.  What is ``computed`` is not
    read: the kernel writes a value that it computes to both parameters.
    """

    target: str
    source: str
    count: int | None = None
    whole: bool = False
    axes: tuple[CopyAxis, ...] | None = None
    computed: bool = False

    @property
    def metadata(self) -> tuple[tuple[str, Constant], ...]:
        """The entries of the kernel's metadata that say this."""
        key = f"{_COPIES}.{self.target}.{self.source}"
        value = self.count if self.count is not None else ("some", "all")[self.whole]
        found: list[tuple[str, Constant]] = [(key, value)]
        if self.axes is not None:
            steps = (f"{x.extent} {x.target} {x.source}" for x in self.axes)
            found.append((f"{key}.{_AXES}", ", ".join(steps)))
        if self.computed:
            found.append((f"{key}.{_COMPUTED}", True))
        return tuple(found)

    @staticmethod
    def of(metadata: Iterable[tuple[str, Constant]]) -> "tuple[KernelCopy, ...]":
        """Return the copies that metadata tells of."""
        known = dict(metadata)
        found: list[KernelCopy] = []
        for key, value in known.items():
            parts = key.split(".")
            if len(parts) == 3 and parts[0] == _COPIES:
                _, target, source = parts
                found.append(
                    KernelCopy(
                        target,
                        source,
                        value if type(value) is int and value > 0 else None,
                        whole=value == "all",
                        axes=_parse_axes(known.get(f"{key}.{_AXES}")),
                        computed=known.get(f"{key}.{_COMPUTED}") is True,
                    )
                )
        return tuple(found)


def _parse_axes(value: Constant) -> tuple[CopyAxis, ...] | None:
    """Return the loops of a copy; ``None`` if there are none or they are malformed."""
    if not isinstance(value, str):
        return None
    axes = [_AXIS.fullmatch(part) for part in value.split(", ") if value]
    found = tuple(CopyAxis(*map(int, axis.groups())) for axis in axes if axis is not None)
    return found if len(found) == len(axes) else None


@frozen
class TouchedElements:
    """How many elements of each parameter a call of a kernel reads and writes at most.

    Each element counts once.  A parameter without a number is not touched.
    """

    read: Mapping[str, int]
    written: Mapping[str, int]

    @property
    def metadata(self) -> tuple[tuple[str, Constant], ...]:
        """The entries of the kernel's metadata that say this."""
        kinds = (_READS, self.read), (_WRITES, self.written)
        return tuple(
            (key, ", ".join(f"{name} {count}" for name, count in counts.items() if count))
            for key, counts in kinds
            if any(counts.values())
        )

    @staticmethod
    def of(metadata: Iterable[tuple[str, Constant]]) -> "TouchedElements | None":
        """Return what metadata tells; ``None`` if it tells nothing."""
        known = dict(metadata)
        read, written = (_parse_counts(known.get(key)) for key in (_READS, _WRITES))
        return TouchedElements(read, written) if read or written else None


def _parse_counts(value: Constant) -> dict[str, int]:
    """Return the numbers of parameters; nothing if they are malformed."""
    if not isinstance(value, str):
        return {}
    counts = [_COUNT.fullmatch(part) for part in value.split(", ")]
    found = {each[1]: int(each[2]) for each in counts if each is not None}
    return found if len(found) == len(counts) else {}
