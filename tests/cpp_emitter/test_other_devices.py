"""The C++ emitter extended to a made-up device by a distribution of its own."""

import ctypes
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter.acme.emitter import FOLDER, AcmeEmitter
from tests.cpp_emitter.running import parsed
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import emit_program
from wrapperir.kernels import find_compiler
from wrapperir.testing.suite import CheckSelection, Status, check_emitter
from wrapperir_cpp.emitter import CppEmitter

KERNELS = """\
kernel_definition @add cpp(a: read f32*, b: read f32*, out: write f32*, n: i64) {
  entry = add
  source {
    | extern "C" void add(const float* a, const float* b, float* out, long n) {
    |   for (long i = 0; i < n; ++i) out[i] = a[i] + b[i];
    | }
  }
}
"""
PROGRAM = (
    KERNELS
    + """\
program @main(%x: f32[64], %y: f32[64]) {
  %a = allocate f32[64]@acme
  extern_kernel aten.copy_.default(%a, %x) writes(%a) @acme
  %b = allocate f32[64]@acme
  extern_kernel aten.copy_.default(%b, %y) writes(%b) @acme
  %w = allocate f32[64]@acme workspace(zero_on_call)
  %ready = record_event @acme
  wait_event %ready @acme stream(1)
  wait_event %ready @acme stream(2)
  %c = allocate f32[64]@acme
  kernel_call @add(%a, %b, %c, 64) @acme stream(1)
  %d = allocate f32[64]@acme
  kernel_call @add(%b, %b, %d, 64) @acme stream(2)
  %added = record_event @acme stream(1)
  wait_event %added @acme stream(2)
  %e = allocate f32[64]@acme
  kernel_call @add(%c, %d, %e, 64) @acme stream(2)
  kernel_call @add(%e, %w, %d, 64) @acme stream(2)
  %done = record_event @acme stream(2)
  wait_event %done @acme
  %out = allocate f32[64]
  extern_kernel aten.copy_.default(%out, %d) writes(%out) @acme
  kernel_call @add(%out, %x, %out, 64)
  free %a
  free %b
  free %c
  free %d
  free %e
  free %w
  return %out
}
"""
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return the driver; programs find it among the libraries of the process."""
    folder = tmp_path_factory.mktemp("acme")
    library = folder / "libacme.so"
    flags = ["-xc", "-std=c11", "-O1", "-fPIC", "-shared"]
    source = str(FOLDER / "driver.c")
    find_compiler().run([*flags, source, "-o", str(library)], folder, "the driver")
    loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    loaded.acme_take_log.restype = ctypes.c_char_p
    return loaded


def log_of(driver: ctypes.CDLL) -> list[str]:
    return bytes(driver.acme_take_log()).decode().splitlines()


def test_a_program_runs_with_kernels_streams_and_events(driver: ctypes.CDLL) -> None:
    emitter = AcmeEmitter()
    call = emitter.load(emitter.emit(parsed(PROGRAM)), {})
    x, y = torch.arange(64.0), torch.full((64,), 3.0)
    for _ in range(2):
        driver.acme_take_log()
        (out,) = call([x, y])
        assert isinstance(out, torch.Tensor)
        assert torch.equal(out, (x + y) + (y + y) + x)
    log = log_of(driver)
    assert [line for line in log if line.startswith(("allocate", "free"))] == [
        "allocate 1536",
        "free",
    ]
    assert [line for line in log if " on " in line and not line.startswith("record")] == [
        *("copy on 0", "copy on 0", "zero on 0", "add on 1", "add on 2"),
        *("add on 2", "add on 2", "copy on 0"),
    ]
    begin = log.index("add on 2")
    assert log[begin + 1 : begin + 3] == ["record 3 on 1", "2 waits for 3"]
    assert log[-1] == "free"


def test_errors_of_the_device_name_the_program(driver: ctypes.CDLL) -> None:
    emitter = AcmeEmitter()
    call = emitter.load(emitter.emit(parsed(PROGRAM)), {})
    driver.acme_fail_next()
    with pytest.raises(RuntimeError, match="main: acme: no memory for 1536 bytes"):
        call([torch.ones(64), torch.ones(64)])
    (out,) = call([torch.ones(64), torch.ones(64)])
    assert isinstance(out, torch.Tensor)
    assert torch.equal(out, torch.full((64,), 5.0))


def test_the_emitter_without_the_device_refuses_it() -> None:
    with pytest.raises(DiagnosticError, match="no support for device acme"):
        emit_program(parsed(PROGRAM), CppEmitter())


def test_the_checks_of_plugins_reach_the_device_by_copies(driver: ctypes.CDLL) -> None:
    """Its copies are of dense tensors only, so cases with columns are left out."""
    cases = ("kernel_mutation_cpp", "kernel_streams_cpp", "kernel_workspaces_cpp")
    selection = CheckSelection(cases=frozenset(cases), devices=frozenset({"acme"}))
    report = check_emitter(AcmeEmitter(), selection)
    assert not report.of(Status.FAILED), [r.reason for r in report.of(Status.FAILED)]
    rows = report.rows()
    assert rows["streams on acme"][Status.PASSED] == 1
    (leaks,) = {result.reason for result in report.of(Status.SKIPPED)}
    assert leaks == "Emitter.live_bytes does not count memory on acme"


def test_the_emitter_is_small() -> None:
    lines = (Path(FOLDER) / "emitter.py").read_text("utf-8").splitlines()
    assert len(lines) < 150
