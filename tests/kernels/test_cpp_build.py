"""The flags of C++ kernels are those of torch's own, as far as numbers depend on them."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from torch._inductor.codecache import CppPythonBindingsCodeCache
from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions
from torch._inductor.cpu_vec_isa import pick_vec_isa

from tests.torch_release import BEFORE_2_13
from wrapperir.emit.python.compiled_launches import CACHE, EMITTED
from wrapperir.kernels import CppBuildError, build_libraries
from wrapperir.kernels.cpp_build import kernel_compiler
from wrapperir.kernels.emitted.native_module import import_file

_OF_NUMBERS = re.compile(r"-(O\d|f(?!no-omit-frame-pointer)\S+|march=\S+|std=\S+)")


def _torchs_command() -> list[str]:
    options = CppTorchDeviceOptions(
        compile_only=True,
        device_type="cpu",
        vec_isa=pick_vec_isa(),
        **CppPythonBindingsCodeCache.cpp_compile_command_flags,
    )
    builder = CppBuilder(name="output", sources="source", BuildOption=options)
    line = builder.get_command_line()
    return shlex.split(re.sub(r"-D +", "-D", line))


@pytest.mark.slow
@pytest.mark.skipif(
    BEFORE_2_13, reason="earlier releases of torch pass other flags than 2.13"
)
def test_the_flags_that_numbers_depend_on_are_torchs_own() -> None:
    ours, torchs = kernel_compiler().command, _torchs_command()
    wanted = [flag for flag in torchs if _OF_NUMBERS.fullmatch(flag)]
    assert len(wanted) > 10
    assert sorted(f for f in ours if _OF_NUMBERS.fullmatch(f)) == sorted(wanted)
    defined = {flag for flag in torchs if flag.startswith("-D")}
    assert defined - {"-D"} <= set(ours)


@pytest.mark.parametrize("command", [None, "c++"])
def test_emitted_python_includes_the_same_header(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str | None
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    if command is not None:
        monkeypatch.setenv("CXX", command)
    for file in (*EMITTED.iterdir(), CACHE):
        if file.is_file():
            shutil.copy(file, tmp_path)
    emitted: Any = import_file(tmp_path / "cpp_kernels.py")
    ours, theirs = kernel_compiler(), emitted._compiler("")
    assert (ours.command, ours.version) == (theirs.command, theirs.version)


def test_each_source_has_its_library_or_the_compilers_first_errors() -> None:
    good = 'extern "C" void add(float* p) { p[0] += 1; }'
    built = build_libraries([good, "int x = ;", good])
    assert hasattr(built[0], "add")
    assert isinstance(built[1], CppBuildError)
    assert str(built[1]).startswith("1:9: error: expected primary-expression")
    assert hasattr(built[2], "add")
