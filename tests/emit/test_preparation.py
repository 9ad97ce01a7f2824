"""What loading any program needs is begun before there is a program."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import wrapperir_python
from wrapperir import ir as wir
from wrapperir.backend import preparing, read_options
from wrapperir.caching import private_cache
from wrapperir.emit import ComingPrograms, preparation
from wrapperir.emit.python.compiled_launches import EMITTED
from wrapperir.emit.python.extension_modules import build_cpp_calls, build_graphs
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import compiler, cpp_build, prepare_header, prepare_kernels
from wrapperir.kernels.emitted import native_module
from wrapperir.kernels.triton_compile import start_compiler
from wrapperir.planning import cores
from wrapperir_cpp import build
from wrapperir_cpp import preparation as cpp_preparation
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

Steps = Sequence[Callable[[], object]]


class Preparing(PythonEmitter):
    """Notes what it is asked to prepare."""

    asked: list[ComingPrograms]
    done: list[str]

    def preparations(self, coming: ComingPrograms) -> Steps:
        self.asked.append(coming)
        return [lambda: 1 / 0, lambda: self.done.append(threading.current_thread().name)]


def _coming(
    *devices: str, is_new: bool = False, graphs: bool = False, own_kernels: bool = False
) -> ComingPrograms:
    return ComingPrograms(
        devices=frozenset(devices), is_new=is_new, graphs=graphs, own_kernels=own_kernels
    )


@pytest.fixture
def emitter(monkeypatch: pytest.MonkeyPatch) -> Preparing:
    monkeypatch.setattr(preparation, "_begun", set())
    made = Preparing()
    made.asked, made.done = [], []
    return made


def wait() -> None:
    for thread in threading.enumerate():
        if thread.name == "wrapperir-preparation":
            thread.join()


def test_preparations_run_once_and_elsewhere(emitter: Preparing) -> None:
    for is_new in (False, False, True):
        preparation.prepare(emitter, _coming("cpu", is_new=is_new))
    for _ in range(3):
        wait()
    assert {*emitter.asked} == {_coming("cpu", is_new=new) for new in (False, True)}
    assert len(emitter.asked) == 2
    assert emitter.done == ["wrapperir-preparation"] * 2


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_interrupted_preparation_says_nothing(
    emitter: Preparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        emitter.done.append("interrupted")
        raise KeyboardInterrupt

    monkeypatch.setattr(emitter, "preparations", lambda coming: [interrupted])
    preparation.prepare(emitter, _coming("cpu", is_new=True))
    for _ in range(3):
        wait()
    assert emitter.done == ["interrupted"]


def test_the_backend_prepares_when_it_is_called_and_when_a_graph_is_new(
    emitter: Preparing,
) -> None:
    def compiled(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 3

    options: Any = {"emitter": emitter}
    function: Any = torch.compile(compiled, backend="wrapperir", options=options)
    function(torch.ones(3))
    for _ in range(3):
        wait()
    assert {*emitter.asked} == {_coming("cpu", is_new=new) for new in (False, True)}


@pytest.mark.parametrize(
    ("device", "wanted"),
    [
        ("cpu", ["first_fit_core.cpp"]),
        ("cuda", ["first_fit_core.cpp", "tree_search_core.cpp"]),
    ],
)
def test_the_cores_that_plan_memory_are_built_at_once(
    device: str, wanted: list[str], emitter: Preparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr(cores, "load_core", built.append)
    for is_new in (False, True):
        preparation.prepare(emitter, _coming("cpu", device, is_new=is_new))
        for _ in range(3):
            wait()
    assert sorted(built) == wanted


EXTENSIONS = {
    Path(wrapperir_python.__file__).with_name("emitted") / "operators.cpp": (),
    EMITTED / "launches.cpp": (
        *("arguments.h", "driver_functions.h"),
        *("descriptors.h", "descriptor_parts.h", "special_launches.h"),
    ),
    EMITTED / "graphs.cpp": ("recording.h", "driver_functions.h"),
    EMITTED / "cpp_calls.cpp": ("arguments.h",),
}
"""Extension modules of emitted Python, with the headers that its files name."""


def test_extension_modules_are_those_that_emitted_python_builds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def compile(command: Sequence[str], **_: object) -> None:
        Path(command[-1]).write_text("not built")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(subprocess, "run", compile)
    for emitter in (PythonEmitter(), FxEmitter()):
        coming = _coming("cpu", "cuda", graphs=True, own_kernels=True)
        for step in emitter.preparations(coming):
            step()
    prepared = sorted((tmp_path / "caches").rglob("*.so"))
    assert len(prepared) == len(EXTENSIONS)
    for source, headers in EXTENSIONS.items():
        (tmp_path / source.stem).mkdir()
        beside = EMITTED / "tensors.h", *(EMITTED / name for name in headers)
        for path in (source, *beside, Path(private_cache.__file__)):
            shutil.copy(path, tmp_path / source.stem)
        native_module.build(tmp_path / source.stem / source.name, *headers)
    assert sorted((tmp_path / "caches").rglob("*.so")) == prepared


@pytest.mark.parametrize(("device", "index"), [("cpu", None), ("cuda", 0)])
def test_objects_are_those_that_emitted_cpp_builds(
    device: str, index: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built: dict[str, set[str]] = {}

    def built_once(kind: str, key: str, make: object) -> Path:
        built.setdefault(kind, set()).add(key)
        return tmp_path / key

    launches: list[str] = []
    monkeypatch.setattr(cpp_preparation, "build_launches", lambda: launches.append("built"))
    monkeypatch.setattr(compiler, "built_once", built_once)
    monkeypatch.setattr(cpp_build, "built_once", built_once)
    header: Any = cpp_build._precompiled_header  # it would be remembered for other tests
    monkeypatch.setattr(cpp_build, "_precompiled_header", header.__wrapped__)
    for step in CppEmitter().preparations(_coming(device)):
        step()
    prepared = {kind: set(keys) for kind, keys in built.items()}
    built.clear()
    b = ProgramBuilder()
    type = wir.tensor("f32", (4,), device=wir.Device(device, index))
    x, y = b.input(type), b.allocate(type)
    b.extern_out("aten.sin.out", x, out=y, device=type.device)
    files = CppEmitter().emit(b.build(y)).files
    build._build_objects(files, {})
    # All but the program, and what calls operators through PyTorch's C++ interface.
    assert len(built["objects"] - prepared["objects"]) <= 2
    assert len(built["objects"] & prepared["objects"]) >= (6 if device == "cuda" else 1)
    assert launches == (["built"] if device == "cuda" else [])  # choices are timed there


def test_the_compiler_of_triton_starts_for_new_graphs_on_cuda() -> None:
    for emitter in (PythonEmitter(), CppEmitter(), FxEmitter()):
        for devices, count in (({"cpu"}, 0), ({"cpu", "cuda"}, 1)):
            found = emitter.preparations(_coming(*devices, is_new=True))
            assert list(found) == [start_compiler][:count]


def test_the_module_of_graphs_is_built_where_programs_have_them() -> None:
    for graphs in (False, True):
        found = PythonEmitter().preparations(_coming("cuda", graphs=graphs))
        assert (build_graphs in found) is graphs


def test_only_what_calls_kernels_of_their_frontend_is_built() -> None:
    for own in (False, True):
        coming = _coming("cpu", own_kernels=own)
        for emitter in (PythonEmitter(), FxEmitter()):
            found = emitter.preparations(coming)
            assert build_cpp_calls in found
            assert (prepare_header in found) is not own
        assert (prepare_kernels in CppEmitter().preparations(coming)) is not own


def test_the_backend_says_whose_kernels_programs_have(emitter: Preparing) -> None:
    options = read_options({"emitter": emitter, "frontend": "lowering"})
    preparing(options, [torch.ones(1)])(is_new=False)
    for _ in range(3):
        wait()
    assert emitter.asked == [_coming("cpu", own_kernels=True)]


@pytest.mark.parametrize(
    ("options", "has_graphs"),
    [({}, False), ({"graphs": True}, True), ({"passes": ["capture_graphs"]}, True)],
)
def test_the_backend_says_whether_programs_have_graphs(
    emitter: Preparing, options: dict[str, object], has_graphs: bool
) -> None:
    begin = preparing(read_options({"emitter": emitter, **options}), [torch.ones(1)])
    begin(is_new=False)
    for _ in range(3):
        wait()
    assert emitter.asked == [_coming("cpu", graphs=has_graphs)]
