"""Compilations that are interrupted, run beside each other, or follow a fork."""

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch._inductor import config, lowering
from torch._inductor.codegen import common

from tests.forked_processes import ProcessServer
from wrapperir.caching import PrivateCache

EMITTERS = ("python", "cpp", "fx")

# Functions that a compilation calls, one after the other.
POINTS = (
    "wrapperir.backend.read_options",
    "wrapperir.frontend.inductor.build.build_program",
    "wrapperir.frontend.inductor.session.keep_apart",
    "wrapperir.verify.verify",
    "wrapperir.pipelines.run_passes",
    "wrapperir.emit.pipeline.check_support",
    "wrapperir.emit.pipeline.output_code",
    "wrapperir.frontend.output_code.built_once",
    "wrapperir.emit.pipeline.load_stored",
)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _function(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() @ x).relu() + 1


def _compiled(emitter: str, function: Any = _function, **options: Any) -> Any:
    given = {"emitter": emitter, **options}
    return torch.compile(function, backend="wrapperir", options=given)


def _state() -> tuple[Any, ...]:
    return (
        *(dict(table) for table in (common.device_codegens, lowering.lowerings)),
        {name: repr(value) for name, value in config.get_config_copy().items()},
        torch.is_grad_enabled(),
    )


@pytest.mark.parametrize(
    ("point", "emitter"),
    [*((point, "python") for point in POINTS), (POINTS[-1], "cpp"), (POINTS[-1], "fx")],
)
def test_an_interrupt_leaves_all_as_before(point: str, emitter: str) -> None:
    common.init_backend_registration()
    before = _state()
    x = torch.randn(4, 4)
    called = _compiled(emitter)
    with (
        mock.patch(point, side_effect=KeyboardInterrupt) as interrupted,
        pytest.raises(KeyboardInterrupt),
    ):
        called(x)
    assert interrupted.call_count == 1
    assert _state() == before
    torch.testing.assert_close(called(x), _function(x))
    torch.testing.assert_close(torch.compile(_function)(x), _function(x))


