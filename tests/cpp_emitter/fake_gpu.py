"""Runs programs as if there were a GPU: ``python -m tests.cpp_emitter.fake_gpu``.

It reads a request a line, and answers with a line: what the calls returned against what the
interpreter does, and the log of the driver.
"""

import ctypes
import json
import sys
import threading
from typing import Any

import torch

from tests.cpp_emitter.moved import on_gpu
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Value
from wrapperir.interp import Interpreter
from wrapperir.testing import example_inputs
from wrapperir.text import parse_program
from wrapperir_cpp.build import build_artifact
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.load import load_library
from wrapperir_cpp.targets import parse_targets


def answer(request: dict[str, Any], driver: ctypes.CDLL) -> dict[str, Any]:
    """Return what happened, by name."""
    program = parse_program(request["program"])
    emitter = CppEmitter()
    artifact = build_artifact(
        emitter.emit(on_gpu(program)), parse_targets(request["targets"])
    )
    driver.fake_set_capability(request.get("capability", 90))
    loaded = load_library(artifact, {})
    interpreter = Interpreter(program, {})
    driver.fake_log()
    driver.fake_count_from_zero()
    logs: list[str] = []
    before = driver.fake_live_bytes()
    try:
        for seed, stream in request["calls"]:
            driver.fake_set_stream(stream)
            mine = loaded(_inputs(program, seed, request))
            logs.append(driver.fake_log().decode())
            _compare(mine, interpreter.run(_inputs(program, seed, request)))
        _run_threads(request.get("threads", 0), loaded, program, request)
    except RuntimeError as error:
        logs.append(driver.fake_log().decode())
        left = driver.fake_live_bytes() - before
        return {"logs": logs, "error": str(error), "left": left}
    return {"logs": logs, "left": driver.fake_live_bytes() - before}


def _inputs(program: Any, seed: int, request: dict[str, Any]) -> list[Value]:
    inputs = example_inputs(program, seed)
    if seed not in request.get("misaligned", ()):
        return inputs
    shifted: list[Value] = []
    for value in inputs:
        assert isinstance(value, torch.Tensor)
        room = torch.empty(value.numel() + 1, dtype=value.dtype)
        view = room[1:].as_strided(value.shape, value.stride())
        shifted.append(view.copy_(value))
    return shifted


def _compare(mine: tuple[Value, ...], wanted: tuple[Value, ...]) -> None:
    for index, (got, right) in enumerate(zip(mine, wanted, strict=True)):
        same = (
            torch.equal(got, right)
            if isinstance(got, torch.Tensor) and isinstance(right, torch.Tensor)
            else got == right
        )
        if not same:
            raise RuntimeError(f"output {index} is {got}, not {right}")


def _run_threads(count: int, loaded: Any, program: Any, request: dict[str, Any]) -> None:
    failures: list[str] = []

    def run(seed: int) -> None:
        try:
            wanted = Interpreter(program, {}).run(_inputs(program, seed, request))
            for _ in range(50):
                _compare(loaded(_inputs(program, seed, request)), wanted)
        except Exception as error:
            failures.append(str(error))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(failures[0])


def main() -> None:
    """Answer requests until there are no more."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.fake_log.restype = ctypes.c_char_p
    driver.fake_live_bytes.restype = ctypes.c_int64
    driver.fake_set_stream.argtypes = [ctypes.c_uint64]
    for line in sys.stdin:
        try:
            result = answer(json.loads(line), driver)
        except DiagnosticError as error:
            result = {"error": str(error), "logs": []}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
