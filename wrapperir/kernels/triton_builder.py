"""The operations of Triton's interpreter, corrected and with watched memory.

Triton's interpreter keeps bf16 and fp8 as raw bits in unsigned arrays, adds and multiplies
those bits as if they were numbers, and truncates where the hardware rounds to the nearest
even.  Here PyTorch widens the bits to f32 and rounds the results.
"""

# ruff: noqa: D102 - the methods are Triton's, and named as there
# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportIncompatibleMethodOverride=false

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

Array = npt.NDArray[Any]

numpy_dtype = functools.cache(interpreter._get_np_dtype)
"""The numpy type that Triton's interpreter keeps a scalar type in."""

_NARROW: Mapping[tl.dtype, torch.dtype] = {
    tl.bfloat16: torch.bfloat16,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
    tl.float8e4b8: torch.float8_e4m3fnuz,
    tl.float8e5b16: torch.float8_e5m2fnuz,
}


def is_narrow(dtype: tl.dtype) -> bool:
    """Say whether arrays of a scalar type hold bits rather than numbers."""
    return dtype in _NARROW


def to_torch(data: Array) -> torch.Tensor:
    """Return a tensor with a copy of the array, which may be read-only or strided."""
    return torch.from_numpy(np.array(data, copy=True))


def widen(data: Array, dtype: tl.dtype) -> Array:
    """Return the numbers of an array of a scalar type; f32 for narrow types."""
    narrow = _NARROW.get(dtype)
    if narrow is None or data.dtype == np.bool_:
        return data
    return to_torch(data).view(narrow).float().numpy()


def round_to(numbers: Array, dtype: tl.dtype) -> Array:
    """Return the bits of numbers rounded to a narrow type, to the nearest even.

    Numbers beyond the range of an fp8 type become its largest, as the hardware's
    saturating conversion does.
    """
    narrow = _NARROW[dtype]
    tensor = to_torch(numbers)
    if not tensor.is_floating_point():
        tensor = tensor.double()
    if narrow is torch.bfloat16:
        return tensor.to(narrow).view(torch.uint16).numpy()
    limit = torch.finfo(narrow).max
    return tensor.clamp(-limit, limit).to(narrow).view(torch.uint8).numpy()


class MemoryWatch(Protocol):
    """Is told of each access of a kernel before it happens; may raise."""

    def read(self, addresses: Array, itemsize: int) -> None:
        """Bytes ``[address, address + itemsize)`` are about to be read."""

    def write(self, addresses: Array, itemsize: int) -> None:
        """Bytes ``[address, address + itemsize)`` are about to be written."""


def _contiguous(value: TensorHandle) -> TensorHandle:
    """Return a value whose array is dense: atomics read that of one row as if it were."""
    return TensorHandle(np.ascontiguousarray(value.data), value.dtype)


def handle(numbers: Array, dtype: tl.dtype) -> TensorHandle:
    """Return numbers as a value of a scalar type, rounded to it where it is narrow."""
    if numbers.dtype == np.bool_:
        return TensorHandle(numbers, tl.int1)
    if is_narrow(dtype):
        return TensorHandle(round_to(numbers, dtype), dtype)
    wanted = numpy_dtype(dtype)
    return TensorHandle(numbers.astype(wanted, copy=False), dtype)


def numbers_of(value: TensorHandle) -> Array:
    """Return the numbers of a value."""
    return widen(value.data, value.dtype.scalar)


