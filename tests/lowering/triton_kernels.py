"""Runs kernels of nests through Triton's CPU interpreter, for tests of the renderer."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from wrapperir.ir import (
    CPU,
    Access,
    BufferParameter,
    ConstexprParameter,
    DType,
    KernelDefinitionLine,
    ScalarParameter,
    TensorType,
    evaluate_int,
)
from wrapperir.kernels import Target
from wrapperir.kernels.triton_kernel import TritonKernel
from wrapperir.lowering.loops import Check, InnerLoop, Load, Nest, Store
from wrapperir.lowering.renderer import KernelBuffer, LoopKernel, ReductionForm, Tiling
from wrapperir.lowering.triton import TritonRenderer

Blocks = tuple[tuple[str, ...], ...]


class InBounds:
    """Fails at an access outside of the tensors that a kernel is given."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._spans = [
            (t.data_ptr(), t.data_ptr() + _span(t) * t.element_size()) for t in tensors
        ]

    def read(self, addresses: Any, itemsize: int) -> None:
        for address in np.unique(addresses):
            inside = (a <= address and address + itemsize <= b for a, b in self._spans)
            assert any(inside), "an access is outside of the buffers"

    def write(self, addresses: Any, itemsize: int) -> None:
        self.read(addresses, itemsize)


def _span(tensor: torch.Tensor) -> int:
    if tensor.numel() == 0:
        return 0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((size - 1) * stride for size, stride in pairs)


def type_of(tensor: torch.Tensor) -> TensorType:
    """Return a tensor's type, without its offset."""
    (dtype,) = (d for d in DType if getattr(torch, d.torch_name, None) == tensor.dtype)
    return TensorType(dtype=dtype, size=tuple(tensor.shape), stride=tuple(tensor.stride()))


def kernel_of(
    nest: Nest,
    types: Mapping[str, TensorType],
    *,
    symbols: Sequence[ScalarParameter] = (),
    blocks: Blocks | None = None,
    form: ReductionForm = ReductionForm.LOOPED,
) -> LoopKernel:
    """Return a nest's kernel, with its buffers in the order of ``types``."""
    parts = [
        part
        for step in nest.body
        for part in (step.body if isinstance(step, InnerLoop) else (step,))
    ]
    reads = {part.buffer for part in parts if isinstance(part, Load)}
    writes = {part.buffer for part in parts if isinstance(part, Store)}
    buffers: list[KernelBuffer] = []
    for name, type in types.items():
        access = Access.READ if name not in writes else Access.WRITE
        if name in reads and name in writes:
            access = Access.READ_WRITE
        buffers.append(KernelBuffer(name=name, type=type, access=access))
    fault = TensorType(dtype=DType.I32, size=(1,), stride=(1,))
    on_cpu = all(type.device == CPU for type in types.values())
    has_fault = on_cpu and any(isinstance(part, Check) for part in parts)
    names = tuple(axis.name for axis in nest.axes)
    if blocks is None:
        blocks = (names,) if names else ()
    return LoopKernel(
        name=nest.name,
        buffers=tuple(buffers),
        symbols=tuple(symbols),
        fault=KernelBuffer(name="fault", type=fault, access=Access.READ_WRITE)
        if has_fault
        else None,
        nest=nest,
        tiling=Tiling(blocks=blocks, reduction=form),
    )


def launch(
    definition: KernelDefinitionLine,
    tensors: Sequence[torch.Tensor],
    symbols: Sequence[int] = (),
    *,
    fault: torch.Tensor | None = None,
    config: int = 0,
) -> None:
    """Run a kernel through the interpreter with one of its configs."""
    values = dict(definition.configs[config].values)
    names = [p.name for p in definition.parameters[len(tensors) :]]
    sizes = dict(zip(names, symbols, strict=False))
    known = {key: value for key, value in values.items() if isinstance(value, int)}
    grid = tuple(evaluate_int(count, {**known, **sizes}) for count in definition.grid)
    arguments: list[torch.Tensor | int] = [*tensors, *symbols]
    arguments += [] if fault is None else [fault]
    watch = InBounds([a for a in arguments if isinstance(a, torch.Tensor)])
    TritonKernel(definition).launch(arguments, values, (*grid, 1, 1, 1)[:3], watch)


def run(
    nest: Nest,
    tensors: Mapping[str, torch.Tensor],
    *,
    symbols: Mapping[str, int] | None = None,
    blocks: Blocks | None = None,
    form: ReductionForm = ReductionForm.LOOPED,
    types: Mapping[str, TensorType] | None = None,
    config: int = 0,
) -> KernelDefinitionLine:
    """Render and run a nest on tensors, which it changes; return the definition."""
    symbols = symbols or {}
    types = types or {name: type_of(tensor) for name, tensor in tensors.items()}
    parameters = [ScalarParameter(name, DType.I64) for name in symbols]
    assert TritonRenderer().refusal(nest) is None
    kernel = kernel_of(nest, types, symbols=parameters, blocks=blocks, form=form)
    definition = TritonRenderer().render_kernel(kernel)
    launch(definition, [tensors[n] for n in types], [*symbols.values()], config=config)
    return definition


def compiled(
    definition: KernelDefinitionLine,
    target: Target,
    folder: Path,
    sizes: Mapping[str, int] | None = None,
) -> Any:
    """Return a kernel that is compiled for a GPU, which need not be here.

    Buffers begin at multiples of 16 bytes.  ``sizes`` are scalar arguments that it is
    compiled for.
    """
    path = folder / f"{definition.name}.py"
    path.write_text(definition.source)
    spec = importlib.util.spec_from_file_location(definition.name, path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, definition.entry)
    values = {**dict(definition.configs[0].values), **(sizes or {})}
    signature: dict[str, str] = {}
    for parameter in definition.parameters:
        if isinstance(parameter, ConstexprParameter) or parameter.name in values:
            signature[parameter.name] = "constexpr"
        else:
            kind = "i1" if parameter.dtype is DType.BOOL else parameter.dtype.triton_name
            star = "*" if isinstance(parameter, BufferParameter) else ""
            signature[parameter.name] = f"{star}{kind}"
    constants = {name: values.pop(name) for name in signature if name in values}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, parameter in enumerate(definition.parameters)
        if isinstance(parameter, BufferParameter)
    }
    return triton.compile(
        ASTSource(function, signature, constants, aligned),
        target=GPUTarget(target.backend, target.architecture, target.lanes),
        options=values,
    )
