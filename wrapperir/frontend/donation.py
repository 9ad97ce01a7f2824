"""Donated inputs of backward programs: saved tensors that nothing else refers to.

AOTAutograd lists the tensors that a forward saves and that are not memory of its inputs, of
its other outputs, or of what the backward returns.  They may still be memory of each other.
"""

import contextlib
from collections.abc import Callable, Generator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import TracingContext

from wrapperir import ir as wir
from wrapperir.analysis import find_storages, program_entry
from wrapperir.frontend.aten.values import lower_type
from wrapperir.ir.line_effects import LineEffects

if TYPE_CHECKING:
    from wrapperir.emit import Loaded, Value

_MOST_STEPS = 2000


def _donated(metadata: Any) -> list[int]:
    """Return the list of donated inputs of a graph's backward, which may be changed."""
    return getattr(metadata, "bw_donated_idxs", None) or []


def _metadata() -> Any:
    context = TracingContext.try_get()
    return None if context is None else context.fw_metadata


def keep_apart(program: wir.Program) -> Sequence[int]:
    """Donate no tensor that a forward program saves as a part of another's elements.

    Return the positions of these among the inputs of the backward.
    """
    metadata = _metadata()
    donated = _donated(metadata)
    if not donated:
        return ()
    skipped = metadata.num_symints_saved_for_bw
    first = metadata.tensors_saved_for_backwards_slice.start - skipped
    found = find_storages(
        program.lines,
        program.outputs,
        program_entry(program),
        LineEffects.of_program(program),
    )
    types = {made.name: made.type for done in found.effects for made in done.definitions}
    holders: dict[int, list[tuple[int, wir.ValueType | None]]] = {}
    for position, output in enumerate(program.outputs):
        if isinstance(output, wir.BufferRef):
            for storage in found.of_name.get(output.name, ()):
                held = (position, types.get(output.name))
                holders.setdefault(id(storage), []).append(held)
    shared: set[int] = set()
    for held_in_one in holders.values():
        for (left, type), (right, other) in combinations(held_in_one, 2):
            if _share_bytes(type, other):
                shared |= {left, right}
    kept = [i for i in donated if first + i in shared]
    donate_less(kept)
    return kept


def donate_less(positions: Sequence[int]) -> None:
    """Do not donate the inputs of the backward at these positions."""
    donated = _donated(_metadata())
    donated[:] = [i for i in donated if i not in positions]


def _share_bytes(left: wir.ValueType | None, right: wir.ValueType | None) -> bool:
    """Say whether views of one storage perhaps have a byte of an element in common."""
    if not isinstance(left, wir.TensorType) or not isinstance(right, wir.TensorType):
        return True
    steps: dict[int, tuple[int, int]] = {}
    gap = 0
    for type, sign in ((left, 1), (right, -1)):
        item = type.dtype.itemsize
        pairs = zip(type.stride, type.size, strict=True)
        for stride, size in ((1, item), *((wir.mul(s, item), n) for s, n in pairs)):
            if not isinstance(stride, int) or not isinstance(size, int):
                return True
            low, high = steps.get(stride, (0, 0))
            most = max(size - 1, 0)
            steps[stride] = (low, high + most) if sign > 0 else (low - most, high)
        if not isinstance(type.offset, int):
            return True
        gap -= sign * type.offset * item
    ranges = [(stride, *steps[stride]) for stride in sorted(steps, reverse=True)]
    return _reaches(gap, ranges, [_MOST_STEPS])


def _reaches(gap: int, ranges: Sequence[tuple[int, int, int]], budget: list[int]) -> bool:
    """Say whether a sum of multiples of strides, each in its range, may be ``gap``."""
    budget[0] -= 1
    if budget[0] < 0:
        return True
    if not ranges:
        return gap == 0
    (stride, low, high), *rest = ranges
    least = sum(step * first for step, first, _ in rest)
    most = sum(step * last for step, _, last in rest)
    if stride == 0:
        return _reaches(gap, rest, budget)
    first = max(low, -(-(gap - most) // stride))
    last = min(high, (gap - least) // stride)
    return any(
        _reaches(gap - count * stride, rest, budget) for count in range(first, last + 1)
    )


def donate_nothing() -> None:
    """Have the backward of the graph that is being compiled write to no saved tensor."""
    _donated(_metadata()).clear()


@contextlib.contextmanager
def donated_inputs(inputs: Sequence[Any]) -> Generator[frozenset[int]]:
    """Yield the positions of a backward's donated inputs, while it is compiled.

    Inductor writes over those that are dense, so only these stay in PyTorch's list.
    Afterwards PyTorch knows of none, so that it does not refuse a backward that retains the
    graph.
    """
    donated = _donated(_metadata())
    all_of_them = frozenset(donated)
    donated[:] = [i for i in donated if _is_dense(inputs[i])]
    try:
        yield all_of_them
    finally:
        donated.clear()


def _is_dense(value: Any) -> bool:
    """Say whether a fake tensor is dense, without a guard on its sizes."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    type = lower_type(value)
    assert isinstance(type, wir.TensorType)
    return wir.is_dense(type)


def retaining(call: "Loaded", donated: Sequence[int]) -> "Loaded":
    """Return a backward that copies donated inputs if autograd keeps the graph."""
    autograd: Any = torch._C._autograd  # pyright: ignore
    keeps: Callable[[], bool] = autograd._get_current_graph_task_keep_graph  # pyright: ignore

    def run(args: "list[Value]") -> "tuple[Value, ...]":
        if keeps():
            for index in donated:
                args[index] = _copy(args[index])
        return call(args)

    return run


def _copy(value: "Value") -> "Value":
    assert isinstance(value, torch.Tensor)
    fresh = torch.empty_strided(
        value.size(), value.stride(), dtype=value.dtype, device=value.device
    )
    return fresh.copy_(value)
