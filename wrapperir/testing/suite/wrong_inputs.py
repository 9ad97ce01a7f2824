"""The wrong-input probe: code given a wrong input raises an error and changes no memory."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from wrapperir import ir as wir
from wrapperir.emit import Loaded, Value
from wrapperir.testing.inputs import example_inputs

if TYPE_CHECKING:
    import torch

Wrong = tuple[str, list[object]]
"""A list of inputs that a program must refuse, and what is wrong with it."""


def wrong_inputs(program: wir.Program, seed: int) -> Iterator[Wrong]:
    """Yield lists of inputs that a program must refuse, each with one thing wrong."""
    inputs = example_inputs(program, seed)
    for index, item in enumerate(program.inputs):
        changed: list[tuple[str, object]] = []
        if isinstance(item.type, wir.TensorType):
            changed = [*_wrong_tensors(item.type, _tensor(inputs[index]))]
        elif isinstance(item.type, wir.ScalarType):
            changed = [("text in place of a number", "text"), ("nothing", None)]
        for what, value in changed:
            given: list[object] = [*example_inputs(program, seed)]
            given[index] = value
            yield f"%{item.name} with {what}", given
    if inputs:
        yield "one input too few", [*inputs[:-1]]
    yield "one input too many", [*inputs, inputs[0] if inputs else 0]


def _wrong_tensors(
    type: wir.TensorType, tensor: "torch.Tensor"
) -> Iterator[tuple[str, Value]]:
    import torch

    other = torch.float64 if tensor.dtype is not torch.float64 else torch.float32
    yield f"elements of {str(other).removeprefix('torch.')}", tensor.to(other)
    yield "another rank", tensor.unsqueeze(0)
    # On a device without memory: what reads its address finds none.
    yield "another device", tensor.to("meta")
    yield "a number in place of a tensor", 1
    yield "nothing in place of a tensor", None
    dims = [dim for dim, size in enumerate(type.size) if isinstance(size, int) and size > 1]
    if dims:
        yield "a smaller size", tensor.narrow(dims[0], 0, tensor.shape[dims[0]] - 1)
        larger = torch.cat([tensor, tensor], dims[-1])
        yield "a larger size", larger
    steps = [dim for dim in dims if isinstance(type.stride[dim], int)]
    if steps:
        wide = torch.cat([tensor, tensor], steps[-1])
        every_second = [slice(None)] * tensor.ndim
        every_second[steps[-1]] = slice(None, None, 2)
        yield "another stride", wide[tuple(every_second)]


def refusal_fault(
    loaded: Loaded, given: list[object], constants: Sequence["torch.Tensor"]
) -> str | None:
    """Return what is wrong with the refusal of wrong inputs, ``None`` if nothing is.

    All memory that inputs and constants are in, around them too, must keep its bytes.
    """
    import torch

    tensors = [value for value in (*given, *constants) if isinstance(value, torch.Tensor)]
    known = [t for t in tensors if t.device.type != "meta"]
    before = [_bytes_of(tensor) for tensor in known]
    raised = _raises(lambda: loaded(cast(list[Value], list(given))))
    for tensor, old in zip(known, before, strict=True):
        if not torch.equal(_bytes_of(tensor), old):
            return "memory was changed"
    return None if raised else "no error was raised"


def _raises(call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception:  # which error it is, is the emitter's own
        return True
    return False


def _bytes_of(tensor: "torch.Tensor") -> "torch.Tensor":
    """Return a copy of all bytes of a tensor's storage."""
    import torch

    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    return whole.clone()


def _tensor(value: Value) -> "torch.Tensor":
    import torch

    assert isinstance(value, torch.Tensor)
    return value
