"""Functions that graphs call besides PyTorch's own: checks, numbers and frees.

They are plain functions, so that a graph that calls them is pickled, printed and traced
again like any other.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx.node import has_side_effect

from wrapperir.emit.assert_messages import format_layout_mismatch, format_range_mismatch
from wrapperir.ir import Expr, ExprOp, Number, Operation
from wrapperir.ir import evaluate as evaluate_expression
from wrapperir.text import parse_expr

_torch: Any = torch  # it has no types for these functions
_check_layout = _torch._C._dynamo.guards.assert_size_stride


@has_side_effect
def free(value: object) -> None:
    """Mark the last use of a value; the graph's code drops it after this."""


@has_side_effect
def whole(number: Number) -> int:
    """Return a number as an int.

    Raises:
        ValueError: it is not whole.
    """
    if isinstance(number, float | torch.SymFloat) and not number.is_integer():
        raise ValueError(f"{number} is not a whole number")
    result: int = _torch.sym_int(number)
    return result


def real(number: Number) -> float:
    """Return a number as a float."""
    result: float = _torch.sym_float(number)
    return result


def truth(number: Number) -> bool:
    """Return whether a number is not zero."""
    return number if isinstance(number, bool | torch.SymBool) else number != 0


@has_side_effect
def given_int(number: int) -> int:
    """Return a number that the caller gave; a float, even a whole one, is a TypeError."""
    if type(number) is int or isinstance(number, torch.SymInt):
        return number
    return int(operator.index(number))


@has_side_effect
def given_bool(number: int) -> bool:
    """Return whether an int that the caller gave is not zero."""
    return given_int(number) != 0


@has_side_effect
def check_range(number: Number, lower: int | None, upper: int | None, name: str) -> Number:
    """Return a symbol's value.

    Raises:
        RuntimeError: it is not in ``lower..upper``.
    """
    if torch.compiler.is_compiling():  # the compiler checks it when the program runs
        if lower is not None:
            _torch._check(number >= lower)
        if upper is not None:
            _torch._check(number <= upper)
        return number
    low = lower is None or lower <= number
    if not (low and (upper is None or number <= upper)):
        raise RuntimeError(format_range_mismatch(name, number, lower, upper))
    return number


@has_side_effect
def call_operator(
    name: str, args: Sequence[object], keywords: Mapping[str, object]
) -> object:
    """Call an operator whose overload or keywords have names that Python reserves.

    The code of a graph cannot name these, such as ``from`` in ``aten.random_.from``.
    """
    target: Any = functools.reduce(getattr, name.split("."), torch.ops)
    return target(*args, **keywords)


def ceildiv(left: Number, right: Number) -> Number:
    """Return the quotient, rounded up."""
    return -(-left // right)


def evaluate(expression: str, symbols: Mapping[str, Number]) -> Number:
    """Return the value of an expression in the syntax of programs.

    For expressions that are evaluated in part only: ``where``, ``and`` and ``or`` with an
    operand that may have no value.

    Raises:
        EvaluationError: a needed operand has no value.
    """
    return evaluate_expression(_parsed(expression), symbols)


@functools.lru_cache(maxsize=1024)
def _parsed(expression: str) -> Expr:
    return parse_expr(expression)


def aligned(
    memory: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], alignment: int
) -> torch.Tensor:
    """Return a view of ``memory`` that begins at a multiple of ``alignment`` bytes.

    ``memory`` has ``alignment`` bytes more than the view needs.
    """
    if torch.compiler.is_compiling():  # no address is known, and memory is the compiler's
        return memory.new_empty_strided(size, stride)
    return _aligned(memory, size, stride, alignment)


def aligned_part(
    memory: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], alignment: int
) -> torch.Tensor:
    """Return an aligned view of memory that is kept from call to call."""
    if torch.compiler.is_compiling():
        return memory.as_strided(size, stride, 0)
    return _aligned(memory, size, stride, alignment)


def _aligned(
    memory: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], alignment: int
) -> torch.Tensor:
    skipped = -memory.data_ptr() % alignment // memory.element_size()
    return memory.as_strided(size, stride, skipped)


@has_side_effect
def empty_symmetric(
    size: tuple[int, ...],
    stride: tuple[int, ...],
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """Return uninitialised memory that the GPUs of a group can share.

    Raises:
        RuntimeError: this build of PyTorch has no symmetric memory.
    """
    from torch._C import _distributed_c10d

    return _distributed_c10d._SymmetricMemory.empty_strided_p2p(size, stride, dtype, device)


@has_side_effect
def assert_size_stride(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], subject: str
) -> None:
    """Check a layout: dimensions of size 1, and tensors without elements, have any stride.

    Raises:
        AssertionError: it is another.
    """
    if torch.compiler.is_compiling():  # strides are the compiler's own
        for dim, extent in enumerate(size):
            _torch._check(tensor.size(dim) == extent)
    else:
        try:
            _check_layout(tensor, size, stride)
        except AssertionError:
            found = tensor.size(), tensor.stride()
            message = format_layout_mismatch(subject, found, (size, stride))
            raise AssertionError(message) from None


def power(base: Number, exponent: Number) -> Number:
    """Return a power, as expressions have it.

    Raises:
        EvaluationError: it is too large, or no real number.
    """
    return evaluate_expression(Operation(ExprOp.POW, (base, exponent)), {})


def shift_left(value: Number, count: Number) -> Number:
    """Return an int with its bits moved up.

    Raises:
        EvaluationError: the count is negative or too large.
    """
    return evaluate_expression(Operation(ExprOp.SHL, (value, count)), {})


def shift_right(value: Number, count: Number) -> int:
    """Return an int with its bits moved down."""
    return int(value) >> int(count)


def bit_and(left: Number, right: Number) -> int:
    """Return the bits that both have."""
    return int(left) & int(right)


def bit_or(left: Number, right: Number) -> int:
    """Return the bits that either has."""
    return int(left) | int(right)


def bit_xor(left: Number, right: Number) -> int:
    """Return the bits in which they differ."""
    return int(left) ^ int(right)


def choose(condition: Number, chosen: Number, other: Number) -> Number:
    """Return ``chosen`` where the condition is not zero, else ``other``."""
    return chosen if condition else other
