"""One program that a user gives is checked on the device that it is for."""

from collections.abc import Mapping

import pytest
import torch
from attrs import evolve

from tests.cli.files import invoke
from tests.emit.partition.partial_emitter import HOSTED, HostedEmitter
from wrapperir.emit import Artifact, Emitter, Loaded, Support, Value
from wrapperir.testing.suite import Status, check_program
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter

TEXT = """wrapperir 1

kernel_definition @cpp_negate LANGUAGE(in_ptr0: read f32*, out_ptr0: write f32*, n: i64) {
  entry = negate
  source {
    | extern "C" void negate(const float* in_ptr0, float* out_ptr0, long n) {
    |   for (long i = 0; i < n; ++i) out_ptr0[i] = -in_ptr0[i];
    | }
  }
}

program @main(%x: f32[8]DEVICE) {
  %y = allocate f32[8]DEVICE
  kernel_call @cpp_negate(%x, %y, 8)DEVICE
  return %y
}
"""


def text_of(device: str = "", language: str = "cpp") -> str:
    there = TEXT.replace("8)DEVICE", f"8) {device}").replace("DEVICE", device)
    return there.replace("LANGUAGE", language)


def hosted_emitter(hosted: frozenset[str] = frozenset({HOSTED})) -> HostedEmitter:
    devices = frozenset({"cpu", HOSTED})
    support = evolve(PythonEmitter.support, devices=devices, hosted=hosted)
    return HostedEmitter(support=support)


@pytest.mark.parametrize("device", [None, HOSTED])
def test_a_program_of_a_hosted_device_runs_there(device: str | None) -> None:
    program = parse_program(text_of(f"@{HOSTED}:0"))
    report = check_program(hosted_emitter(), program, 0, device)
    assert report.holds
    assert f"drawn programs on {HOSTED}" in report.rows()


class Doubling(HostedEmitter):
    """Returns outputs that are twice those of the program."""

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        loaded = super().load(artifact, constants)

        def run(given: list[Value]) -> tuple[Value, ...]:
            return tuple([x * 2 if x is not None else x for x in loaded(given)])

        return run


def test_it_is_compared_with_what_it_is_on_the_cpu() -> None:
    wrong = Doubling(support=hosted_emitter().support)
    text = text_of(f"@{HOSTED}:0")
    (failed,) = check_program(wrong, parse_program(text), 0).of(Status.FAILED)
    assert "has other values" in failed.reason
    assert failed.program == text


def test_a_program_of_the_cpu_is_moved_to_the_device_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "wrapperir.emit.pipeline.find_emitter", lambda name: hosted_emitter()
    )
    command = ("plugins", "check", "hosted", "--device", HOSTED, "--program", "-")
    done = invoke(*command, input=text_of())
    assert done.exit_code == 0
    assert f"drawn programs on {HOSTED}        1        0        0" in done.stdout


def cpu_emitter() -> Emitter:
    emitter = PythonEmitter()
    emitter.support = Support(devices=frozenset({"cpu"}))
    return emitter


@pytest.mark.parametrize(
    ("emitter", "language", "device", "reason"),
    [
        (hosted_emitter(), "cpp", "cpu", "the program is for acme"),
        (
            hosted_emitter(),
            "opaque",
            None,
            "the interpreter runs no kernels in opaque to compare with",
        ),
        (cpu_emitter(), "cpp", None, "not declared: device acme"),
        (
            hosted_emitter(hosted=frozenset()),
            "cpp",
            None,
            "PyTorch has no device acme for inputs",
        ),
    ],
)
def test_what_cannot_run_is_skipped_with_the_reason(
    emitter: Emitter, language: str, device: str | None, reason: str
) -> None:
    program = parse_program(text_of(f"@{HOSTED}:0", language))
    (result,) = check_program(emitter, program, 0, device).results
    assert (result.status, result.reason) == (Status.SKIPPED, reason)
