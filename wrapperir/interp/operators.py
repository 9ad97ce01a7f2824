"""Operators registered with PyTorch's dispatcher, by name."""

from typing import TypeAlias, cast

import torch
from torch._ops import OpOverload, OpOverloadPacket

from wrapperir.ir.identifier import is_operator
from wrapperir.ir.line import BufferRef, ExternKernelLine
from wrapperir.ir.mentions import buffers_in

Operator: TypeAlias = "OpOverload[..., object]"

_METADATA_ONLY = frozenset(
    {
        "empty_like",
        "full_like",
        "new_empty",
        "new_empty_strided",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones_like",
        "rand_like",
        "randint_like",
        "randn_like",
        "zeros_like",
    }
)


_DUNDER_OPERATORS = frozenset(
    f"__{inplace}{name}__"
    for inplace in ("", "i")
    for name in ("and", "or", "xor", "lshift", "rshift")
)
"""Operators that PyTorch names as Python names its own."""


class UnknownOperatorError(LookupError):
    """No operator of that name is registered."""


def resolve_operator(name: str) -> Operator:
    """Return the operator of a name such as ``aten.mm.out``.

    Raises:
        UnknownOperatorError: it is not registered; the message says what is missing.
    """
    parts = name.split(".") if is_operator(name) else []
    if len(parts) != 3 or any(
        part.startswith("__") and part not in _DUNDER_OPERATORS for part in parts
    ):
        raise UnknownOperatorError(f"{name!r} is not namespace.operator.overload")
    namespace, operator, overload = parts
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
    return cast(Operator, found)


def names_read(line: ExternKernelLine, operator: Operator) -> tuple[str, ...]:
    """Return the names whose bytes the call surely reads.

    Names it also writes may be written only (``out``), names its result may alias may
    be viewed only, and some operators look at sizes alone.
    """
    name = line.operator.split(".")[1]
    if name in _METADATA_ONLY:
        return ()
    spared = {*line.writes, *line.aliases}
    values = (*line.arguments, *(value for _, value in line.keywords))
    names = (name for value in values for name in buffers_in(value))
    return tuple(dict.fromkeys(name for name in names if name not in spared))


def undeclared_writes(line: ExternKernelLine, operator: Operator) -> tuple[str, ...]:
    """Return the arguments that the schema says are written and ``writes`` lacks."""
    schema = operator._schema.arguments  # pyright: ignore[reportPrivateUsage]
    keywords = dict(line.keywords)
    missing: list[str] = []
    for position, parameter in enumerate(schema):
        alias = parameter.alias_info
        if alias is None or not alias.is_write:
            continue
        if position < len(line.arguments) and not parameter.kwarg_only:
            argument = line.arguments[position]
        else:
            argument = keywords.get(parameter.name)
        if isinstance(argument, BufferRef | tuple):
            names = buffers_in(argument)
            missing.extend(name for name in names if name not in line.writes)
    return tuple(missing)
