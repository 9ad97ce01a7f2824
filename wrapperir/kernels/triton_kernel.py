"""Triton kernel definitions: load the source, check its signature, run it on the CPU."""

# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false

import hashlib
import linecache
from collections.abc import Mapping, Sequence
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import CodeType
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime.errors import InterpreterError
from triton.tools.tensor_descriptor import TensorDescriptor

from wrapperir.diagnostics import Code, FaultError, first_line
from wrapperir.ir import (
    ConstexprParameter,
    DescriptorParameter,
    DType,
    KernelDefinitionLine,
    Number,
    RuntimeParameter,
    runtime_parameters,
)
from wrapperir.kernels.triton_builder import MemoryWatch
from wrapperir.kernels.triton_cpu import InterpretedKernel, interpreted_triton, scalar

_SCALARS: Mapping[DType, tl.dtype] = {
    **{
        dtype: getattr(tl, dtype.torch_name)
        for dtype in DType
        if dtype.is_integer and dtype is not DType.BOOL
    },
    DType.BOOL: tl.int1,
    DType.F16: tl.float16,
    DType.F32: tl.float32,
    DType.F64: tl.float64,
}


class TritonKernel:
    """A definition whose source was loaded."""

    def __init__(self, definition: KernelDefinitionLine) -> None:
        """Execute the definition's source.

        Raises:
            FaultError: it does not load, or does not define the kernel.
        """
        self._definition = definition
        self._function = _load(definition)
        parameters = definition.parameters
        names = [parameter.name for parameter in parameters]
        signature = self._function.signature.parameters
        missing = [
            name
            for name, parameter in signature.items()
            if name not in names and parameter.default is parameter.empty
        ]
        unknown = [name for name in names if name not in signature]
        if missing or unknown:
            text = ", ".join(missing or unknown)
            reason = "has no parameter for" if missing else "does not take"
            who = f"@{definition.name}" if missing else definition.entry
            raise FaultError(Code.RUN_KERNEL_BUILD, f"{who} {reason} {text}")

    def launch(
        self,
        arguments: Sequence[torch.Tensor | Number],
        constants: Mapping[str, object],
        grid: tuple[int, ...],
        watch: MemoryWatch,
    ) -> None:
        """Run all programs of the grid; ``watch`` is told of each access to memory.

        Raises:
            FaultError: the kernel raised an error, or ``watch`` did.
        """
        given: dict[str, Any] = {
            parameter.name: constants[parameter.name]
            for parameter in self._definition.parameters
            if isinstance(parameter, ConstexprParameter) and parameter.name in constants
        }
        parameters = runtime_parameters(self._definition.parameters)
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(argument, torch.Tensor):
                given[parameter.name] = _tensor(parameter, argument)
            elif parameter.name in self._function.constexprs:
                given[parameter.name] = argument
            else:
                given[parameter.name] = _scalar(argument, parameter.dtype)
        try:
            bound = self._function.signature.bind(**given)
        except TypeError as error:
            raise FaultError(Code.RUN_KERNEL_ARGUMENTS, first_line(error)) from None
        try:
            self._function.launch(bound, grid, watch)
        except InterpreterError as error:
            message = f"@{self._definition.name}: {first_line(error)}"
            raise FaultError(Code.RUN_KERNEL_FAILED, message) from error


def _tensor(parameter: RuntimeParameter, tensor: torch.Tensor) -> object:
    if not isinstance(parameter, DescriptorParameter):
        return tensor
    size, stride = list(tensor.shape), list(tensor.stride())
    return TensorDescriptor(tensor, size, stride, list(parameter.block))


def _scalar(value: object, dtype: DType) -> object:
    assert isinstance(value, int | float)
    kind = _SCALARS.get(dtype)
    if kind is None:
        message = f"a scalar of {dtype.value} cannot be passed to a Triton kernel"
        raise FaultError(Code.RUN_KERNEL_ARGUMENTS, message)
    try:
        return scalar(value, kind)
    except OverflowError:
        message = f"{value} does not fit {dtype.value}"
        raise FaultError(Code.RUN_KERNEL_ARGUMENTS, message) from None


class _SourceLoader(InspectLoader):
    """Loads a definition's source as a module."""

    def __init__(self, source: str, filename: str) -> None:
        self._source = source
        self._filename = filename

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source, self._filename)


def _load(definition: KernelDefinitionLine) -> InterpretedKernel:
    digest = hashlib.sha256(definition.source.encode()).hexdigest()[:16]
    filename = f"<kernel {definition.name} {digest}>"
    # The interpreter reads a function's source through linecache.
    lines = definition.source.splitlines(keepends=True)
    linecache.cache[filename] = (len(definition.source), None, lines, filename)
    loader = _SourceLoader(definition.source, filename)
    module = module_from_spec(ModuleSpec(definition.name, loader, origin=filename))
    vars(module).update(_NAMESPACE)
    try:
        with interpreted_triton():
            loader.exec_module(module)
    except Exception as error:
        message = f"@{definition.name} does not load: {type(error).__name__}: {error}"
        raise FaultError(Code.RUN_KERNEL_BUILD, message.splitlines()[0]) from error
    function = vars(module).get(definition.entry)
    if isinstance(function, InterpretedKernel):
        return function
    message = f"the source of @{definition.name} defines no kernel {definition.entry}"
    raise FaultError(Code.RUN_KERNEL_BUILD, message)


_NAMESPACE: Mapping[str, object] = {
    "torch": torch,
    "triton": triton,
    "tl": tl,
    "tl_math": tl.math,
    "libdevice": libdevice,
}
"""Names that a source may use without importing them."""
