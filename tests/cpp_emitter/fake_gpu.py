"""Runs programs as if there were a GPU: ``python -m tests.cpp_emitter.fake_gpu``.

It reads a request a line, and answers with a line: what the calls returned against what the
interpreter does, and the log of the driver.
"""

import ctypes
import gc
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from tests.cpp_emitter.gpu_requests import FAKE_HEADERS
from tests.cpp_emitter.moved import on_gpu
from tests.cpp_emitter.tritons_launcher import launch_by_triton
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Artifact, Loaded, Value, drop_recordings
from wrapperir.interp import Interpreter
from wrapperir.ir import Program
from wrapperir.kernels import Target
from wrapperir.testing import example_constants, example_inputs
from wrapperir.text import parse_program
from wrapperir_cpp import build
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.triton_kernels import RECORD


def answer(request: dict[str, Any], driver: ctypes.CDLL) -> dict[str, Any]:
    """Return what happened, by name."""
    program = parse_program(request["program"])
    emitter = CppEmitter()
    with patch.object(build, "_cuda_headers", lambda: FAKE_HEADERS):
        artifact = build.build_artifact(
            emitter.emit(on_gpu(program)), tuple(map(Target, request["targets"]))
        )
    driver.fake_set_capability(request.get("capability", 90))
    for kernel, milliseconds in request.get("costs", {}).items():
        driver.fake_set_cost(kernel.encode(), ctypes.c_float(milliseconds))
    constants = [example_constants(program, 0) for _ in range(2)]
    loaded = build.load_library(artifact, constants[0])
    interpreter = Interpreter(program, constants[1])
    if request.get("beside_triton"):
        return _beside_triton(artifact, loaded, program, driver)
    driver.fake_log()
    driver.fake_count_from_zero()
    logs: list[str] = []
    kept: list[list[Value]] = []
    before = driver.fake_live_bytes()
    try:
        for seed, stream in request["calls"]:
            driver.fake_set_stream(stream)
            driver.fake_set_captured(seed in request.get("captured", ()))
            if seed in request.get("dropped", ()):
                drop_recordings()
            failing = request.get("failing", {}).get(str(seed))
            if failing is not None:
                driver.fake_fail_graphs(failing.encode(), 0, 1)
            inputs = _inputs(program, seed, request)
            if request.get("are_inputs_kept"):  # so each call has its own addresses
                kept.append(list(inputs))
            try:
                with _settings(request.get("settings", {}).get(str(seed), {}), driver):
                    mine = loaded(inputs)
            except RuntimeError as error:
                if failing is None:
                    raise
                logs.append(f"failed {error}")
                continue
            logs.append(driver.fake_log().decode())
            wanted = interpreter.run(_inputs(program, seed, request))
            if not request.get("is_rounded"):
                compare(mine, wanted)
            compare(tuple(constants[0].values()), tuple(constants[1].values()))
        _run_threads(request.get("threads", 0), loaded, program, request)
    except RuntimeError as error:
        logs.append(driver.fake_log().decode())
        left = driver.fake_live_bytes() - before
        return {"logs": logs, "error": str(error), "left": left}
    left = driver.fake_live_bytes() - before
    del loaded
    gc.collect()
    return {"logs": logs, "left": left, "graphs": driver.fake_live_graphs()}


_SIZES = {
    **dict.fromkeys(("i8", "u8", "u1"), 1),
    **dict.fromkeys(("i16", "u16", "fp16", "bf16"), 2),
    **dict.fromkeys(("i32", "u32", "fp32"), 4),
}
"""Bytes of numbers; others have 8, as addresses have."""


