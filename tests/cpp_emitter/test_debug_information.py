"""Debug information names files that exist, and lines of the code or of the program."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import (
    Artifact,
    DebugSource,
    artifact_digest,
    compile_program,
    emit_program,
)
from wrapperir.emit.pipeline import emit_with_paths, find_emitter
from wrapperir.ir import Language, Program
from wrapperir.ir.blocks import walk_places
from wrapperir.testing import programs
from wrapperir.text import format_with_positions, parse_program
from wrapperir_cpp.debug_information import with_line_directives
from wrapperir_cpp.emitter import CppEmitter

TEXT = """\
wrapperir 1

kernel_definition @scale cpp(x: read f32*, y: write f32*) {
  entry = scale
  source {
    | extern "C" void scale(const float* x, float* y) {
    |   for (int i = 0; i < 8; ++i) {
    |     y[i] = 3 * x[i];
    |   }
    | }
  }
}

program @main(%x: f32[8]) {
  %a = extern_kernel aten.sin.default(%x) : f32[8]
  %b = allocate f32[8]
  kernel_call @scale(%a, %b)
  free %a
  return %b
}
"""
SOURCES: tuple[DebugSource, ...] = ("code", "program")

reading = pytest.mark.skipif(
    shutil.which("readelf") is None, reason="readelf of binutils reads the libraries"
)


def lines_and_places(text: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield each line that is not a directive, with its file and number for a compiler."""
    file, number = "program.cpp", 1
    for line in text.split("\n"):
        if found := re.fullmatch(r'#line (\d+) "(.*)"', line):
            file, number = found[2], int(found[1])
        else:
            yield line, (file, number)
            number += 1


def is_for_debuggers(code: Sequence[str]) -> Iterator[bool]:
    """Yield whether each line of code holds, or sets, addresses that debuggers read."""
    inside = False
    for line in code:
        begins = line.strip().startswith("// For debuggers: ")
        inside = inside or begins
        is_header = line == '#include "runtime/debugging.h"'
        yield inside or is_header or line.strip().startswith("c.at.")
        inside = inside and line.strip() != "} at;"


def for_the_run(text: str) -> str:
    """Return code without what only debuggers read."""
    code = [line for line, _ in lines_and_places(text)]
    added = is_for_debuggers(code)
    return "\n".join(line for line, skip in zip(code, added, strict=True) if not skip)


@pytest.mark.parametrize("source", SOURCES)
def test_only_the_fact_the_addresses_and_the_directives_are_added(
    source: DebugSource,
) -> None:
    program = parse_program(TEXT)
    plain = CppEmitter().emit(program)
    made = CppEmitter().debugging(source).emit(program)
    facts = json.loads(str(made.files["build.json"]))
    assert facts == {**json.loads(str(plain.files["build.json"])), "debug_info": source}
    differing = {path for path in plain.files if plain.files[path] != made.files[path]}
    assert differing == {"build.json", "program.cpp"}
    assert made.files.keys() - plain.files.keys() == {"runtime/debugging.h"}
    text = str(made.files["program.cpp"])
    assert for_the_run(text) == plain.files["program.cpp"]
    assert ("#line " in text) == (source == "program")


def test_a_line_without_one_of_the_program_is_its_own() -> None:
    code = ["a", "b", "c", "d", "e", "f"]
    marked = with_line_directives(code, [None, 7, 8, 8, None, None])
    places = dict(lines_and_places("\n".join(line for line, _ in marked)))
    assert places == {
        **{"a": ("program.cpp", 1), "b": ("program.wir", 7), "c": ("program.wir", 8)},
        **{"d": ("program.wir", 8), "e": ("program.cpp", 8), "f": ("program.cpp", 9)},
    }
    assert [code[index] for _, index in marked] == [*"abbcddeef"]
    texts = [line for line, _ in marked]
    assert (texts[8 - 1], texts[9 - 1]) == ("e", "f")


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(languages=(Language.CPP,)))
def test_each_line_of_code_is_at_the_line_of_the_program_that_it_is_for(
    program: Program,
) -> None:
    emitter = find_emitter("cpp")
    plain, paths = emit_with_paths(program, emitter.debugging("code"))
    artifact, marked = emit_with_paths(program, emitter.debugging("program"))
    assert artifact == emit_program(program, emitter.debugging("program"))
    code = str(artifact.files["program.cpp"])
    lines = code.split("\n")
    _, positions = format_with_positions(program)
    names: list[str | int] = [line.name for line in program.definitions]
    known = {path for _, path in walk_places(program.lines)}
    found = list(lines_and_places(code))
    assert [line for line, _ in found] == str(plain.files["program.cpp"]).split("\n")
    for (line, (file, number)), path in zip(
        found, [*paths["program.cpp"], ()], strict=True
    ):
        if file == "program.cpp":
            assert lines[number - 1] == line
            assert path not in known
        else:
            if path[0] == "definitions":  # whose paths have names
                path = ("definitions", names.index(path[1]))
            assert number == positions[path].line
    of_code = zip(marked["program.cpp"], lines, strict=False)
    assert [path for path, line in of_code if not line.startswith("#line ")] == list(
        paths["program.cpp"]
    )


