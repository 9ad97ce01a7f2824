"""Inputs that are of a subclass of tensors are given to a graph as plain tensors.

Dynamo traces what a subclass's ``__torch_function__`` does, so a graph is not to call it
again.  In a first call, a mode of PyTorch's also refuses operators on subclasses.
"""

from typing import Any

import torch

from wrapperir.emit import Loaded, Value

_DISPATCH: Any = "__torch_dispatch__"
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, bool, int, float})


def given_plain_tensors(call: Loaded) -> Loaded:
    """Return ``call`` for inputs that may be of subclasses of tensors."""

    def run(inputs: list[Value]) -> tuple[Value, ...]:
        if not _PLAIN.issuperset(map(type, inputs)):
            inputs[:] = map(_plain, inputs)
        return call(inputs)

    return run


def _plain(value: Value) -> Value:
    """Return a tensor without its subclass, unless that dispatches operators itself."""
    if not isinstance(value, torch.Tensor) or type(value) in _PLAIN:
        return value
    if getattr(type(value), _DISPATCH) is not getattr(torch.Tensor, _DISPATCH):
        return value
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
        plain: torch.Tensor = value.as_subclass(torch.Tensor)
    return plain
