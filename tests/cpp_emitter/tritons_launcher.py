"""Triton's own launcher, on the driver that is made up."""

import ctypes
import importlib.util
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import CudaLauncher, CudaUtils
from triton.compiler import ASTSource


def launch_by_triton(
    facts: Mapping[str, Any], source: str, record: Mapping[str, Any], values: Sequence[Any]
) -> None:
    """Launch one program of a kernel, compiled as the facts say."""
    tritons_launcher(facts, source, record["function"])(values)


def tritons_launcher(
    facts: Mapping[str, Any], source: str, symbol: str
) -> Callable[[Sequence[Any]], None]:
    """Return a function that launches one program of a kernel, given its arguments."""
    function = _load(source, facts["entry"])
    names = list(function.arg_names)
    given = dict(facts["signature"])
    constants = {n: v for n, v in facts["values"].items() if n in names}
    options = {n: v for n, v in facts["values"].items() if n not in names}
    signature = {name: given.get(name, "constexpr") for name in names}
    target = GPUTarget("cuda", 90, 32)
    compiled = triton.compile(
        ASTSource(function, signature, constants), target=target, options=options
    )
    triton.runtime.driver.set_active(SimpleNamespace(utils=CudaUtils()))
    handle = _load_code(compiled.asm["cubin"], symbol)
    launcher = CudaLauncher(compiled.src, compiled.metadata)

    def launch(values: Sequence[Any]) -> None:
        passed = dict(zip(given, values, strict=True))
        arguments = [passed.get(name, constants.get(name)) for name in names]
        hooks = (None, None, None)
        launcher(1, 1, 1, 0x70, handle, compiled.packed_metadata, *hooks, *arguments)

    return launch


def _load(source: str, entry: str) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kernel.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("kernel", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, entry)


def _load_code(code: bytes, name: str) -> int:
    driver = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuModuleLoadData(ctypes.byref(module), code)
    driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
    assert function.value is not None
    return function.value
