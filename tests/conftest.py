"""Settings for every test."""

import ctypes
import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.forked_processes import ProcessServer, leave_guards_untimed

# A background job of a shell ignores Ctrl-C, and so would all its processes.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing that is imported for the tests is garbage: it is not searched for any.
gc.disable()

# Nor is it searched for garbage after each graph that Dynamo traces.
os.environ.setdefault("TORCH_DYNAMO_RUN_GC_AFTER_COMPILE", "0")

# A shared machine's first call, which imports and warms caches, is not a failure.
settings.register_profile("random", deadline=None)
# The same examples on every machine; ``make fuzz`` draws new ones.
settings.register_profile("wrapperir", deadline=None, derandomize=True)
settings.load_profile("wrapperir")


@pytest.fixture(autouse=True, scope="session")
def run_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give this run a cache of its own, which its processes share; return its directory."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    cache = shared / "run-cache"
    os.environ["XDG_CACHE_HOME"] = str(cache)
    os.environ["WRAPPERIR_PROGRAM_CACHE"] = "0"  # tests look at what compiling does
    return cache


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a name that has an address: processes of a run must collect the same names."""
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(f"give the cases of this test ids: {item.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, object, object]:
    """Keep the profile: torch's code for its own tests loads another when imported."""
    profile = settings.get_current_profile_name()
    try:
        return (yield)
    finally:
        settings.load_profile(profile)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Keep the profile where a test imports it."""
    profile = settings.get_current_profile_name()
    try:
        return (yield)
    finally:
        settings.load_profile(profile)


def pytest_runtest_setup() -> None:
    """Have Dynamo, once a test has imported it, time no guards."""
    leave_guards_untimed()


def pytest_collection_finish() -> None:
    """Search for garbage only in what tests make, and have torch trace nothing.

    Torch traces what it compiles, stacks included, where the logger of traces has a
    handler, and pytest adds one to every logger that does not propagate.
    """
    logging.getLogger("torch.__trace").propagate = True
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def frame_evaluation() -> Iterator[None]:
    """Give Python its own evaluation of frames back.

    Where a backend of ``torch.compile`` raises, Dynamo leaves its evaluation in, and calls
    of Python's functions take half as long again in all that follows.
    """
    yield
    python = ctypes.pythonapi
    python.PyInterpreterState_Get.restype = ctypes.c_void_p
    python._PyInterpreterState_SetEvalFrameFunc(
        ctypes.c_void_p(python.PyInterpreterState_Get()),
        ctypes.cast(python._PyEval_EvalFrameDefault, ctypes.c_void_p),
    )


@pytest.fixture
def triton_on_cpu() -> Iterator[None]:
    """Have Inductor write Triton for the CPU: a C++ kernel takes 0.7 s to build."""
    from torch._inductor import config

    with config.patch(cpu_backend="triton"):
        yield


@pytest.fixture(scope="session")
def inductor_prepared() -> None:
    """Build a C++ kernel with Inductor, for children that are forked for checks.

    They know then which vector instructions there are, and what is in Inductor's headers:
    each would take 1.7 s to find that out.
    """
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    source = 'extern "C" void kernel(float*) {}'
    CppPythonBindingsCodeCache.load_pybinding(["float*"], source)


@pytest.fixture(scope="session")
def process_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessServer]:
    """Return a server of processes that begin with torch imported."""
    server = ProcessServer(tmp_path_factory.mktemp("processes"))
    yield server
    server.stop()
