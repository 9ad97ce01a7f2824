"""Effects of operators that schemas do not say, and overloads that write given memory."""

from functools import cache
from importlib.util import find_spec

from attrs import frozen

from wrapperir.ir import is_operator
from wrapperir.ir.recordable_operators import RANDOM_OPERATORS
from wrapperir.operators.schema import (
    Schema,
    SchemaParameter,
    UnknownOperatorError,
    find_overload,
    find_schema,
    schema_of,
    split_operator,
)

REMOVABLE_NAMESPACES = frozenset({"aten", "prims"})
"""Operators of other namespaces may do anything, so they stay."""

# Check something, or order such checks, and return a token.
_CHECK = """
_functional_assert_async _functional_assert_scalar _functional_sym_constrain_range
_functional_sym_constrain_range_for_size _make_dep_token _make_token
"""

UPDATE_STATISTICS = frozenset(
    [
        "_batch_norm_impl_index",
        "batch_norm",
        "cudnn_batch_norm",
        "instance_norm",
        "miopen_batch_norm",
        "native_batch_norm",
    ]
)
"""Operators of aten that, in training, change running statistics that are arguments."""

# Leaving out an operator that draws random numbers changes later numbers.
_STAY = RANDOM_OPERATORS | frozenset(_CHECK.split()) | UPDATE_STATISTICS


def may_leave_out(operator: str) -> bool:
    """Say whether a call whose result nothing uses may be left out.

    ``operator`` is a name with or without overload, such as ``aten.mm.default``.  The
    call is one that declares no writes and has a result.
    """
    namespace, _, name = operator.partition(".")
    return namespace in REMOVABLE_NAMESPACES and name.partition(".")[0] not in _STAY


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
    """Return the overload of ``operator`` that writes its results to given memory.

    ``operator`` is a name such as ``aten.cumsum.default``, ``device`` a kind such as
    ``cpu``.  Only a kernel of that device counts: the overloads that PyTorch derives
    from functional operators compute a new result and copy it.  ``None`` for random
    operators, for operators with effects, and if torch is not installed.
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
    """Say whether the ``out`` of ``operator`` may be one of its arguments.

    ``operator`` is a name such as ``aten.add.out``: a kernel for this device computes
    each element of its result from the elements at that position of its arguments.
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


def _given(parameter: SchemaParameter) -> tuple[object, ...]:
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
