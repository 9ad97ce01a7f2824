"""What loading keeps on disk, and for whom."""

import stat
import traceback
from pathlib import Path

import pytest
import torch

from tests.python_emitter.line_cases import CASES
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Artifact, artifact_digest
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter

CONSTANTS = {"fc.weight": torch.eye(8)}


def triton_artifact() -> Artifact:
    return PythonEmitter().emit(parse_program(CASES["kernel_call, Triton"].text))


def run(artifact: Artifact) -> object:
    call = PythonEmitter().load(artifact, CONSTANTS)
    return call([torch.ones(4, 8), torch.ones(8, 8), 5, torch.tensor(True)])[0]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "wrapperir" / "artifacts"


def test_kernels_are_kept_for_this_user_alone(cache: Path) -> None:
    artifact = triton_artifact()
    wanted = run(artifact)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    kept = cache / artifact_digest(artifact)
    assert (kept / "kernels" / "double.py").is_file()
    before = (kept / "program.py").stat().st_ino
    assert torch.equal(run(artifact), wanted)  # type: ignore[arg-type]
    assert (kept / "program.py").stat().st_ino == before


def test_a_damaged_cache_is_written_anew(cache: Path) -> None:
    artifact = triton_artifact()
    run(artifact)
    kept = cache / artifact_digest(artifact) / "kernels" / "double.py"
    kept.write_text("raise SystemExit\n")
    run(artifact)
    assert kept.read_text() == artifact.files["kernels/double.py"]


def test_a_cache_open_to_others_is_refused(cache: Path) -> None:
    cache.mkdir(mode=0o777, parents=True)
    cache.chmod(0o777)
    with pytest.raises(DiagnosticError, match="can be written by other users") as caught:
        run(triton_artifact())
    assert caught.value.diagnostics[0].code is Code.INVALID_ARTIFACT
    assert list(cache.iterdir()) == []


def test_a_cache_that_is_a_link_is_refused(cache: Path, tmp_path: Path) -> None:
    cache.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiagnosticError) as caught:
        run(triton_artifact())
    assert caught.value.diagnostics[0].code is Code.INVALID_ARTIFACT
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_module_of_one_file_leaves_nothing(cache: Path) -> None:
    emitter = PythonEmitter(trusts_inputs=True)
    text = "wrapperir 1\nprogram @main(%x: f32[8]) {\n  return %x\n}\n"
    emitter.load(emitter.emit(parse_program(text)), {})
    assert not cache.exists()


def test_an_error_in_the_module_shows_its_line() -> None:
    program = parse_program(CASES["free"].text)
    emitter = PythonEmitter()
    call = emitter.load(emitter.emit(program), CONSTANTS)
    with pytest.raises(RuntimeError, match="received 1") as caught:
        call([torch.ones(1, 8), torch.ones(8, 8), 5, torch.tensor(True)])
    shown = "".join(traceback.format_exception(caught.value))
    assert "if not (s0 >= 2 and s0 <= 100): raise RuntimeError" in shown


def test_loads_do_not_share_constants() -> None:
    program = parse_program(CASES["extern_kernel, out"].text)
    emitter = PythonEmitter()
    artifact = emitter.emit(program)
    calls = [emitter.load(artifact, {"fc.weight": torch.eye(8) * n}) for n in (2, 3)]
    for n, call in zip((2, 3), calls, strict=True):
        (out,) = call([torch.ones(2, 8), torch.ones(8, 8), 5, torch.tensor(True)])
        assert torch.equal(out, torch.full((2, 8), float(n)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["aten.name.upper", "aten.mm.overloads", "aten._dir.clear", "higher_order.cond.name"],
)
def test_what_is_no_operator_is_refused_when_loaded(name: str) -> None:
    program = parse_program(
        f"wrapperir 1\nprogram @main() {{\n  extern_kernel {name}()\n  return none\n}}\n"
    )
    emitter = PythonEmitter()
    with pytest.raises(DiagnosticError, match="is not an operator") as caught:
        emitter.load(emitter.emit(program), {})
    assert caught.value.diagnostics[0].code is Code.KERNEL_BUILD_FAILED
