"""What the FX emitter writes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cli.files import invoke
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Artifact, check_support, emit_program, read_artifact
from wrapperir.emit.pipeline import build_artifact, find_emitter
from wrapperir.ir import (
    LINES,
    CollectiveLine,
    NodeOrigin,
    Program,
    Provenance,
    SourcePlace,
    VendorLayout,
    WaitCollectiveLine,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.text import parse_program
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_builder import build_graph

TEXT = """\
wrapperir 1

kernel_definition @twice cpp(p: read_write f32*, n: i64) {
  entry = twice
  source {
    | extern "C" void twice(float* p, long n) { for (long i = 0; i < n; ++i) p[i] *= 2; }
  }
}

program @main(%x: f32[s0, 8]) {
  symbol s0: int 2..1024 = size(%x, 0)
  constant %w: f32[8, 8] = "fc.weight"

  %buf0 = allocate f32[s0, 8]
  extern_kernel aten.mm.out(%x, %w, out = %buf0) writes(%buf0)
  free %x
  kernel_call @twice(%buf0, s0 * 8)
  return %buf0
}
"""


def emitted(text: str = TEXT) -> Artifact:
    return emit_program(parse_program(text), FxEmitter())


def test_it_is_found_by_name() -> None:
    assert isinstance(find_emitter("fx"), FxEmitter)


def test_the_entry_is_the_program() -> None:
    artifact = emitted()
    assert (artifact.emitter, artifact.entry) == ("fx", "program.wir")
    assert set(artifact.files) == {"program.wir", "graph.py"}
    assert parse_program(str(artifact.files["program.wir"])) == parse_program(TEXT)


def test_the_graph_reads_as_python() -> None:
    text = str(emitted().files["graph.py"])
    compile(text, "graph.py", "exec")
    for word in ("torch.empty_strided(", "aten.mm.out(x, w, out = buf0)", "'twice:"):
        assert word in text


def test_emitting_twice_gives_the_same_files() -> None:
    assert emitted() == emitted()


def test_emitting_builds_no_kernel() -> None:
    broken = TEXT.replace("p[i] *= 2;", "this is no C++")
    assert "'twice:" in str(emitted(broken).files["graph.py"])


def test_there_is_nothing_to_build_ahead_of_time() -> None:
    program = parse_program("wrapperir 1\n\nprogram @main(%x: f32[2]) {\n  return %x\n}\n")
    artifact = FxEmitter().emit(program)
    assert build_artifact(program, artifact, FxEmitter(), {}) == artifact


def test_it_takes_every_line_language_and_device() -> None:
    support = FxEmitter.support
    # Collectives become calls of operators before.
    assert support.lines == set(LINES) - {CollectiveLine, WaitCollectiveLine}
    assert check_support(parse_program(TEXT), "fx", support) == ()
    assert support.devices is None


def unknown_memory() -> Program:
    b = ProgramBuilder()
    b.free(b.allocate(tensor("f32", (8,), layout=VendorLayout("acme.tiled"))))
    b.free(b.allocate(tensor("f32", (8,), space="scratchpad")))
    return b.build()


def test_all_that_it_lacks_is_named_at_once() -> None:
    with pytest.raises(DiagnosticError) as caught:
        emit_program(unknown_memory(), FxEmitter())
    found = caught.value.diagnostics
    assert [d.code for d in found] == [Code.UNSUPPORTED_FEATURE] * 2
    assert [d.path for d in found] == [("lines", 0), ("lines", 2)]
    assert "'acme.tiled'" in found[0].message
    assert "'scratchpad'" in found[1].message


def test_finding_it_imports_no_torch() -> None:
    script = (
        "import sys\nfrom wrapperir.emit.pipeline import find_emitter\n"
        "find_emitter('fx').support\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", ["checking_memory", "package"])
def test_what_other_emitters_have_is_refused(method: str, tmp_path: Path) -> None:
    arguments = () if method == "checking_memory" else (tmp_path, tmp_path / "out")
    with pytest.raises(DiagnosticError, match="WIR705: the fx emitter has no"):
        getattr(FxEmitter(), method)(*arguments)


def test_the_command_line_writes_and_runs_it(tmp_path: Path) -> None:
    (tmp_path / "main.wir").write_text(TEXT)
    program, out = str(tmp_path / "main.wir"), str(tmp_path / "out")
    assert invoke("emit", "--emitter", "fx", program, "-o", out).exit_code == 0
    assert read_artifact(Path(out)) == emitted()
    ours, theirs = (
        invoke("run", "--emitter", name, program).stdout for name in ("fx", "python")
    )
    assert ours == theirs
    assert ours.startswith("output 0: float32[")


def noted(text: str) -> Program:
    """Return a program, each line of which comes from where ``text`` says."""
    program = parse_program(TEXT)
    provenance = Provenance(origins=("a",))
    return evolve(
        program,
        lines=tuple(evolve(line, provenance=provenance) for line in program.lines),
        places=(SourcePlace(file=text, line=3, function=text),),
        origins=(NodeOrigin(name="a", operator=text, place=0),),
    )


def statements(program: Program) -> str:
    code = build_graph(program).graph.python_code("self", verbose=True).src
    return ast.dump(ast.parse(code))


@given(st.text())
@example("a\rraise SystemExit")
@example("a\n#\x0craise SystemExit")
@example("\0\x85\u2028raise SystemExit\ud800\"'\\")
def test_where_a_line_comes_from_is_a_remark(text: str) -> None:
    assert statements(noted(text)) == statements(parse_program(TEXT))


def test_where_a_line_comes_from_is_to_be_read() -> None:
    code = build_graph(noted("m\u00f6del")).graph.python_code("self", verbose=True).src
    assert "# File: m\u00f6del:3 in m\u00f6del, code: a; m\u00f6del; m\u00f6del:3" in code
