"""Operators' overloads that write into given memory, found in PyTorch's registry."""

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from attrs import frozen

from wrapperir.ir.identifier import is_operator
from wrapperir.passes.operator_effects import may_leave_out

if TYPE_CHECKING:
    from torch import Argument, FunctionSchema

_UNSUITED = frozenset({"dynamic_output_shape", "nondeterministic_seeded"})
"""Tags of operators whose result's size depends on data, or that draw numbers.

Where the declared size were wrong, memory given as ``out`` would be resized.
"""

_RESIZE_OUT = frozenset(
    {"binary_cross_entropy", "huber_loss", "mse_loss", "smooth_l1_loss"}
)
"""Losses that resize ``out`` to hold their result before its reduction."""


@frozen
class OutOverload:
    """An operator that writes its results: its name, and a keyword for each result."""

    operator: str
    keywords: tuple[str, ...]


@cache
def find_out_overload(operator: str, device: str) -> OutOverload | None:
    """Return what computes the same as ``operator`` into memory that it is given.

    ``operator`` is a name such as ``aten.cumsum.default``, ``device`` a kind such as
    ``cpu``.  Only a kernel of that device counts: the overloads that PyTorch derives
    from functional operators compute a result of their own and copy it.  There is none
    for random operators, for those that have effects, and where torch is not installed.
    """
    if not is_operator(operator) or not may_leave_out(operator):
        return None
    if find_spec("torch") is None:
        return None
    namespace, name, overload = operator.split(".")
    if namespace != "aten" or name in _RESIZE_OUT:
        return None
    import torch

    packet = getattr(torch.ops.aten, name, None)
    function = getattr(packet, overload, None)
    if packet is None or function is None:
        return None
    schema: FunctionSchema = function._schema
    tags = {tag.name for tag in function.tags}
    if tags & _UNSUITED or not _is_functional(schema):
        return None
    found: list[OutOverload] = []
    for candidate in packet.overloads():
        outs = _outs(schema, getattr(packet, candidate)._schema)
        if outs and _has_kernel(f"{namespace}::{name}.{candidate}", device):
            found.append(OutOverload(f"{namespace}.{name}.{candidate}", outs))
    return found[0] if len(found) == 1 else None


@cache
def is_pointwise(operator: str, device: str) -> bool:
    """Say whether ``operator`` may write to ``out`` what it reads from there.

    ``operator`` is a name such as ``aten.add.out``: each element of its result is made of
    those at the same place of its arguments, by a kernel of this kind of device.
    """
    if not is_operator(operator) or find_spec("torch") is None:
        return False
    namespace, name, overload = operator.split(".")
    if namespace != "aten":
        return False
    import torch

    function = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if function is None or torch.Tag.pointwise not in function.tags:
        return False
    outs = [argument for argument in function._schema.arguments if argument.is_out]
    return len(outs) == 1 and _has_kernel(f"{namespace}::{name}.{overload}", device)


def _is_functional(schema: "FunctionSchema") -> bool:
    """Say whether nothing is written, and all results are new tensors."""
    return (
        bool(schema.returns)
        and all(argument.alias_info is None for argument in schema.arguments)
        and all(
            result.alias_info is None and str(result.type) == "Tensor"
            for result in schema.returns
        )
    )


def _outs(functional: "FunctionSchema", out: "FunctionSchema") -> tuple[str, ...]:
    """Return the keywords that results are written to; none if ``out`` is another."""
    written = [argument for argument in out.arguments if argument.is_out]
    same = [_signature(argument) for argument in out.arguments if not argument.is_out]
    if same != [_signature(argument) for argument in functional.arguments]:
        return ()
    if len(written) != len(functional.returns):
        return ()
    return tuple(argument.name for argument in written)


def _signature(argument: "Argument") -> tuple[object, ...]:
    default = repr(argument.default_value) if argument.has_default_value() else None
    return (argument.name, str(argument.type), argument.kwarg_only, default)


def _has_kernel(name: str, device: str) -> bool:
    from torch import _C  # pyright: ignore[reportPrivateUsage]

    try:
        key = _C._dispatch_key_for_device(device)  # pyright: ignore[reportPrivateUsage]
        return _C._dispatch_has_kernel_for_dispatch_key(name, key)  # pyright: ignore[reportPrivateUsage]
    except RuntimeError:
        return False
