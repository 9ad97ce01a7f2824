"""A new plugin of each target is built, installed, found, and passes its own checks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer
from tests.plugin.own_tests import install, run_own_tests
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.plugin.templates import TARGETS, write_plugin
from wrapperir.plugin.templates.write import HostLanguage, render_plugin

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-unused-parameter")
NO_USE = "-Wno-unused-variable"  # a name of the program that nothing uses
COMPILERS: Mapping[str, tuple[str, ...]] = {
    "c": ("cc", "-xc", "-std=c11"),
    "cpp": ("c++", "-xc++", "-std=c++17"),
}
PROGRAM = """\
wrapperir 1

kernel_definition @scale cpp(source: read f32*, out: write f32*, by: f32, n: i64) {
  entry = scale
  source {
    | extern "C" void scale(const float* source, float* out, float by, long n) {
    |   for (long i = 0; i < n; ++i) out[i] = source[i] * by;
    | }
  }
}

program @main(%free: f32[s0], %auto: f64) {
  symbol s0: int 1..64 = size(%free, 0)
  symbol f0: float = value(%auto)
  %printf = allocate f32[s0 + 1]
  %acme_free = reinterpret %printf as f32[s0; offset 1]
  comment "*/ \\\\ a remark"
  kernel_call @scale(%free, %acme_free, f0 * 0.5, s0)
  assert_scalar s0 < 60 "too \\"long\\""
  free %printf
  return %acme_free, s0 // 2, f0
}
"""


@pytest.fixture(scope="module", params=TARGETS)
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HostLanguage, Path, dict[str, str]]:
    """Return a target, its new distribution, and the environment where it is installed."""
    target: HostLanguage = request.param
    folder = tmp_path_factory.mktemp("new") / "plugin"
    write_plugin(f"new_{target}", target, folder)
    place = tmp_path_factory.mktemp("installed")
    return target, folder, {**os.environ, "PYTHONPATH": install(folder, place)}


@pytest.mark.slow
def test_its_first_tests_pass(
    installed: tuple[HostLanguage, Path, dict[str, str]], process_server: ProcessServer
) -> None:
    _, folder, environment = installed
    few = "-k", "installed or runs or buffers or outputs or wrong"
    path = environment["PYTHONPATH"]
    assert "5 passed" in run_own_tests(process_server, folder, path, *few)


@pytest.mark.sweep
def test_all_of_its_tests_pass(
    installed: tuple[HostLanguage, Path, dict[str, str]], process_server: ProcessServer
) -> None:
    target, folder, environment = installed
    said = run_own_tests(process_server, folder, environment["PYTHONPATH"])
    found = "15 passed, 9 skipped" if target == "python" else "19 passed, 5 skipped"
    assert found in said


def test_names_of_a_program_are_no_names_of_the_code(
    installed: tuple[HostLanguage, Path, dict[str, str]],
    process_server: ProcessServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, _, environment = installed
    (tmp_path / "names.wir").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    for command in (["emit", "names.wir", "-o", "out"], ["run", "names.wir"]):
        command += ["--emitter", f"new_{target}"]
        done = process_server.run("-m", "wrapperir.cli", *command, env=environment)
        assert done.returncode == 0, done.stderr
    if target == "python":
        return
    compiler, *flags = COMPILERS[target]
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    folder = next(tmp_path.rglob("signature.json")).parent
    file = f"program.{target}"
    subprocess.run(
        [compiler, *flags, *WARNINGS, NO_USE, "-c", file, "-o", "a.o"],
        cwd=folder,
        check=True,
    )


OFFSET = """\
wrapperir 1

program @main(%x: f32[4; offset s0]) {
  symbol s0: int 0..64 = offset(%x)
  %v = reinterpret %x as f32[2; offset s0 + 2]
  return %v, s0
}
"""


def test_the_offset_of_an_input_is_that_of_the_call(
    installed: tuple[HostLanguage, Path, dict[str, str]], process_server: ProcessServer
) -> None:
    target, _, environment = installed
    script = (
        "import torch\n"
        "from wrapperir.emit import compile_program\n"
        "from wrapperir.text import parse_program\n"
        f"call = compile_program(parse_program({OFFSET!r}), emitter='new_{target}')\n"
        "v, s0 = call([torch.arange(10.0)[3:7]])\n"
        "assert (v.tolist(), s0) == ([5.0, 6.0], 3), (v, s0)\n"
    )
    done = process_server.run("-c", script, env=environment)
    assert done.returncode == 0, done.stderr


ALIGNED = """\
wrapperir 1

