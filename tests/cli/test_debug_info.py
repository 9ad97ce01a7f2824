"""``--debug-info``: code that debuggers step through, from the command line."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.files import invoke

SCALE = """\
wrapperir 1

program @main(%x: f32[4]) {
  %y = extern_kernel aten.mul.Tensor(%x, 2.0) : f32[4]
  return %y
}
"""


def test_emitted_code_has_line_directives_only_where_they_are_asked_for(
    folder: Path,
) -> None:
    for given, name in (((), "plain"), (("--debug-info", "program"), "debugged")):
        result = invoke("emit", "add.wir", "--emitter", "cpp", *given, "-o", name)
        assert result.exit_code == 0, result.stderr
    plain, debugged = (
        (folder / name / "program.cpp").read_text() for name in ("plain", "debugged")
    )
    assert "#line" not in plain
    assert '#line 1 "program.wir"' not in debugged
    assert re.search(r'^#line \d+ "program\.wir"$', debugged, re.MULTILINE)
    assert (
        json.loads((folder / "debugged" / "build.json").read_text())["debug_info"]
        == "program"
    )


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_run_names_the_files_that_run(folder: Path, emitter: str) -> None:
    wanted = invoke("run", "add.wir", "--emitter", emitter)
    result = invoke("run", "add.wir", "--emitter", emitter, "--debug-info", "code")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == wanted.stdout
    (files,) = re.findall(r"the files that run are in (/\S+)", result.stderr)
    entry = {"python": "program.py", "cpp": "program.cpp"}[emitter]
    emitted = invoke("emit", "add.wir", "--emitter", emitter, "--debug-info", "code")
    assert emitted.stdout == (Path(files) / entry).read_text()


@pytest.mark.skipif(
    shutil.which("readelf") is None, reason="readelf of binutils reads the libraries"
)
def test_a_compiled_library_names_the_files_beside_it(folder: Path) -> None:
    (folder / "scale.wir").write_text(SCALE)
    result = invoke(
        "compile", "scale.wir", "--emitter", "cpp", "--debug-info", "code", "-o", "out"
    )
    assert result.exit_code == 0, result.stderr
    library = folder / "out" / "cpp" / "program.so"
    command = ["readelf", "--wide", "--debug-dump=info", str(library)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"DW_AT_comp_dir .*: (/\S+)", shown)) == {str(library.parent)}
    assert (library.parent / "program.cpp").is_file()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("given", [(), ("--emitter", "cpp", "--trace")], ids=" ".join)
def test_what_is_not_run_as_emitted_has_no_such_option(given: tuple[str, ...]) -> None:
    result = invoke("run", "add.wir", "--debug-info", "code", *given)
    assert result.exit_code == 2
    assert "--debug-info is for emitted code" in result.stderr


@pytest.mark.usefixtures("folder")
def test_python_has_no_lines_of_the_program() -> None:
    result = invoke("emit", "add.wir", "--debug-info", "program")
    assert result.exit_code == 1
    assert "WIR705" in result.stderr
    assert "ask for 'code'" in result.stderr
