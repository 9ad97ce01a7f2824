"""The copies that a kernel makes: elements that it writes to a buffer as they are."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, prod

from attrs import evolve, frozen

from wrapperir.ir import CopyAxis, Expr, KernelCopy, symbols_in
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import Axis, InnerLoop, Literal, Load, Store, StoreMode
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.sequences import SequenceLaunch
from wrapperir.lowering.substitution import instructions, results


def launch_copies(launch: KernelLaunch | SequenceLaunch) -> tuple[KernelCopy, ...]:
    """Return the copies that a launch makes, by the names of its kernel's parameters.

    A buffer whose memory a later part of the kernel takes is left out: the launch is not
    given it by name.
    """
    if isinstance(launch, KernelLaunch):
        return kernel_copies(launch.kernel)
    parameters = dict(
        zip(launch.buffers, (each.name for each in launch.kernel.buffers), strict=True)
    )
    stores: list[_KernelStore] = []
    for part in launch.launches:
        own = (each.name for each in part.kernel.buffers)
        names = dict(zip(own, part.buffers, strict=True))
        for each in _stores(part.kernel):
            target = parameters.get(names[each.target])
            if target is not None:
                source = each.source and parameters.get(names[each.source])
                stores.append(evolve(each, target=target, source=source))
    return _joined(stores)


def kernel_copies(kernel: LoopKernel) -> tuple[KernelCopy, ...]:
    """Return the copies that a kernel makes.

    A value that is computed and stored to several buffers is copied from the first.  What a
    kernel replaces in place has no name once it ran, so that copies of it are left out.
    """
    return _joined(list(_stores(kernel)))


@frozen
class _AccessPlace:
    """The elements of an access: the first, and the length and step of each loop."""

    first: int
    steps: Mapping[str, tuple[int, int]]

    def within(self, period: float) -> tuple[float, float] | None:
        """Return the range of the elements modulo a period, if it is known not to wrap."""
        last = self.first
        for extent, step in self.steps.values():
            if period == inf or step % period:
                last += (extent - 1) * step
            if step < 0:
                return None
        if self.first // period != last // period:
            return None
        return self.first % period, last % period


@frozen
class _KernelStore:
    """A store of a kernel: how many elements it writes, and which, if that is known.

    ``source`` is the buffer that these are a copy of, or that has them too if they are
    ``computed``; ``axes`` the loops of the copy, if their steps are known.
    """

    target: str
    count: int | None
    place: _AccessPlace | None
    source: str | None = None
    axes: tuple[CopyAxis, ...] | None = None
    computed: bool = False


def _joined(stores: Sequence[_KernelStore]) -> tuple[KernelCopy, ...]:
    """Return a copy for each pair of buffers.

    It has no count where a later store may write over what is copied.
    """
    later: defaultdict[str, list[_AccessPlace | None]] = defaultdict(list)
    kept: list[bool] = []
    for each in reversed(stores):
        places = later[each.target]
        kept.append(all(_are_disjoint(each.place, other) for other in places))
        places.append(each.place)
    found: dict[tuple[str, str], KernelCopy] = {}
    for each, is_kept in zip(stores, reversed(kept), strict=True):
        if each.source is None or each.source == each.target:
            continue
        copy = KernelCopy(
            each.target,
            each.source,
            each.count if is_kept else None,
            axes=each.axes,
            computed=each.computed,
        )
        before = found.get((each.target, each.source))
        if before is not None:
            counts = before.count, copy.count
            copy = KernelCopy(
                each.target,
                each.source,
                None if None in counts else sum(x for x in counts if x is not None),
                computed=before.computed and each.computed,
            )
        found[each.target, each.source] = copy
    return tuple(found.values())


def _are_disjoint(one: _AccessPlace | None, other: _AccessPlace | None) -> bool:
    """Say whether two stores certainly write different elements.

    Rows or columns of a buffer are apart modulo the step of a loop.
    """
    if one is None or other is None:
        return False
    steps = {step for each in (one, other) for _, step in each.steps.values() if step > 1}
    for period in (inf, *steps):
        ranges = one.within(period), other.within(period)
        if ranges[0] is not None and ranges[1] is not None:
            (low, high), (other_low, other_high) = ranges[0], ranges[1]
            if high < other_low or other_high < low:
                return True
    return False


def _stores(kernel: LoopKernel) -> Iterator[_KernelStore]:
    """Yield the stores of a kernel in order."""
    nest = kernel.nest
    dtypes = {each.name: each.type.dtype for each in kernel.buffers}
    written = {each.name for each in kernel.buffers if each.access.writes}
    computed = {name for each in instructions(nest.body) for name in results(each)}
    constants = {x.result for x in instructions(nest.body) if isinstance(x, Literal)}
    loads: dict[str, Load] = {}
    first: dict[str, Store] = {}
    for step in nest.body:
        axes = (*nest.axes, *step.axes) if isinstance(step, InnerLoop) else nest.axes
        ranges = IndexRanges.of_axes(axes)
        for each in step.body if isinstance(step, InnerLoop) else (step,):
            if isinstance(each, Load):
                names = {name for part in each.index for name in symbols_in(part)}
                is_plain = each.mask is None and computed.isdisjoint(names)
                if is_plain and each.buffer not in written:
                    loads[each.result] = each
            elif isinstance(each, Store):
                (index,) = each.index
                is_placed = each.mask is None and computed.isdisjoint(symbols_in(index))
                count = _points(axes) if is_placed else None
                place = _place(ranges, axes, index)
                stored = _KernelStore(each.buffer, count, place)
                source: Load | Store = each
                if each.mode is StoreMode.OVERWRITE and each.value not in constants:
                    source = loads.get(each.value) or first.setdefault(each.value, each)
                if source is not each and dtypes[source.buffer] is dtypes[each.buffer]:
                    stored = evolve(
                        stored,
                        source=source.buffer,
                        axes=_copy_axes(place, _place(ranges, axes, source.index[0])),
                        computed=isinstance(source, Store),
                    )
                yield stored


def _place(ranges: IndexRanges, axes: Iterable[Axis], index: Expr) -> _AccessPlace | None:
    """Return the elements of an access; ``None`` unless all is known and linear."""
    extents = {axis.name: axis.extent for axis in axes}
    terms = ranges.linear_terms(index, extents)
    steps: dict[str, tuple[int, int]] = {}
    for name, extent in extents.items():
        step = terms.coefficients.get(name, 0)
        if not (isinstance(extent, int) and isinstance(step, int)):
            return None
        if extent != 1:
            steps[name] = extent, step
    return _AccessPlace(terms.rest, steps) if isinstance(terms.rest, int) else None


def _copy_axes(
    target: _AccessPlace | None, source: _AccessPlace | None
) -> tuple[CopyAxis, ...] | None:
    """Return the loops of a copy; ``None`` unless all is known and linear."""
    if target is None or source is None:
        return None
    found = [
        CopyAxis(extent, step, source.steps[name][1])
        for name, (extent, step) in target.steps.items()
    ]
    return None if any(each.target <= 0 for each in found) else tuple(found)


def _points(axes: Iterable[Axis]) -> int | None:
    """Return the number of points of loops; ``None`` if it is not known."""
    extents = [axis.extent for axis in axes]
    known = [each for each in extents if isinstance(each, int)]
    return prod(known) if len(known) == len(extents) else None
