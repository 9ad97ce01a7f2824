"""Kernels of nests, built several at once, for tests of the C++ renderer."""

import ctypes
import platform
from collections.abc import Mapping, Sequence

import pytest
import torch

from wrapperir.ir import Access, DType, ScalarParameter, TensorType
from wrapperir.kernels import CppKernel, build_libraries, cpp_build
from wrapperir.kernels.emitted.kernel_flags import kernel_flags
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.loops import Check, InnerLoop, Load, Nest, Step, Store
from wrapperir.lowering.renderer import KernelBuffer, KernelSequence, LoopKernel, Tiling


def _flat(steps: Sequence[Step]) -> list[Step]:
    found: list[Step] = []
    for step in steps:
        found += step.body if isinstance(step, InnerLoop) else (step,)
    return found


def kernel_of(
    nest: Nest, types: Mapping[str, TensorType], symbols: Sequence[str] = ()
) -> LoopKernel:
    """Return a nest's kernel, with its buffers in the order of ``types``."""
    steps = _flat(nest.body)
    read = {step.buffer for step in steps if isinstance(step, Load)}
    written = {step.buffer for step in steps if isinstance(step, Store)}
    access = {
        (True, True): Access.READ_WRITE,
        (False, True): Access.WRITE,
        (True, False): Access.READ,
        (False, False): Access.READ,
    }
    fault = TensorType(dtype=DType.I32, size=(1,), stride=(1,))
    has_checks = any(isinstance(step, Check) for step in steps)
    return LoopKernel(
        name=nest.name,
        buffers=tuple(
            KernelBuffer(name=name, type=type, access=access[name in read, name in written])
            for name, type in types.items()
        ),
        symbols=tuple(ScalarParameter(symbol, DType.I64) for symbol in symbols),
        fault=KernelBuffer(name="fault", type=fault, access=Access.READ_WRITE)
        if has_checks
        else None,
        nest=nest,
        tiling=Tiling(blocks=(tuple(axis.name for axis in nest.axes),)),
    )


def build_kernels(kernels: Sequence[LoopKernel | KernelSequence]) -> list[CppKernel]:
    """Return the compiled kernels; their names differ."""
    renderer = CppRenderer()
    definitions = [
        renderer.render_sequence(kernel)
        if isinstance(kernel, KernelSequence)
        else renderer.render_kernel(kernel)
        for kernel in kernels
    ]
    source = "".join(f"namespace of_{d.entry} {{\n{d.source}}}\n" for d in definitions)
    (library,) = build_libraries([source])
    assert isinstance(library, ctypes.CDLL), library
    return [CppKernel(definition, library) for definition in definitions]


def use_processor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kernels be compiled for a processor of x86-64, or for ``native``, this one."""
    if name != "native" and platform.machine() != "x86_64":
        pytest.skip("another kind of processor")
    stock = kernel_flags

    def for_processor(version: str, vectors: str) -> tuple[str, ...]:
        flags = stock(version, vectors)
        assert "-march=native" in flags
        return tuple(flag.replace("native", name) for flag in flags)

    monkeypatch.setattr(cpp_build, "kernel_flags", for_processor)


def type_of(tensor: torch.Tensor) -> TensorType:
    """Return a tensor's type, without its offset."""
    (dtype,) = (d for d in DType if getattr(torch, d.torch_name) == tensor.dtype)
    return TensorType(dtype=dtype, size=tuple(tensor.shape), stride=tuple(tensor.stride()))
