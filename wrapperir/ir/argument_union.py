"""One list of arguments, or of parameters, for several kernels that take some of each."""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from attrs import evolve, frozen

from wrapperir.ir.expr import Operation
from wrapperir.ir.fresh_names import Names
from wrapperir.ir.kernel import (
    Access,
    BufferParameter,
    DescriptorParameter,
    RuntimeParameter,
    ScalarParameter,
    TensorParameter,
    runtime_parameters,
)
from wrapperir.ir.line import KernelDefinitionLine

T = TypeVar("T", bound=Hashable)


@frozen
class ArgumentUnion(Generic[T]):
    """The arguments of several calls as one list.

    ``positions`` has a tuple for each call: where its arguments are in ``arguments``.
    """

    arguments: tuple[T, ...]
    positions: tuple[tuple[int, ...], ...]


def argument_union(calls: Sequence[Sequence[T]]) -> ArgumentUnion[T]:
    """Return the shortest list that has each call's arguments, each where it belongs.

    An argument that a call is given twice is there twice; its first, second and so on are
    those of each other call that is given it as often, so no call need have them all.  The
    order is that of the first call; what another adds comes after what it has before it.
    Numbers are the same only where their types are.  Linear in the arguments.
    """
    union: dict[_Key, T] = {}
    following: dict[_Key | None, _Key] = {}
    keyed: list[list[_Key]] = []
    for call in calls:
        seen: dict[object, int] = {}
        keys: list[_Key] = []
        before: _Key | None = None
        for argument in call:
            exact = _exact(argument)
            occurrence = seen[exact] = seen.get(exact, -1) + 1
            key = (exact, occurrence)
            if key not in union:
                union[key] = argument
                after = following.get(before)
                following[before] = key
                if after is not None:
                    following[key] = after
            keys.append(key)
            before = key
        keyed.append(keys)
    order: dict[_Key, int] = {}
    last = following.get(None)
    while last is not None:
        order[last] = len(order)
        last = following.get(last)
    return ArgumentUnion(
        tuple(union[key] for key in order),
        tuple(tuple(order[key] for key in keys) for keys in keyed),
    )


_Key = tuple[object, int]
"""An argument, and how often the call was given it before."""


def _exact(argument: object) -> object:
    """Return a key that two arguments share only if no kernel can tell them apart."""
    if isinstance(argument, float):
        return (float, repr(argument))  # tells 0.0 from -0.0, and finds nan again
    if isinstance(argument, Operation):
        return (argument.op, *map(_exact, argument.args))
    return (argument.__class__, argument)


def union_parameters(
    kernels: Sequence[KernelDefinitionLine], positions: Sequence[Sequence[int]]
) -> tuple[RuntimeParameter, ...]:
    """Return the parameters of a multi-kernel of these kernels.

    ``positions`` say for each kernel which place each of its runtime parameters has in the
    result; every place is taken.  A place has the name that the first kernel there gave it,
    with a number after it where another place has that name, and the access of all: what
    some kernel reads and some kernel writes is read and written.

    Raises:
        ValueError: two kernels have parameters of other kinds, element types or blocks in
            one place.
    """
    merged: dict[int, RuntimeParameter] = {}
    givers: dict[int, str] = {}
    for kernel, places in zip(kernels, positions, strict=True):
        own = runtime_parameters(kernel.parameters)
        for parameter, place in zip(own, places, strict=True):
            first = givers.setdefault(place, kernel.name)
            known = merged.get(place, parameter)
            merged[place] = _merged(known, parameter, (first, kernel.name))
    names = Names(parameter.name for parameter in merged.values())
    taken: set[str] = set()
    found: list[RuntimeParameter] = []
    for _, parameter in sorted(merged.items()):
        name = parameter.name
        if name in taken:
            name = names.new(None, f"{name}_")
        taken.add(name)
        found.append(evolve(parameter, name=name))
    return tuple(found)


def _merged(
    left: RuntimeParameter, right: RuntimeParameter, kernels: tuple[str, str]
) -> RuntimeParameter:
    if isinstance(left, TensorParameter) and isinstance(right, TensorParameter):
        access = left.access if left.access is right.access else Access.READ_WRITE
        left, right = evolve(left, access=access), evolve(right, access=access)
    if evolve(right, name=left.name) != left:
        raise ValueError(
            f"the parameter {left.name} of @{kernels[0]} is {_described(left)}, but "
            f"{right.name} of @{kernels[1]}, in its place, is {_described(right)}"
        )
    return left


def _described(parameter: RuntimeParameter) -> str:
    dtype = parameter.dtype.value
    match parameter:
        case ScalarParameter():
            return f"the scalar {dtype}"
        case BufferParameter():
            return f"a buffer of {dtype}"
        case DescriptorParameter(block=block):
            return f"a descriptor of blocks {block} of {dtype}"
