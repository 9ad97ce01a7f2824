"""Packages of programs for a GPU, in PyTorch's loaders."""

from pathlib import Path

import pytest
import torch
from torch._inductor import aoti_load_package

from wrapperir.emit.constants import write_with_constants
from wrapperir.text import parse_program
from wrapperir_cpp.emitter import CppEmitter

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
pytestmark = [pytest.mark.gpu, on_a_gpu]

PROGRAM = parse_program("""wrapperir 1
program @main(%x: f32[3, 8]@cuda:0, %n: i64) {
  symbol s0: int = value(%n)
  constant %w: f32[8, 4]@cuda:0 = "fc.weight"
  %y = allocate f32[3, 4]@cuda:0
  extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y) @cuda:0
  free %x
  %z = extern_kernel aten.mul.Tensor(%y, s0) @cuda:0 : f32[3, 4]@cuda:0
  free %y
  return %z, s0 + 1
}
""")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    emitter, constants = CppEmitter(), {"fc.weight": torch.ones(8, 4, device="cuda")}
    artifact = emitter.build(emitter.emit(PROGRAM), constants)
    write_with_constants(PROGRAM, artifact, constants, folder / "artifact")
    emitter.package(folder / "artifact", folder / "model.pt2")
    return folder / "model.pt2"


def test_pytorch_runs_a_package_on_any_stream(package: Path) -> None:
    program = aoti_load_package(str(package), device_index=0)
    x = torch.arange(24.0, device="cuda").view(3, 8)
    expected = (x @ torch.ones(8, 4, device="cuda")) * 5
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    for stream in (torch.cuda.current_stream(), side):
        with torch.cuda.stream(stream):
            result, number = program(x, torch.tensor(5))
        stream.synchronize()
        assert torch.equal(result, expected)
        assert number.item() == 6


def test_a_program_is_not_moved_to_another_gpu(
    package: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError):
        aoti_load_package(str(package), device_index=1)
    assert "not for cuda:1" in capfd.readouterr().err