class CpuBuilder(InterpreterBuilder):  # type: ignore[misc]
    """Triton's interpreter with bf16 and fp8 arithmetic, rounding, and a memory watch."""

    def __init__(self) -> None:
        """Start without a watch."""
        super().__init__()
        # The overflow checks are computed, then ignored unless debugging.
        self.options: Any = dataclasses.replace(self.options, sanitize_overflow=False)
        self.watch: MemoryWatch | None = None

    def get_bf16(self, value: float) -> TensorHandle:
        return handle(np.array([value], dtype=np.float32), tl.bfloat16)

    def create_masked_load(
        self, ptrs: TensorHandle, mask: TensorHandle, *rest: Any, **options: Any
    ) -> TensorHandle:
        if self.watch is not None:
            dtype = numpy_dtype(ptrs.get_element_ty())
            self.watch.read(_active(ptrs, mask), dtype.itemsize)
        return super().create_masked_load(ptrs, mask, *rest, **options)

    def create_masked_store(
        self, ptrs: TensorHandle, value: TensorHandle, mask: TensorHandle, *rest: Any
    ) -> None:
        wanted = numpy_dtype(ptrs.get_element_ty())
        if value.data.dtype != wanted:  # a comparison's bool for an i8, for instance
            value = TensorHandle(value.data.astype(wanted), ptrs.get_element_ty())
        if self.watch is not None:
            self.watch.write(_active(ptrs, mask), wanted.itemsize)
        super().create_masked_store(ptrs, value, mask, *rest)

    def create_atomic_cas(
        self, ptr: TensorHandle, cmp: TensorHandle, val: TensorHandle, *rest: Any
    ) -> TensorHandle:
        if self.watch is not None:
            self.watch.read(ptr.data.ravel(), val.data.itemsize)
            self.watch.write(ptr.data.ravel(), val.data.itemsize)
        return super().create_atomic_cas(*map(_contiguous, (ptr, cmp, val)), *rest)

    def create_atomic_rmw(
        self, op: Any, ptr: TensorHandle, val: TensorHandle, mask: TensorHandle, *rest: Any
    ) -> TensorHandle:
        if self.watch is not None:
            active = _active(ptr, mask)
            self.watch.read(active, val.data.itemsize)
            self.watch.write(active, val.data.itemsize)
        if is_narrow(val.dtype.scalar):
            return self._narrow_atomic(op, ptr, val, mask)
        return super().create_atomic_rmw(op, *map(_contiguous, (ptr, val, mask)), *rest)

    def _narrow_atomic(
        self, op: Any, ptr: TensorHandle, val: TensorHandle, mask: TensorHandle
    ) -> TensorHandle:
        if op != ir.ATOMIC_OP.FADD:
            raise NotImplementedError(f"atomic {op} on {val.dtype}")
        dtype = val.dtype.scalar
        pointers, values, masks = np.broadcast_arrays(ptr.data, val.data, mask.data)
        old = np.zeros(pointers.shape, dtype=val.data.dtype)
        every = np.ones(1, dtype=np.bool_)
        for index in zip(*np.nonzero(masks), strict=True):  # lanes may share an address
            at = pointers[index].reshape(1)
            before = interpreter._interpreter.load(
                at, every, old[index].reshape(1), old.dtype
            )
            total = widen(before, dtype) + widen(values[index].reshape(1), dtype)
            interpreter._interpreter.store(at, round_to(total, dtype), every)
            old[index] = before[0]
        return TensorHandle(old, dtype)

    def cast_impl(self, src: TensorHandle, dst_type: tl.dtype) -> TensorHandle:
        numbers = numbers_of(src)
        if numbers.dtype == np.bool_ and dst_type.scalar != tl.int1:
            numbers = numbers.astype(np.uint8)
        return handle(numbers, dst_type.scalar)

    def create_fp_to_fp(
        self, src: TensorHandle, dst_type: tl.dtype, rounding_mode: Any
    ) -> TensorHandle:
        if rounding_mode == ir.ROUNDING_MODE.RTZ:
            return super().create_fp_to_fp(src, dst_type, rounding_mode)
        return self.cast_impl(src, dst_type)

    def binary_op(
        self, lhs: TensorHandle, rhs: TensorHandle, op: Callable[[Array, Array], Array]
    ) -> TensorHandle:
        # A comparison's result must not keep its operands' type: casts go by it.
        return handle(op(numbers_of(lhs), numbers_of(rhs)), lhs.dtype.scalar)

    def unary_op(self, arg: TensorHandle, op: Callable[[Array], Array]) -> TensorHandle:
        return handle(op(numbers_of(arg)), arg.dtype.scalar)

    def create_clampf(
        self, arg: TensorHandle, lo: TensorHandle, hi: TensorHandle, propagate_nans: Any
    ) -> TensorHandle:
        low, high = numbers_of(lo), numbers_of(hi)
        return handle(np.clip(numbers_of(arg), low, high), arg.dtype.scalar)

    def create_fma(self, x: TensorHandle, y: TensorHandle, z: TensorHandle) -> TensorHandle:
        exact = [numbers_of(v).astype(np.float64) for v in (x, y, z)]
        return handle(exact[0] * exact[1] + exact[2], z.dtype.scalar)

    def create_erf(self, arg: TensorHandle) -> TensorHandle:
        return handle(torch.erf(to_torch(numbers_of(arg))).numpy(), arg.dtype.scalar)

    def create_rsqrt(self, arg: TensorHandle) -> TensorHandle:
        return handle(1 / np.sqrt(numbers_of(arg)), arg.dtype.scalar)

    def create_dot(
        self, a: TensorHandle, b: TensorHandle, d: TensorHandle, *_: Any
    ) -> TensorHandle:
        wide = numbers_of(d)
        product = np.matmul(numbers_of(a), numbers_of(b), dtype=wide.dtype)
        return handle(product + wide, d.dtype.scalar)


def _active(ptrs: TensorHandle, mask: TensorHandle) -> Array:
    pointers, active = np.broadcast_arrays(ptrs.data, mask.data)
    selected: Array = pointers[active]
    return selected
