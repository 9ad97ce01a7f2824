"""Paths of a program's lines for the lines of emitted files."""

import pytest
from hypothesis import HealthCheck, given, settings

from wrapperir.emit import SourceWriter, emit_program, fragment
from wrapperir.emit.line_record import active_record, recording_lines
from wrapperir.emit.pipeline import emit_with_paths, find_emitter
from wrapperir.ir import ExternKernelLine, KernelCallLine, Language, Program
from wrapperir.ir.blocks import walk_places
from wrapperir.testing import programs
from wrapperir.text import parse_program

PROGRAM = """\
wrapperir 1

kernel_definition @copy cpp(in0: read f32*, out0: write f32*) {
  entry = copy
  source {
    | extern "C" void copy(const float* p0, float* p1) {
    |   for (int i = 0; i < 8; ++i) p1[i] = p0[i];
    | }
  }
}

program @main(%x: f32[8]) {
  symbol s0: int = 4
  %a = allocate f32[8]
  kernel_call @copy(%x, %a)
  %b = extern_kernel aten.relu.default(%a) : f32[8]
  free %a
  return %b
}
"""


def lines_of(name: str) -> dict[str, list[str]]:
    """Return the lines of the main file, without blanks, by the path that they have."""
    emitter = find_emitter(name)
    artifact, paths = emit_with_paths(parse_program(PROGRAM), emitter)
    file = emitter.shown_files(artifact)[0]
    content = artifact.files[file]
    assert isinstance(content, str)
    found: dict[str, list[str]] = {}
    for path, line in zip(paths[file], content.split("\n"), strict=False):
        if path:
            found.setdefault("/".join(map(str, path)), []).append(line.strip())
    return found


def test_python_lines_have_the_paths_of_what_they_do() -> None:
    found = lines_of("python")
    assert found["lines/0"] == ["a = empty_strided_cpu((8,), (1,), float32)"]
    assert found["lines/1"] == ["copy(x, a)"]
    assert "b = aten_relu_default(a)" in found["lines/2"]
    assert found["lines/3"] == ["del a"]
    assert found["symbols/0"] == ["s0 = 4"]
    kernel = found["definitions/copy"]
    assert any(line.startswith("for (int i = 0") for line in kernel)


def test_cpp_lines_have_the_paths_of_what_they_do() -> None:
    found = lines_of("cpp")
    assert any(line.startswith("cpp_copy(") for line in found["lines/1"])
    assert not any(line.startswith("cpp_copy(") for line in found["lines/2"])


def test_nodes_of_fx_have_the_paths_of_their_lines() -> None:
    found = lines_of("fx")
    assert [line.partition(" = ")[0] for line in found["lines/1"]] == [
        "call_kernel_default"
    ]
    assert [line.partition(" = ")[0] for line in found["lines/2"]] == ["b"]


def test_a_fragment_of_several_lines_has_the_path_for_each() -> None:
    with recording_lines() as record:
        inner, writer = SourceWriter(), SourceWriter()
        writer.emit_comment("head")
        record.path = ("lines", 0)
        inner.emit_line("{}", fragment("a\nb"))
        record.path = ()
        with writer.indented():
            writer.emit_writer(inner)
        writer.emit_blank(2)
        text = writer.format_text()
    assert text == "# head\n    a\nb\n\n\n"
    assert record.paths(text) == ((), ("lines", 0), ("lines", 0), (), ())
    assert record.paths("other") == ()
    assert active_record() is None


@pytest.mark.parametrize("name", ["python", "cpp", "fx"])
def test_each_launch_is_found_and_recording_changes_no_file(name: str) -> None:
    emitter = find_emitter(name)

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs(languages=(Language.CPP,)))
    def holds(program: Program) -> None:
        artifact, paths = emit_with_paths(program, emitter)
        assert artifact == emit_program(program, emitter)
        places = {path: line for line, path in walk_places(program.lines)}
        kernels = {line.name for line in program.definitions}
        seen = {path for of_file in paths.values() for path in of_file}
        for path in seen:
            if path[:1] == ("definitions",):
                assert path[1] in kernels
            elif path[:1] == ("lines",):
                assert path in places
        for path, line in places.items():
            if isinstance(line, KernelCallLine | ExternKernelLine) and len(path) == 2:
                assert path in seen, line

    holds()
