"""PyTorch's C functions that compute operators, found when an emitted program is loaded.

A call of one takes half the time of a call of the operator itself.
"""

import types
from collections.abc import Set
from typing import Any

import torch

_TORCH: Any = torch
_C = _TORCH._C
_MODULES = (torch, _C._nn, _C._linalg, _C._fft, _C._special)
"""Functions in C for operators of ``aten`` of the same names, among others."""
_TENSORS = frozenset({"Tensor", "List[Tensor]"})


def find(operator: Any, positional: int, *keywords: str) -> Any:
    """Return what to call with so many positional arguments and these keywords.

    PyTorch's C functions choose among the overloads of a name.  So one is only returned if
    no other overload takes as many arguments, and if the first argument is a tensor: those
    that make tensors of numbers heed the default device.  Otherwise it is the operator.

    Raises:
        TypeError: ``operator`` is not an operator.
    """
    if not isinstance(operator, _TORCH._ops.OpOverload):
        raise TypeError(f"{operator} is not an operator")
    if not _is_suited(operator) or "self" in keywords:  # functions name it ``input``
        return operator
    packet, given = operator.overloadpacket, frozenset(keywords)
    for other in (getattr(packet, overload) for overload in packet.overloads()):
        # TorchScript has further overloads, which are not dispatched.
        is_other = other is not operator and _C._dispatch_has_kernel(other.name())
        if is_other and _takes(other._schema, positional, given):
            return operator
    for module in _MODULES:
        function = getattr(module, packet.__name__, None)
        if isinstance(function, types.BuiltinFunctionType):
            return function
    return operator


def _is_suited(operator: Any) -> bool:
    """Return whether a C function of the operator's name takes the operator's arguments."""
    schema = operator._schema
    return (
        schema.name.startswith("aten::")
        and not schema.name.startswith("aten::sparse_")  # these functions differ
        and _C._dispatch_has_kernel(operator.name())
        and torch.Tag.generated not in operator.tags  # it has no function
        and bool(schema.arguments)
        and str(schema.arguments[0].type) in _TENSORS
        # A function takes several results as one argument.
        and all(p.name == "out" for p in schema.arguments if p.is_out)
    )


def _takes(schema: Any, positional: int, keywords: Set[str]) -> bool:
    """Return whether a call has an argument for each parameter that needs one."""
    named = [p for p in schema.arguments if not p.kwarg_only]
    left = [*named[positional:], *(p for p in schema.arguments if p.kwarg_only)]
    return (
        positional <= len(named)
        and keywords <= {parameter.name for parameter in left}
        and all(p.has_default_value() or p.name in keywords for p in left)
    )
