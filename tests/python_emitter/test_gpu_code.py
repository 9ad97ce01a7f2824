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
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.ir.kernel import BufferParameter, Language, ScalarParameter
from wrapperir.ir.line import KernelDefinitionLine
from wrapperir.ir.types import Device, tensor
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir_python.emitter import PythonEmitter

CUDA = Device("cuda", 0)
TYPES = {"f32": "fp32", "i64": "i64", "i32": "i32"}
"""Triton's names of the dtypes of these kernels."""


def gpu_artifact(definition: KernelDefinitionLine, folder: Path) -> Path:
    builder = ProgramBuilder()
    builder.kernel(definition)
    values = [
        builder.input(tensor(p.dtype, (64,), device=CUDA), mutated=True)
        if isinstance(p, BufferParameter)
        else 8
        for p in definition.parameters
        if isinstance(p, BufferParameter | ScalarParameter)
    ]
    builder.call(definition, *values, device=CUDA)
    write_artifact(PythonEmitter().emit(builder.build()), folder)
    return folder / "program.py"


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
    path = gpu_artifact(definition, tmp_path)
    spec = importlib.util.spec_from_file_location("emitted", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, f"{definition.name}_jit")
    bound = dict(definition.constants) | dict(definition.configs[0].values)
    names = list(inspect.signature(function.fn).parameters)
    constants = {(names.index(key),): value for key, value in bound.items() if key in names}
    source = ASTSource(function, signature_of(definition), constants)
    compiled = triton.compile(source, target=target)
    binary = compiled.asm["cubin" if target.backend == "cuda" else "hsaco"]
    assert binary[:4] == b"\x7fELF"


def signature_of(definition: KernelDefinitionLine) -> dict[str, str]:
    signature: dict[str, str] = {}
    for parameter in definition.parameters:
        if isinstance(parameter, BufferParameter):
            signature[parameter.name] = f"*{TYPES[parameter.dtype.value]}"
        elif isinstance(parameter, ScalarParameter):
            signature[parameter.name] = TYPES[parameter.dtype.value]
        else:
            signature[parameter.name] = "constexpr"
    return signature
