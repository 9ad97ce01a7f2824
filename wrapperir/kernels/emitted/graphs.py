# PyTorch's private functions carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
"""Regions of an emitted program that are recorded as CUDA graphs and replayed.

The first call with certain numbers runs the block, the second one records it, and later
ones replay the recording; graphs.cpp replays.  The memory of a block comes from a pool that
all recordings for a stream share: nothing in it is needed after the block, whose results
are copied to new tensors of each call.  A region that cannot be recorded runs its block.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import torch

RegionFunction: TypeAlias = Callable[..., Any]
"""Takes tensors, then numbers, and returns a tuple of results, or ``None``."""

_HERE = Path(__file__).parent
_MOST_SEEN = 256  # combinations of numbers that are remembered, beside those recorded
_ATTEMPTS = 3


_native_module: Any = ModuleType("native_module")
SourceFileLoader("native_module", str(_HERE / "native_module.py")).exec_module(
    _native_module
)
_captures = _native_module.import_beside(Path(__file__), "graph_captures")
side_stream = _captures.side_stream


@cache
def _native() -> Any:
    """Return the extension module; ``None`` where it cannot be compiled."""
    if not torch.cuda.is_available() or torch.version.hip is not None:
        return None
    headers = "recording.h", "driver_functions.h"
    return _native_module.build(_HERE / "graphs.cpp", *headers)


def region(
    block: RegionFunction,
    *,
    tensors: int,
    numbers: int,
    written: Sequence[int],
    device: int,
    recordings: int,
    groups: Sequence[str] = (),
    fixed: Sequence[int] = (),
) -> RegionFunction:
    """Return a function like ``block`` that records it, and replays it.

    ``written`` are the positions of the tensors that the block writes; at most
    ``recordings`` are kept, the last used ones.  ``groups`` are the process groups of its
    collectives, which get the tensors at ``fixed``: replays copy them, as the recorded
    addresses of collectives cannot be changed.
    """
    native_module = _native()
    if native_module is None:
        return block
    recorder = Recorder(
        block, tensors, frozenset(written), device, groups, frozenset(fixed)
    )
    native: RegionFunction = native_module.Region(
        block, recorder.run, tensors, numbers, device, recordings
    )
    recorder.native = native
    return native


class Recorder:
    """Records a block when a combination of its numbers comes a second time."""

    native: Any

    def __init__(
        self,
        block: RegionFunction,
        tensors: int,
        written: frozenset[int],
        device: int,
        groups: Sequence[str] = (),
        fixed: frozenset[int] = frozenset(),
    ) -> None:
        """Take the block, and what :func:`region` is given."""
        self.block = block
        self.tensors = tensors
        self.written = written
        self.device = device
        self.groups = groups
        self.fixed = fixed
        self._is_said = False
        # By key: the plain calls that are left, and how many the last recording took.
        self.seen: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        self.copied: dict[bytes, frozenset[int]] = {}
        self.failed: set[bytes] = set()
        _captures.recorders.add(self)

    def drop_recordings(self) -> None:
        """Drop what was recorded; later calls record it again."""
        self.native.drop_recordings()

    def run(
        self, arguments: tuple[Any, ...], key: bytes, to_copy: tuple[int, ...], stream: int
    ) -> Any:
        """Run the block, or record and replay it.

        ``to_copy`` are positions of tensors that a replay copies from now on.
        """
        if key in self.failed or not (to_copy or self._is_due(key)):
            return self.block(*arguments)
        copied = self.copied.get(key, self.fixed).union(to_copy)
        try:
            self._record(arguments, key, copied, stream)
        except Exception as error:
            self._report(key, error)
        else:
            self.copied[key] = copied
            return self.native(*arguments)
        return self.block(*arguments)  # the error, which holds what was captured, is gone

    def _report(self, key: bytes, error: Exception) -> None:
        """Warn of the first failure; a key that failed is not recorded again."""
        self.failed.add(key)
        if self._is_said:
            return
        self._is_said = True
        cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
        message = f"{self.block.__name__} is not replayed as a graph: {cause}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)

    def _is_due(self, key: bytes) -> bool:
        """Return whether a key is recorded now: after a drop, twice as late as before."""
        left, taken = self.seen.pop(key, (1, 1))
        self.seen[key] = (left - 1, taken) if left else (2 * taken, 2 * taken)
        if len(self.seen) > _MOST_SEEN:
            old, _ = self.seen.popitem(last=False)
            self.copied.pop(old, None)
            self.failed.discard(old)
        return not left

    def _record(
        self, arguments: tuple[Any, ...], key: bytes, copied: frozenset[int], stream: int
    ) -> None:
        for group in self.groups:
            _require_nccl(group, self.device)
        with _captures.recording(self.device, stream) as pool:
            self._record_in(pool, arguments, key, copied)

    def _record_in(
        self, pool: Any, arguments: tuple[Any, ...], key: bytes, copied: frozenset[int]
    ) -> None:
        given, numbers = list(arguments[: self.tensors]), arguments[self.tensors :]
        memory = {position: self._copy_of(position, given[position]) for position in copied}
        work = _Work(self.block, numbers, memory, self.written & copied)
        again = self._capture(work, given, (), pool)
        make = _maker(again.results)
        del again  # its results, whose memory later captures get
        targets = [x for x in make() if isinstance(x, torch.Tensor)] if make else []
        operands = [*given, *targets]
        displaced, _room = _captures.displace(operands, self.device)
        written = self.written.union(range(self.tensors, len(operands)))
        places = tuple(
            (
                *_addresses(operand),
                moved.data_ptr(),
                _bytes(operand),
                i in written,
                i in copied,
            )
            for i, (operand, moved) in enumerate(zip(operands, displaced, strict=True))
        )
        # While the pool grows, each capture has its memory at other addresses.
        for attempt in range(_ATTEMPTS):
            # Other objects, so that what depends on objects is not taken for an address.
            aliases = [tensor.detach() for tensor in operands]
            again, captured, moved = (
                self._capture(work, x[: self.tensors], x[self.tensors :], pool).graph
                for x in (operands, aliases, displaced)
            )
            is_last = attempt == _ATTEMPTS - 1
            graphs, held = (captured, again, moved), (pool, memory)
            if self.native.add(key, *graphs, places, is_last, make, held):
                break

    def _copy_of(self, position: int, tensor: torch.Tensor) -> torch.Tensor:
        """Return memory for a tensor that replays copy."""
        if position in self.written and _bytes(tensor) != tensor.numel() * tensor.itemsize:
            raise ValueError("it writes an operand with gaps, which cannot be copied")
        layout = tensor.shape, tensor.stride()
        return torch.empty_strided(*layout, dtype=tensor.dtype, device=tensor.device)

    def _capture(
        self,
        work: "_Work",
        tensors: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor],
        pool: Any,
    ) -> Any:
        """Capture the work with tensors and targets at some addresses."""
        return _captures.capture(_native(), work.run, [tensors, targets], pool)


class _Work(NamedTuple):
    """A block, and the copies around it.

    ``memory`` has the copies of tensors by position; those of ``written`` are copied back.
    """

    block: RegionFunction
    numbers: Sequence[Any]
    memory: Mapping[int, torch.Tensor]
    written: Collection[int]

    def run(self, tensors: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> Any:
        """Run the block, and copy the tensors among its results to targets."""
        given = list(tensors)
        for position, own in self.memory.items():
            _copy_bytes(own, tensors[position])
            given[position] = own
        results = self.block(*given, *self.numbers)
        for position in self.written:
            _copy_bytes(tensors[position], self.memory[position])
        if targets:
            found = [x for x in results if isinstance(x, torch.Tensor)]
            _copy_all(targets, found)
        return results


def _require_nccl(group: str, device: int) -> None:
    """Check that a group's collectives are work of a stream, which a graph can have.

    Raises:
        ValueError: the group has another backend for GPUs, or none.
    """
    c10d: Any = torch.distributed.distributed_c10d
    name = None
    with suppress(RuntimeError):
        found = c10d._resolve_process_group(group)
        name = found._get_backend(torch.device("cuda", device)).name()
    if name != "nccl":
        raise ValueError(f"the collectives of group {group!r} are not NCCL's")


def _copy_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copy tensors to others of the same layouts, those of one element size together."""
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    together: dict[torch.dtype, list[tuple[torch.Tensor, torch.Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        if source.is_complex() or source.is_neg():
            target.copy_(source)
            continue
        dtype = integers[source.itemsize]
        together.setdefault(dtype, []).append((target.view(dtype), source.view(dtype)))
    for pairs in together.values():
        to, of = zip(*pairs, strict=True)
        torch._foreach_copy_(to, of)  # pyright: ignore[reportPrivateImportUsage]


def _copy_bytes(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy from a tensor's first element to the end of its last, with what is between."""
    if size := _bytes(source):
        _as_bytes(target, size).copy_(_as_bytes(source, size))


def _as_bytes(tensor: torch.Tensor, size: int) -> torch.Tensor:
    storage = tensor.untyped_storage()
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(storage, tensor.data_ptr() - storage.data_ptr(), (size,), (1,))


def _addresses(tensor: torch.Tensor) -> tuple[int, int, int]:
    """Return the address of a tensor, and the address and bytes of its storage."""
    storage = tensor.untyped_storage()
    return tensor.data_ptr(), storage.data_ptr(), storage.nbytes()


def _bytes(tensor: torch.Tensor) -> int:
    """Return the bytes from a tensor's first element to the end of its last."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((count - 1) * step for count, step in steps)
    return (last + 1) * tensor.itemsize if tensor.numel() else 0


def _maker(
    results: Sequence[Any] | None,
) -> Callable[[], tuple[Any, ...]] | None:
    """Return a function that makes tensors for results; numbers are as recorded."""
    if not results:
        return None
    layouts = [
        (tuple(x.shape), x.stride(), x.dtype) if isinstance(x, torch.Tensor) else x
        for x in results
    ]
    # On the current device, which is the region's.
    functions: Any = torch._C
    allocate = functions._dynamo.guards._empty_strided_cuda

    def make() -> tuple[Any, ...]:
        return tuple([allocate(*x) if isinstance(x, tuple) else x for x in layouts])

    return make
