"""C++ kernel definitions: built natively and called with addresses and numbers."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch

from wrapperir.diagnostics import Code, FaultError
from wrapperir.ir import (
    DType,
    KernelDefinitionLine,
    Number,
    TensorParameter,
    runtime_parameters,
)

_CType: TypeAlias = "type[ctypes._SimpleCData[Any]]"  # pyright: ignore[reportPrivateUsage]
_SCALARS: Mapping[DType, _CType] = {
    **{
        dtype: getattr(ctypes, f"c_{dtype.torch_name}")
        for dtype in DType
        if dtype.is_integer
    },
    DType.F32: ctypes.c_float,
    DType.F64: ctypes.c_double,
    # The class of a 16-bit float holds its bits, and is passed like them.
    DType.F16: ctypes.c_uint16,
    DType.BF16: ctypes.c_uint16,
}
_HALVES = {DType.F16: torch.float16, DType.BF16: torch.bfloat16}


class CppKernel:
    """A definition whose library was loaded.

    Its entry is ``extern "C" void entry(...)`` with a pointer for each buffer parameter
    and a C++ number for each scalar one, in the definition's order.
    """

    def __init__(self, definition: KernelDefinitionLine, library: ctypes.CDLL) -> None:
        """Find the entry.

        Raises:
            FaultError: the library has no such function, or a parameter has no C++ type.
        """
        try:
            self._function = library[definition.entry]
        except AttributeError:
            message = f'@{definition.name} exports no extern "C" {definition.entry}'
            raise FaultError(Code.RUN_KERNEL_BUILD, message) from None
        self._function.restype = None
        parameters = runtime_parameters(definition.parameters)
        types = [
            ctypes.c_size_t if isinstance(p, TensorParameter) else _SCALARS.get(p.dtype)
            for p in parameters
        ]
        for parameter, type in zip(parameters, types, strict=True):
            if type is None:
                message = f"@{definition.name} takes {parameter.name} as {parameter.dtype}"
                message += ", which C++ kernels cannot"
                raise FaultError(Code.RUN_KERNEL_BUILD, message)
        self._function.argtypes = [type for type in types if type is not None]
        self._halves = [_HALVES.get(parameter.dtype) for parameter in parameters]

    def launch(self, arguments: Sequence[torch.Tensor | Number]) -> None:
        """Call the kernel.  The caller checks the arguments: the kernel cannot.

        Raises:
            FaultError: a number is not of the parameter's type.
        """
        try:
            self._function(
                *(
                    argument.data_ptr()
                    if isinstance(argument, torch.Tensor)
                    else _bits(argument, half)
                    for argument, half in zip(arguments, self._halves, strict=True)
                )
            )
        except ctypes.ArgumentError as error:
            raise FaultError(Code.RUN_KERNEL_ARGUMENTS, str(error)) from None


def _bits(number: Number, half: torch.dtype | None) -> Number:
    if half is None:
        return number
    return int(torch.tensor(number, dtype=half).view(torch.uint16).item())
