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
    namespace, _, name = operator._schema.name.partition("::")
    if namespace != "aten" or not _is_of_tensors(operator._schema):
        return operator
    if torch.Tag.generated in operator.tags:  # it has no binding
        return operator
    if any(p.is_out and p.name != "out" for p in operator._schema.arguments):
        return operator  # the function takes several results as one ``out``
    packet = operator.overloadpacket
    others = [getattr(packet, o) for o in packet.overloads() if o != "hacked_twin"]
    given = frozenset(keywords)
    for schema in (other._schema for other in others if other is not operator):
        if _is_of_tensors(schema) and _takes(schema, positional, given):
            return operator
    for module in _MODULES:
        function = getattr(module, name, None)
        if isinstance(function, types.BuiltinFunctionType):
            return function
    return operator


def _is_of_tensors(schema: Any) -> bool:
    """Return whether the first argument is tensors; TorchScript has others for numbers."""
    return bool(schema.arguments) and str(schema.arguments[0].type) in _TENSORS


def _takes(schema: Any, positional: int, keywords: Set[str]) -> bool:
    """Return whether a call has an argument for each parameter that needs one."""
    named = [p for p in schema.arguments if not p.kwarg_only]
    left = [*named[positional:], *(p for p in schema.arguments if p.kwarg_only)]
    return (
        positional <= len(named)
        and keywords <= {parameter.name for parameter in left}
        and all(p.has_default_value() or p.name in keywords for p in left)
    )
