"""Emitted Triton kernels compile for GPUs that are not present."""

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from wrapperir.emit import write_artifact
from wrapperir.ir import (
    BufferParameter,
    ConstexprParameter,
    DescriptorParameter,
    Device,
    KernelDefinitionLine,
    Language,
    ScalarParameter,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.kernels import KernelKind, descriptor_kernel, library_kernel
from wrapperir_python.emitter import PythonEmitter

CUDA = Device("cuda", 0)
TYPES = {"f32": "fp32", "i64": "i64", "i32": "i32"}
"""Triton's names of the dtypes of these kernels."""


def gpu_artifact(definition: KernelDefinitionLine, folder: Path) -> Path:
    builder = ProgramBuilder()
    builder.kernel(definition)
    values = [
        8
        if isinstance(p, ScalarParameter)
        else builder.input(tensor(p.dtype, shape_for(p), device=CUDA), mutated=True)
        for p in definition.parameters
        if not isinstance(p, ConstexprParameter)
    ]
    builder.call(definition, *values, device=CUDA)
    write_artifact(PythonEmitter().emit(builder.build()), folder)
    return folder / "program.py"


def shape_for(parameter: BufferParameter | DescriptorParameter) -> tuple[int, ...]:
    return parameter.block if isinstance(parameter, DescriptorParameter) else (64,)


def compiled(definition: KernelDefinitionLine, target: GPUTarget, folder: Path) -> Any:
    """Return the emitted kernel, compiled for a GPU."""
    path = gpu_artifact(definition, folder)
    spec = importlib.util.spec_from_file_location("emitted", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    chosen = "_config0" if len(definition.configs) > 1 else ""
    name = f"{definition.name}{chosen}"
    jitted = getattr(module, f"{name}_jit", None)
    function = getattr(module, name).function if jitted is None else jitted
    bound = dict(definition.constants) | dict(definition.configs[0].values)
    names = list(inspect.signature(function.fn).parameters)
    constants = {(names.index(key),): value for key, value in bound.items() if key in names}
    source = ASTSource(function, signature_of(definition), constants)
    return triton.compile(source, target=target)


@pytest.mark.parametrize(
    "target",
    [GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)],
    ids=lambda target: target.backend,
)
@pytest.mark.parametrize("kind", [KernelKind.ADD, KernelKind.ROW_SUM])
def test_a_kernel_compiles_for_a_gpu(
    kind: KernelKind, target: GPUTarget, tmp_path: Path
) -> None:
    definition = library_kernel(kind, Language.TRITON)
    kernel = compiled(definition, target, tmp_path)
    binary = kernel.asm["cubin" if target.backend == "cuda" else "hsaco"]
    assert binary[:4] == b"\x7fELF"


@pytest.mark.parametrize(("capability", "is_accelerated"), [(90, True), (80, False)])
def test_a_kernel_with_descriptors_compiles_for_gpus_with_and_without_tma(
    capability: int, is_accelerated: bool, tmp_path: Path
) -> None:
    target = GPUTarget("cuda", capability, 32)
    kernel = compiled(descriptor_kernel(), target, tmp_path)
    assert kernel.asm["cubin"][:4] == b"\x7fELF"
    assert ("cp.async.bulk.tensor.2d" in kernel.asm["ptx"]) is is_accelerated


def signature_of(definition: KernelDefinitionLine) -> dict[str, str]:
    signature: dict[str, str] = {}
    for parameter in definition.parameters:
        if isinstance(parameter, BufferParameter):
            signature[parameter.name] = f"*{TYPES[parameter.dtype.value]}"
        elif isinstance(parameter, DescriptorParameter):
            block = ",".join(map(str, parameter.block))
            dtype = TYPES[parameter.dtype.value]
            signature[parameter.name] = f"tensordesc<{dtype}[{block}]>"
        elif isinstance(parameter, ScalarParameter):
            signature[parameter.name] = TYPES[parameter.dtype.value]
        else:
            signature[parameter.name] = "constexpr"
    return signature