def _beside_triton(
    artifact: Artifact, loaded: Loaded, program: Program, driver: ctypes.CDLL
) -> dict[str, Any]:
    """Return the logs of a launch of the only kernel, and of the same by Triton's own."""
    (path,) = (path for path in artifact.files if path.endswith(".triton.json"))
    facts = json.loads(artifact.files[path])
    types = [type for _, type in facts["signature"]]
    shown = "".join(str(_SIZES.get(type, 8)) for type in types)
    driver.fake_log()
    driver.fake_show_parameters(f"{shown}88".encode())
    inputs = example_inputs(program, 0)
    mine, addresses = list(inputs), iter(inputs)
    loaded(mine)
    ours = driver.fake_log().decode()
    values: list[Any] = []
    numbers = iter(program.lines[0].arguments)  # type: ignore[union-attr]
    for type in types:
        number = next(numbers)
        if type.startswith("*"):
            tensor = next(addresses)
            assert isinstance(tensor, torch.Tensor)
            values.append(tensor.data_ptr())
        else:
            values.append(number)
    record = json.loads(artifact.files[RECORD])[0]
    launch_by_triton(facts, str(artifact.files[facts["source"]]), record, values)
    theirs = driver.fake_log().decode()
    driver.fake_show_parameters(b"")
    return {"logs": [ours, theirs]}


def _inputs(program: Any, seed: int, request: dict[str, Any]) -> list[Value]:
    inputs = example_inputs(program, seed)
    if seed in request.get("empty", ()):
        return [value[:0] if isinstance(value, torch.Tensor) else value for value in inputs]
    step = 1 if seed in request.get("misaligned", ()) else 0
    return [placed(value, step) for value in inputs]


def placed(value: Value, step: int = 0) -> Value:
    """Return a copy of a tensor that begins ``step`` elements after a multiple of 512."""
    if not isinstance(value, torch.Tensor):
        return value
    given = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
    room = torch.empty(given.numel() + 512 + step, dtype=value.dtype)
    first = -room.data_ptr() % 512 // value.itemsize + step
    room[first : first + given.numel()] = given
    return room.as_strided(value.shape, value.stride(), first + value.storage_offset())


@contextmanager
def _settings(settings: dict[str, Any], driver: ctypes.CDLL) -> Iterator[None]:
    """Have other settings of products, of PyTorch or of the fake."""
    backend: Any = torch.backends.cuda.matmul
    before = {name: getattr(backend, name) for name in settings if name[0] == "a"}
    for name, value in settings.items():
        match name:
            case "deterministic":
                torch.use_deterministic_algorithms(value)
            case "tuned":
                driver.fake_tune_products(value)
            case "has_algorithms":
                driver.fake_have_algorithms(value)
            case "status":
                driver.fake_fail_products(value)
            case _:
                setattr(backend, name, value)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        driver.fake_tune_products(False)
        driver.fake_have_algorithms(True)
        driver.fake_fail_products(0)
        for name, value in before.items():
            setattr(backend, name, value)


def compare(mine: tuple[Value, ...], wanted: tuple[Value, ...]) -> None:
    """Raise an error if outputs are not those that are wanted."""
    for index, (got, right) in enumerate(zip(mine, wanted, strict=True)):
        same = (
            torch.equal(got, right)
            if isinstance(got, torch.Tensor) and isinstance(right, torch.Tensor)
            else got == right or (got != got and right != right)
        )
        if not same:
            raise RuntimeError(f"output {index} is {got}, not {right}")


def _run_threads(count: int, loaded: Any, program: Any, request: dict[str, Any]) -> None:
    failures: list[str] = []

    def run(seed: int) -> None:
        try:
            wanted = Interpreter(program, {}).run(_inputs(program, seed, request))
            for _ in range(50):
                compare(loaded(_inputs(program, seed, request)), wanted)
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
    driver.fake_bind_operators()
    imported = 0
    for line in sys.stdin:
        if len(sys.modules) > imported:  # no later search for garbage looks through these
            gc.collect()
            gc.freeze()
            imported = len(sys.modules)
        try:
            result = answer(json.loads(line), driver)
        except DiagnosticError as error:
            result = {"error": str(error), "logs": []}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
