"""Operators by name, as they are registered with PyTorch's dispatcher."""

from typing import TYPE_CHECKING, TypeAlias, cast

from wrapperir.ir import is_operator

if TYPE_CHECKING:
    from torch._ops import OpOverload

    Operator: TypeAlias = OpOverload[..., object]

_DUNDER_OPERATORS = frozenset(
    f"__{inplace}{name}__"
    for inplace in ("", "i")
    for name in ("and", "or", "xor", "lshift", "rshift")
)
"""Operators that PyTorch names as Python names its own; other such names are Python's."""


class UnknownOperatorError(LookupError):
    """No operator of that name is registered; the message says what is missing."""


def split_operator(name: str) -> tuple[str, str, str]:
    """Return namespace, operator and overload of a name such as ``aten.mm.out``.

    Raises:
        UnknownOperatorError: the dispatcher can have no such name.
    """
    parts = name.split(".") if is_operator(name) else []
    hidden = any(part.startswith("__") and part not in _DUNDER_OPERATORS for part in parts)
    if len(parts) != 3 or hidden:
        raise UnknownOperatorError(f"{name[:80]!a} is not namespace.operator.overload")
    namespace, operator, overload = parts
    return namespace, operator, overload


def find_overload(name: str) -> "Operator":
    """Return the operator of a name such as ``aten.mm.out``.

    Raises:
        UnknownOperatorError: it is not registered.
    """
    import torch  # loaded late: naming operators needs none
    from torch._ops import OpOverload, OpOverloadPacket

    namespace, operator, overload = split_operator(name)
    try:
        packet: object = getattr(getattr(torch.ops, namespace), operator)
    except (AttributeError, RuntimeError):
        packet = None
    if not isinstance(packet, OpOverloadPacket):
        raise UnknownOperatorError(f"PyTorch has no operator {namespace}.{operator}")
    found: object = getattr(cast(object, packet), overload, None)
    if not isinstance(found, OpOverload):
        message = f"{namespace}.{operator} has no overload {overload}"
        raise UnknownOperatorError(message)
    return cast("Operator", found)
