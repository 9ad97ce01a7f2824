"""Runs compiled programs as if there were a GPU.

``python -m tests.cpp_emitter.fake_artifacts`` reads a request a line: programs' paths, how
to load them, and the text of what they compute.  A child of the process, which has imported
all that is needed, calls each program a few times; its outputs must be those of the
interpreter.  The answer is a line with the driver's log of each call, and how many pools of
memory lived before and after the programs were closed, or with an ``error``.
"""

import ctypes
import gc
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import wrapperir
from tests.cpp_emitter.fake_gpu import compare, placed
from tests.cpp_emitter.gpu_requests import CURRENT
from wrapperir.interp import interpret
from wrapperir.testing import example_inputs
from wrapperir.text import parse_program
from wrapperir_cpp.layout import LIBRARY

CALLS = 6


class Container:
    """A program as PyTorch's loaders for packages open and run it."""

    def __init__(self, directory: Path) -> None:
        self._functions = ctypes.CDLL(str(directory / LIBRARY))
        self._handle = ctypes.c_void_p()
        name = "CreateWithDevice"
        place = str(directory).encode()
        self._call(name, ctypes.byref(self._handle), ctypes.c_size_t(1), b"cuda:0", place)

    def _call(self, name: str, *arguments: object) -> None:
        if self._functions[f"AOTInductorModelContainer{name}"](*arguments):
            message = ctypes.c_char_p()
            self._functions.AOTInductorGetLastError(ctypes.byref(message))
            raise RuntimeError(message.value)

    def __call__(self, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
        convert: Any = torch._C._aoti
        given = convert.unsafe_alloc_void_ptrs_from_tensors(inputs)
        count = ctypes.c_size_t()
        self._call("GetNumOutputs", self._handle, ctypes.byref(count))
        handles = (ctypes.c_void_p * len(given))(*map(_address, given))
        outputs = (ctypes.c_void_p * count.value)()
        sizes = ctypes.c_size_t(len(given)), ctypes.c_size_t(count.value)
        stream = ctypes.c_void_p(CURRENT)
        arguments = handles, sizes[0], outputs, sizes[1], stream, None
        self._call("Run", self._handle, *arguments)
        capsules = [_capsule(handle) for handle in outputs]
        return tuple(convert.alloc_tensors_by_stealing_from_void_ptrs(capsules))

    def close(self) -> None:
        self._call("Delete", self._handle)


def _address(capsule: Any) -> Any:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, None)


def _capsule(address: Any) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(address, None, None)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return what the programs did."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.fake_log.restype = ctypes.c_char_p
    driver.fake_bind_operators()
    program = parse_program(request["program"])
    load: Callable[[Path], Any] = (
        Container if request["loader"] == "pytorch" else wrapperir.load
    )
    loaded = [load(Path(path)) for path in request["paths"]]
    logs: list[list[str]] = []
    for seed in range(CALLS):
        wanted = interpret(program, example_inputs(program, seed), {})
        for call in loaded:
            inputs = [placed(value) for value in example_inputs(program, seed)]
            driver.fake_log()
            found = call(inputs) if isinstance(call, Container) else call(*inputs)
            logs.append(driver.fake_log().decode().splitlines())
            compare(found, wanted)
    pools = [driver.fake_live_pools()]
    for call in loaded:
        if isinstance(call, Container):
            call.close()
    del call, loaded
    gc.collect()
    pools.append(driver.fake_live_pools())
    return {"logs": logs, "pools": pools}


def main() -> None:
    """Answer requests until there are no more."""
    importlib.import_module("wrapperir_cpp.emitter")  # as loading a program does
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                result = answer(json.loads(line))
            except BaseException:
                result = {"error": traceback.format_exc()}
            print(json.dumps(result), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
