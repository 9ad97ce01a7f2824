"""The copies that a kernel makes: elements that it writes to a buffer as they are."""

from collections.abc import Iterable, Iterator, Set
from math import prod

from attrs import field, frozen

from wrapperir.ir import KernelCopy, symbols_in
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import Axis, InnerLoop, Literal, Load, Nest, Store, StoreMode
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
    counts = _Counts()
    for part in launch.launches:
        own = (each.name for each in part.kernel.buffers)
        names = dict(zip(own, part.buffers, strict=True))
        for copy in kernel_copies(part.kernel):
            target, source = names[copy.target], names[copy.source]
            if target in parameters and source in parameters:
                counts.add(parameters[target], parameters[source], copy.count)
    return counts.copies()


def kernel_copies(kernel: LoopKernel) -> tuple[KernelCopy, ...]:
    """Return the copies that a kernel makes.

    A value that is stored to several buffers is copied from the first.  What a kernel
    replaces in place has no name once it ran, so that copies of it are left out.
    """
    dtypes = {each.name: each.type.dtype for each in kernel.buffers}
    written = {each.name for each in kernel.buffers if each.access.writes}
    counts = _Counts()
    for target, source, count in _copies(kernel.nest, written):
        if target != source and dtypes[target] is dtypes[source]:
            counts.add(target, source, count)
    return counts.copies()


@frozen
class _Counts:
    """The number of elements that are copied to and from each pair of parameters."""

    _counts: dict[tuple[str, str], int | None] = field(
        factory=dict[tuple[str, str], int | None]
    )

    def add(self, target: str, source: str, count: int | None) -> None:
        before = self._counts.get((target, source), 0)
        known = None if count is None or before is None else before + count
        self._counts[target, source] = known

    def copies(self) -> tuple[KernelCopy, ...]:
        return tuple(
            KernelCopy(target, source, count)
            for (target, source), count in self._counts.items()
        )


def _copies(nest: Nest, written: Set[str]) -> Iterator[tuple[str, str, int | None]]:
    """Yield where values are copied to and from, and the number of elements if known."""
    computed = {name for each in instructions(nest.body) for name in results(each)}
    constants = {x.result for x in instructions(nest.body) if isinstance(x, Literal)}
    sources: dict[str, str] = {}
    for step in nest.body:
        axes = (*nest.axes, *step.axes) if isinstance(step, InnerLoop) else nest.axes
        for each in step.body if isinstance(step, InnerLoop) else (step,):
            if isinstance(each, Load):
                names = {name for part in each.index for name in symbols_in(part)}
                is_plain = each.mask is None and computed.isdisjoint(names)
                if is_plain and each.buffer not in written:
                    sources[each.result] = each.buffer
            elif isinstance(each, Store) and each.mode is StoreMode.OVERWRITE:
                if each.value in constants:
                    continue
                source = sources.setdefault(each.value, each.buffer)
                yield each.buffer, source, _points(axes, each)


def _points(axes: Iterable[Axis], store: Store) -> int | None:
    """Return the number of elements that a store writes; ``None`` if it is not known."""
    extents = [axis.extent for axis in axes]
    if store.mask is not None or not all(isinstance(each, int) for each in extents):
        return None
    return prod(each for each in extents if isinstance(each, int))
