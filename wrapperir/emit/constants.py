"""The tensors given for a program's constants, held against their types."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wrapperir.diagnostics import Code, Diagnostic
from wrapperir.ir import Program, TensorType

if TYPE_CHECKING:
    import torch


def check_constants(
    program: Program, constants: Mapping[str, "torch.Tensor"]
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each constant that is missing or of another type.

    Kernels get only an address, so a wrong tensor would be read out of its bounds.
    Symbolic sizes are not compared; strides of dimensions of size 1 may be any.
    """
    found: list[Diagnostic] = []
    for index, constant in enumerate(program.constants):
        given = constants.get(constant.key)
        if given is None:
            code = Code.MISSING_CONSTANT
            message = f"no tensor was given for constant {constant.key!a}"
        else:
            if _matches(constant.type, given):
                continue
            wanted, actual = _format_expected(constant.type), _format_actual(given)
            code = Code.CONSTANT_MISMATCH
            message = f"constant {constant.key!a} is {actual}, not {wanted}"
        found.append(
            Diagnostic(code, message, path=("constants", index), subject=constant.name)
        )
    return tuple(found)


def _matches(type: TensorType, given: "torch.Tensor") -> bool:
    if _dtype_name(type) != str(given.dtype) or given.dim() != len(type.size):
        return False
    if type.device.kind != given.device.type:
        return False
    for size, stride, real_size, real_stride in zip(
        type.size, type.stride, given.shape, given.stride(), strict=True
    ):
        if isinstance(size, int) and size != real_size:
            return False
        if isinstance(stride, int) and stride != real_stride and real_size > 1:
            return given.numel() == 0
    return True


def _dtype_name(type: TensorType) -> str:
    return f"torch.{type.dtype.torch_name}"


def _format_expected(type: TensorType) -> str:
    size, stride = ([str(e) for e in exprs] for exprs in (type.size, type.stride))
    return f"{_dtype_name(type)} of size {size} and stride {stride} on {type.device}"


def _format_actual(given: "torch.Tensor") -> str:
    size, stride = ([str(n) for n in exprs] for exprs in (given.shape, given.stride()))
    return f"{given.dtype} of size {size} and stride {stride} on {given.device}"
