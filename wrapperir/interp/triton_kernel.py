"""Triton kernel definitions: load the source, check its signature, launch it watched."""

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

import numpy as np
import torch
import triton
import triton.language as tl
from attrs import define
from triton.language.extra import libdevice
from triton.runtime.errors import InterpreterError
from triton.tools.tensor_descriptor import TensorDescriptor

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError, first_line
from wrapperir.interp.storage import Storage
from wrapperir.interp.triton_cpu import InterpretedKernel, interpreted_triton, scalar
from wrapperir.interp.triton_numbers import Array
from wrapperir.interp.values import TensorValue
from wrapperir.ir.expr import Number
from wrapperir.ir.kernel import (
    ConstexprParameter,
    DescriptorParameter,
    TensorParameter,
    runtime_parameters,
)
from wrapperir.ir.line import KernelDefinitionLine
from wrapperir.ir.types import DType

_SCALARS: Mapping[DType, tl.dtype] = {
    DType.BOOL: tl.int1,
    DType.I8: tl.int8,
    DType.I16: tl.int16,
    DType.I32: tl.int32,
    DType.I64: tl.int64,
    DType.U8: tl.uint8,
    DType.U16: tl.uint16,
    DType.U32: tl.uint32,
    DType.U64: tl.uint64,
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
        arguments: Sequence[TensorValue | Number],
        constants: Mapping[str, object],
        grid: tuple[int, ...],
    ) -> None:
        """Run all programs of the grid, noting what they write.

        Raises:
            FaultError: the kernel raised an error, read bytes that nothing wrote, or
                touched memory outside its arguments.
        """
        given: dict[str, Any] = {
            parameter.name: constants[parameter.name]
            for parameter in self._definition.parameters
            if isinstance(parameter, ConstexprParameter) and parameter.name in constants
        }
        watch = _Watch()
        parameters = runtime_parameters(self._definition.parameters)
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(parameter, TensorParameter) and isinstance(argument, TensorValue):
                watch.add(argument.storage, parameter.access.writes)
                given[parameter.name] = _tensor(parameter, argument)
            elif parameter.name in self._function.constexprs:
                given[parameter.name] = argument
            else:
                given[parameter.name] = _scalar(argument, parameter.dtype)
        try:
            bound = self._function.signature.bind(**given)
        except TypeError as error:
            raise FaultError(Code.RUN_KERNEL_ARGUMENTS, first_line(error)) from None
        watch.close()
        try:
            self._function.launch(bound, grid, watch)
        except InterpreterError as error:
            message = f"@{self._definition.name}: {first_line(error)}"
            raise FaultError(Code.RUN_KERNEL_FAILED, message) from error


def _tensor(parameter: TensorParameter, value: TensorValue) -> object:
    if not isinstance(parameter, DescriptorParameter):
        return value.tensor
    size, stride = list(value.layout.size), list(value.layout.stride)
    return TensorDescriptor(value.tensor, size, stride, list(parameter.block))


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
        """Return the source."""
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        """Return the source compiled under the name that linecache knows."""
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
"""What a source may use without importing it."""


@define(eq=False)
class _Region:
    """Memory that arguments share; ``tracked`` is the storage with a map, if one has."""

    start: int
    end: int
    writable: bool
    tracked: Storage | None


class _Watch:
    """Checks each access against the memory of a launch's arguments."""

    def __init__(self) -> None:
        self._regions: dict[int, _Region] = {}
        self._ordered: list[_Region] = []
        self._starts = np.zeros(0, dtype=np.uint64)
        self._ends = np.zeros(0, dtype=np.uint64)

    def add(self, storage: Storage, writable: bool) -> None:
        """Admit accesses to a storage."""
        if storage.nbytes == 0:
            return  # what has no bytes may lie at the address of another
        key = storage.memory.data_ptr()
        start = key + storage.base
        end = start + storage.nbytes
        tracked = None if storage.written is None else storage
        region = self._regions.setdefault(key, _Region(start, end, writable, tracked))
        region.start = min(region.start, start)
        region.end = max(region.end, end)
        region.writable |= writable

    def close(self) -> None:
        """End adding."""
        self._ordered = sorted(self._regions.values(), key=lambda region: region.start)
        self._starts = np.array([r.start for r in self._ordered], dtype=np.uint64)
        self._ends = np.array([r.end for r in self._ordered], dtype=np.uint64)

    def read(self, addresses: Array, itemsize: int) -> None:
        """Check that the bytes were written."""
        for region, active in self._located(addresses, itemsize):
            if region.tracked is None or region.tracked.written is None:
                continue
            written = region.tracked.written.numpy()
            offsets = (active - np.uint64(region.start)).astype(np.int64)
            if not all(written[offsets + byte].all() for byte in range(itemsize)):
                message = "a kernel reads bytes that nothing wrote"
                raise FaultError(Code.RUN_UNINITIALIZED_READ, message)

    def write(self, addresses: Array, itemsize: int) -> None:
        """Check that writing is declared; note it."""
        for region, active in self._located(addresses, itemsize):
            if not region.writable:
                message = "a kernel writes through a parameter declared read"
                raise FaultError(Code.RUN_READ_ONLY, message)
            if region.tracked is None or region.tracked.written is None:
                continue
            written = region.tracked.written.numpy()
            offsets = (active - np.uint64(region.start)).astype(np.int64)
            for byte in range(itemsize):
                written[offsets + byte] = 1

    def _located(self, addresses: Array, itemsize: int) -> list[tuple[_Region, Array]]:
        """Return each region touched, with the addresses touched in it."""
        if addresses.size == 0:
            return []
        places = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        if (places < 0).any() or (
            addresses + np.uint64(itemsize) > self._ends[np.maximum(places, 0)]
        ).any():
            message = "a kernel touches memory outside the storages of its arguments"
            raise FaultError(Code.RUN_ACCESS_OUT_OF_BOUNDS, message)
        return [(self._ordered[p], addresses[places == p]) for p in np.unique(places)]