@pytest.mark.parametrize("emitter", EMITTERS)
def test_an_interrupt_while_a_backward_is_compiled(emitter: str) -> None:
    called = _compiled(emitter)
    x = torch.randn(4, 4, requires_grad=True)
    y = called(x)
    point = "wrapperir.emit.pipeline.load_stored"
    with mock.patch(point, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        torch.autograd.grad(y.sum(), x)
    _train(called, _function, 4)


@pytest.mark.parametrize("step", range(4))
def test_an_interrupt_while_a_file_of_a_cache_is_written(step: int, tmp_path: Path) -> None:
    cache = PrivateCache(tmp_path / "cache")

    def make(path: Path) -> None:
        path.write_text("half")
        if step == 0:
            raise KeyboardInterrupt
        path.write_text("whole")

    replaced = os.replace
    count = 0

    def replace(*args: Any) -> None:
        nonlocal count
        count += 1
        if step == count:
            raise KeyboardInterrupt
        replaced(*args)
        if step == count + 2:
            raise KeyboardInterrupt

    with mock.patch("os.replace", replace), pytest.raises(KeyboardInterrupt):
        cache.built("file", make)
    assert {path.name for path in cache.folder().iterdir()} <= {"file", "lock-fi"}
    step = -1
    assert cache.built("file", make).read_text() == "whole"


INTERRUPTED = """
import faulthandler, os, pathlib, signal, sys, tempfile, threading, time
faulthandler.dump_traceback_later(150, exit=True)
folder = pathlib.Path({folder!r})
os.setsid()
os.environ["PATH"] = str(folder) + ":" + os.environ["PATH"]
os.environ.pop("CXX", None)
import torch
import torch._inductor.config
import wrapperir
torch._inductor.config.cpp.cxx = (None, "g++")  # read from CXX in a process that forks

made = []
make = tempfile.mkdtemp
tempfile.mkdtemp = lambda *args, **kwargs: made.append(make(*args, **kwargs)) or made[-1]

def function(x):
    return (x.sin() @ x).relu() + {number}

def interrupt():
    while not (folder / "begun").exists():
        time.sleep(0.01)
    os.killpg(0, signal.SIGINT)

threading.Thread(target=interrupt).start()
x = torch.randn(4, 4)
compiled = torch.compile(function, backend="wrapperir", options={{"emitter": {emitter!r}}})
try:
    compiled(x)
    print("not interrupted")
except KeyboardInterrupt:
    (folder / "go").touch()
    print("interrupted")
torch.testing.assert_close(compiled(x), function(x))
print("compiled")
assert not [path for path in made if os.path.exists(path) and "wrapperir" in path]
"""

COMPILER = """#!/bin/bash
case "$*" in *version*|*dM*) exec {compiler} "$@";; esac
touch {folder}/begun
until [ -e {folder}/go ]; do sleep 0.1; done  # Ctrl-C ends it
exec {compiler} "$@"
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("emitter", EMITTERS)
def test_ctrl_c_while_the_compiler_runs(
    emitter: str, process_server: ProcessServer, tmp_path: Path
) -> None:
    # Of the same name as the machine's, so that other tests' files are found in the cache.
    compiler = tmp_path / "g++"
    compiler.write_text(COMPILER.format(folder=tmp_path, compiler=shutil.which("g++")))
    compiler.chmod(0o700)
    number = random.randrange(10**9)  # a kernel that no run has compiled
    code = INTERRUPTED.format(folder=str(tmp_path), number=number, emitter=emitter)
    done = process_server.run("-c", code)
    assert done.stdout == "interrupted\ncompiled\n", done.stderr


def _run_all(works: list[Callable[[], None]]) -> None:
    """Run functions in threads that begin at once; raise the first error."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        try:
            barrier.wait()
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def _call(compiled: Any, x: torch.Tensor) -> torch.Tensor:
    """Call a compiled function while other threads compile."""
    while True:
        try:
            result: torch.Tensor = compiled(x)
        except RuntimeError as error:
            # PyTorch's flag that a graph is traced belongs to the process, not to a thread.
            if "using FX to symbolically trace" not in str(error):
                raise
        else:
            return result


def _train(compiled: Any, expected: Any, size: int) -> None:
    x = torch.randn(size, size, requires_grad=True)
    for _ in range(2):
        y = _call(compiled, x)
        torch.testing.assert_close(y, expected(x))
        (grad,) = torch.autograd.grad(y.sum(), x)
        (wanted,) = torch.autograd.grad(expected(x).sum(), x)
        torch.testing.assert_close(grad, wanted)


@pytest.mark.slow
def test_threads_compile_different_functions_with_different_options() -> None:
    def make(number: int, **kwargs: Any) -> Callable[[], None]:
        def function(x: torch.Tensor) -> torch.Tensor:
            return (x @ x).sin() * number

        compiled = torch.compile(function, **kwargs)
        return lambda: _train(compiled, function, 4 + number)

    works = [
        make(number, backend="wrapperir", options={"emitter": emitter})
        for number, emitter in enumerate(EMITTERS)
    ]
    works.append(make(3))
    works.append(make(4, backend="wrapperir", options={"passes": ()}))
    common.init_backend_registration()
    before = _state()
    _run_all(works)
    assert _state() == before


@pytest.mark.parametrize("emitter", EMITTERS)
def test_threads_compile_and_call_one_function(emitter: str) -> None:
    compiled = _compiled(emitter)
    _run_all([lambda: _train(compiled, _function, 4)] * 3)


def test_threads_dump_to_folders_of_their_own(tmp_path: Path) -> None:
    def make(number: int) -> Callable[[], None]:
        compiled = _compiled("python", lambda x: x * number, dump_dir=tmp_path)
        x = torch.ones(3)
        return lambda: torch.testing.assert_close(_call(compiled, x), x * number)

    _run_all([make(number) for number in range(4)])
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert len(folders) == 4
    for name in folders:
        assert (tmp_path / name / "program.wir").exists()


FORKING = """
import os, signal, torch

def first(x):
    return (x.sin() @ x).relu() + 1

def second(x):
    return (x.cos() @ x) * {number}

compiled = [
    torch.compile(first, backend="wrapperir", options={{"emitter": emitter}})
    for emitter in ("python", "cpp", "fx")
]
x = torch.randn(4, 4, requires_grad=True)
for call in compiled:
    call(x).sum().backward()
child = os.fork()
if child == 0:
    signal.alarm(100)
    for call in compiled:
        torch.testing.assert_close(call(x), first(x))
        call(x).sum().backward()
    for emitter in ("python", "cpp", "fx"):
        more = torch.compile(second, backend="wrapperir", options={{"emitter": emitter}})
        torch.testing.assert_close(more(x), second(x))
        more(x).sum().backward()
    print("child", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for call in compiled:
    torch.testing.assert_close(call(x), first(x))
print("parent")
"""


@pytest.mark.slow
@pytest.mark.skipif(
    torch.backends.cuda.is_built(),  # type: ignore[no-untyped-call]
    reason="autograd of a PyTorch with CUDA has threads, which a forked process lacks",
)
def test_a_forked_process_calls_and_compiles(process_server: ProcessServer) -> None:
    done = process_server.run("-c", FORKING.format(number=7))
    assert done.stdout == "child\nparent\n", done.stderr