program @main() {
  %a = allocate f32[4] {align = 128}
  free %a
  return
}
"""


def test_more_alignment_than_that_of_the_driver_is_no_failure(
    installed: tuple[HostLanguage, Path, dict[str, str]],
    process_server: ProcessServer,
    tmp_path: Path,
) -> None:
    target, _, environment = installed
    aligned = tmp_path / "aligned.wir"
    aligned.write_text(ALIGNED)
    command = ["plugins", "check", f"new_{target}", "--program", str(aligned)]
    done = process_server.run("-m", "wrapperir.cli", *command, env=environment)
    assert "drawn programs        0        0        1" in done.stdout
    assert "not declared: memory that is aligned to 128 bytes" in done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_written_is_short_and_formatted(
    target: HostLanguage, tmp_path: Path
) -> None:
    write_plugin("acme", target, tmp_path / "plugin")
    package = tmp_path / "plugin" / "wrapperir_acme"
    lines = sum(len(path.read_text().splitlines()) for path in package.iterdir())
    assert lines < (450 if target == "python" else 150)
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    if not Path(ruff[0]).exists():
        pytest.skip("ruff is not installed")
    options = ["--isolated", "--line-length", "92", str(tmp_path)]
    subprocess.run([*ruff, "format", "--check", *options], check=True)
    select = ["--select", "A,B,C4,D,E,F,N,PT,RUF,SIM,UP,W", "--ignore", "A001,A002,D"]
    subprocess.run([*ruff, "check", *select, *options], check=True)


@pytest.mark.parametrize("target", TARGETS)
def test_no_built_in_emitter_is_imported(target: HostLanguage) -> None:
    for text in render_plugin("acme", target).values():
        assert "@" not in text.replace("@hookimpl", "").replace("@define", "").replace(
            "@frozen", ""
        ).replace("@pytest", "").replace("@main", "").replace("@add_one", "")
        for other in ("wrapperir_python", "wrapperir_cpp", "wrapperir_fx"):
            assert other not in text


@pytest.mark.parametrize("name", ["", "Acme", "a-b", "class", "1st", "x" * 41, "fx", "a_"])
def test_names_that_a_plugin_cannot_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError) as caught:
        write_plugin(name, "c", tmp_path / "plugin")
    assert [d.code for d in caught.value.diagnostics] == [Code.PLUGIN_NAME]
    assert not (tmp_path / "plugin").exists()


def test_a_directory_that_exists_is_kept(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match="exists already"):
        write_plugin("acme", "c", tmp_path)
    assert list(tmp_path.iterdir()) == []


WRONG_DRIVERS = {
    "never frees": ("  free(memory);", "  (void)memory;", "each call keeps"),
    "frees twice": ("  free(memory);", "  free(memory);\n  free(memory);", "SIGABRT"),
    "allocates too little": (
        "(size_t)(units * alignment)",
        "(size_t)(units > 1 ? (units - 1) * alignment : alignment)",
        "",
    ),
    "does not zero": (
        "memset((char *)memory + at, 0,",
        "memset((char *)memory + at, 1,",
        "",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_DRIVERS)
def test_a_driver_that_is_wrong_is_found(
    name: str, tmp_path: Path, process_server: ProcessServer
) -> None:
    right, wrong, said = WRONG_DRIVERS[name]
    write_plugin("new", "c", tmp_path / "plugin")
    header = tmp_path / "plugin" / "wrapperir_new" / "new.h"
    text = header.read_text()
    assert right in text
    header.write_text(text.replace(right, wrong))
    script = (
        "from wrapperir_new.emitter import NewEmitter\n"
        "from wrapperir.testing.suite import CheckSelection, Status, check_emitter\n"
        "cases = frozenset({'kernel_workspaces_cpp', 'threads'})\n"
        "report = check_emitter(NewEmitter(), CheckSelection(cases=cases))\n"
        "for result in report.of(Status.FAILED): print(result.reason)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "plugin")}
    done = process_server.run("-c", script, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert said in done.stdout
