"""Overloads of operators that write into given memory, found in PyTorch's registry."""

from functools import cache
from importlib.util import find_spec

from attrs import frozen

from wrapperir.ir import is_operator
from wrapperir.operators.effects import may_leave_out
from wrapperir.operators.registry import (
    UnknownOperatorError,
    find_overload,
    split_operator,
)
from wrapperir.operators.schema import Parameter, Schema, find_schema, schema_of

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
    try:
        namespace, name, _ = split_operator(operator)
        found = find_overload(operator) if namespace == "aten" else None
    except UnknownOperatorError:
        return None
    if found is None or name in _RESIZE_OUT or {tag.name for tag in found.tags} & _UNSUITED:
        return None
    schema = schema_of(found)
    if not schema.is_functional:
        return None
    outs: list[OutOverload] = []
    for overload in found.overloadpacket.overloads():
        candidate = f"{namespace}.{name}.{overload}"
        keywords = _outs(schema, find_schema(candidate))
        if keywords and _has_kernel(candidate, device):
            outs.append(OutOverload(candidate, keywords))
    return outs[0] if len(outs) == 1 else None


@cache
def is_pointwise(operator: str, device: str) -> bool:
    """Say whether ``operator`` may write to ``out`` what it reads from there.

    ``operator`` is a name such as ``aten.add.out``: each element of its result is made of
    those at the same place of its arguments, by a kernel of this kind of device.
    """
    if not is_operator(operator) or find_spec("torch") is None:
        return False
    import torch

    try:
        found = find_overload(operator) if operator.startswith("aten.") else None
    except UnknownOperatorError:
        return False
    if found is None or torch.Tag.pointwise not in found.tags:
        return False
    outs = [parameter for parameter in schema_of(found).parameters if parameter.is_out]
    return len(outs) == 1 and _has_kernel(operator, device)


def _outs(functional: Schema, out: Schema) -> tuple[str, ...]:
    """Return the keywords that results are written to; none if ``out`` is another."""
    written = [parameter.name for parameter in out.parameters if parameter.is_out]
    same = [_given(parameter) for parameter in out.parameters if not parameter.is_out]
    if same != [_given(parameter) for parameter in functional.parameters]:
        return ()
    return tuple(written) if len(written) == len(functional.results) else ()


def _given(parameter: Parameter) -> tuple[object, ...]:
    default = repr(parameter.default), parameter.odd_default, parameter.has_default
    return parameter.name, parameter.type, parameter.keyword_only, default


def _has_kernel(operator: str, device: str) -> bool:
    from torch import _C  # pyright: ignore[reportPrivateUsage]

    name = operator.replace(".", "::", 1)
    try:
        key = _C._dispatch_key_for_device(device)  # pyright: ignore[reportPrivateUsage]
        return _C._dispatch_has_kernel_for_dispatch_key(name, key)  # pyright: ignore[reportPrivateUsage]
    except RuntimeError:
        return False
