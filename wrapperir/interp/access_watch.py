"""Checks the accesses of a running Triton kernel against the memory of its arguments."""

from collections.abc import Sequence

import numpy as np
from attrs import define

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError
from wrapperir.interp.storage import Storage
from wrapperir.interp.values import TensorValue
from wrapperir.ir import KernelDefinitionLine, TensorParameter, runtime_parameters
from wrapperir.kernels.triton_builder import Array


@define(eq=False)
class _Region:
    """Memory that arguments share; ``tracked`` is the storage with a map, if one has."""

    start: int
    end: int
    writable: bool
    tracked: Storage | None


class AccessWatch:
    """Checks each access against the memory of a launch's arguments."""

    def __init__(self) -> None:
        self._regions: dict[int, _Region] = {}
        self._ordered: list[_Region] = []
        self._starts = np.zeros(0, dtype=np.uint64)
        self._ends = np.zeros(0, dtype=np.uint64)

    def add(self, storage: Storage, writable: bool) -> None:
        """Admit accesses to a storage."""
        if storage.nbytes == 0:
            return  # what has no bytes may lie at the address of another
        key = storage.memory.data_ptr()
        start = key + storage.base
        end = start + storage.nbytes
        tracked = None if storage.written is None else storage
        region = self._regions.setdefault(key, _Region(start, end, writable, tracked))
        region.start = min(region.start, start)
        region.end = max(region.end, end)
        region.writable |= writable

    def close(self) -> None:
        """End adding."""
        self._ordered = sorted(self._regions.values(), key=lambda region: region.start)
        self._starts = np.array([r.start for r in self._ordered], dtype=np.uint64)
        self._ends = np.array([r.end for r in self._ordered], dtype=np.uint64)

    def read(self, addresses: Array, itemsize: int) -> None:
        """Check that the bytes were written."""
        for region, active in self._located(addresses, itemsize):
            if region.tracked is None or region.tracked.written is None:
                continue
            written = region.tracked.written.numpy()
            offsets = (active - np.uint64(region.start)).astype(np.int64)
            if not all(written[offsets + byte].all() for byte in range(itemsize)):
                message = "a kernel reads bytes that nothing wrote"
                raise FaultError(Code.RUN_UNINITIALIZED_READ, message)

    def write(self, addresses: Array, itemsize: int) -> None:
        """Check that writing is declared; note it."""
        for region, active in self._located(addresses, itemsize):
            if not region.writable:
                message = "a kernel writes through a parameter declared read"
                raise FaultError(Code.RUN_READ_ONLY, message)
            if region.tracked is None or region.tracked.written is None:
                continue
            written = region.tracked.written.numpy()
            offsets = (active - np.uint64(region.start)).astype(np.int64)
            for byte in range(itemsize):
                written[offsets + byte] = 1

    def _located(self, addresses: Array, itemsize: int) -> list[tuple[_Region, Array]]:
        """Return each region touched, with the addresses touched in it."""
        if addresses.size == 0:
            return []
        places = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        if (places < 0).any() or (
            addresses + np.uint64(itemsize) > self._ends[np.maximum(places, 0)]
        ).any():
            message = "a kernel touches memory outside the storages of its arguments"
            raise FaultError(Code.RUN_ACCESS_OUT_OF_BOUNDS, message)
        return [(self._ordered[p], addresses[places == p]) for p in np.unique(places)]


def watch_of(kernel: KernelDefinitionLine, arguments: Sequence[object]) -> AccessWatch:
    """Return a watch that admits accesses to the arguments of a call."""
    watch = AccessWatch()
    parameters = runtime_parameters(kernel.parameters)
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(parameter, TensorParameter) and isinstance(argument, TensorValue):
            watch.add(argument.storage, parameter.access.writes)
    watch.close()
    return watch