def built(source: DebugSource | None, folder: Path | None = None) -> Artifact:
    emitter = CppEmitter() if source is None else CppEmitter().debugging(source)
    artifact = emitter.emit(parse_program(TEXT))
    if folder is not None:
        artifact = Artifact("cpp", artifact.files, artifact.entry, folder=folder)
    return emitter.build(artifact, {})


def dumped(artifact: Artifact, kind: str, folder: Path) -> str:
    """Return what readelf says about the library."""
    library = folder / "program.so"
    content = artifact.files["program.so"]
    assert isinstance(content, bytes)
    library.write_bytes(content)
    command = ["readelf", "--wide", f"--debug-dump={kind}", str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def lines_of(shown: str, file: str) -> set[int]:
    """Return the lines of a file that have instructions."""
    rows = re.findall(r"^(\S+) +(\d+) +0x", shown, re.MULTILINE)
    return {int(number) for name, number in rows if Path(name).name == file}


def folders_of(shown: str) -> Sequence[str]:
    return re.findall(r"DW_AT_comp_dir .*: (/\S+)", shown)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(languages=(Language.CPP,)))
def test_the_code_that_runs_is_that_without_debug_information(program: Program) -> None:
    emitter = find_emitter("cpp")
    plain = emit_program(program, emitter).files["program.cpp"]
    for source in SOURCES:
        made = emit_program(program, emitter.debugging(source)).files["program.cpp"]
        assert for_the_run(str(made)) == plain


@reading
@pytest.mark.parametrize("source", SOURCES)
def test_the_files_that_a_library_names_exist_and_have_its_lines(
    source: DebugSource, run_cache: Path, tmp_path: Path
) -> None:
    artifact = built(source)
    sources = run_cache / "wrapperir" / "artifacts"
    emitted = CppEmitter().debugging(source).emit(parse_program(TEXT))
    folder = sources / artifact_digest(emitted)
    assert set(folders_of(dumped(artifact, "info", tmp_path))) == {str(folder)}
    for path in ("program.cpp", "program.wir", "kernels/cpp_scale.cpp"):
        assert (folder / path).read_text() == artifact.files[path]
    shown = dumped(artifact, "decodedline", tmp_path)
    texts = str(artifact.files["program.cpp"]).split("\n")
    own = {texts[number - 1].strip() for number in lines_of(shown, "program.cpp")}
    of_program = lines_of(shown, "program.wir")
    if source == "program":
        assert of_program == {15, 16, 17, 18}
        assert not any("cpp_scale(" in line for line in own)
    else:
        assert not of_program
        assert any(line.startswith("cpp_scale(") for line in own)
    kernel = str(artifact.files["kernels/cpp_scale.cpp"]).split("\n")
    body = {kernel[number - 1].strip() for number in lines_of(shown, "cpp_scale.cpp")}
    assert "y[i] = 3 * x[i];" in body


@reading
def test_a_folder_of_the_artifact_is_named(tmp_path: Path) -> None:
    artifact = built("code", tmp_path / "shown")
    assert set(folders_of(dumped(artifact, "info", tmp_path))) == {str(tmp_path / "shown")}


@reading
def test_without_the_option_there_is_no_debug_information(tmp_path: Path) -> None:
    shown = dumped(built(None), "info", tmp_path)
    assert "program.cpp" not in shown
    assert not folders_of(shown)


@pytest.mark.parametrize("source", SOURCES)
def test_values_are_the_same(source: DebugSource) -> None:
    program = parse_program(TEXT)
    given = torch.arange(8.0)
    wanted = compile_program(program, emitter="cpp")([given])
    found = compile_program(program, emitter="cpp", debug_info=source)([given])
    assert torch.equal(found[0], wanted[0])  # type: ignore[arg-type]


def test_sources_that_were_deleted_are_written_again(run_cache: Path) -> None:
    emitter = CppEmitter().debugging("code")
    artifact = emitter.emit(parse_program(TEXT))
    emitter.load(artifact, {})
    folder = run_cache / "wrapperir" / "artifacts" / artifact_digest(artifact)
    (folder / "program.cpp").unlink()
    emitter.load(artifact, {})
    assert (folder / "program.cpp").read_text() == artifact.files["program.cpp"]


@pytest.mark.parametrize(
    ("name", "source"), [("fx", "code"), ("fx", "program"), ("python", "program")]
)
def test_an_emitter_without_debug_information_says_so(
    name: str, source: DebugSource
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_program(parse_program(TEXT), emitter=name, debug_info=source)
    (found,) = caught.value.diagnostics
    assert found.code is Code.UNSUPPORTED_FEATURE
    assert f"the {name} emitter" in found.message
