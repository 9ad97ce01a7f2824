"""``wrapperir diff-run`` and ``wrapperir run --trace``."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.files import LINES, invoke
from tests.cli.wrong_code import call_another


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "lines.wir").write_text(LINES)


@pytest.fixture
def wrong_emitter(monkeypatch: pytest.MonkeyPatch) -> None:
    call_another(monkeypatch, "cos", "tan")


@pytest.mark.parametrize("emitter", [(), ("--emitter", "python"), ("--emitter", "fx")])
def test_a_trace_shows_each_line_with_its_source(emitter: tuple[str, ...]) -> None:
    result = invoke("run", "lines.wir", "--trace", *emitter)
    assert result.exit_code == 0, result.stderr
    shown = re.sub(r"(min|max|mean) [-\d.e]+", r"\1 N", result.stdout)
    assert (
        re.sub(r"[0-9a-f]{16}", "DIGEST", shown)
        == """\
4: %a = extern_kernel aten.sin.default(%x) : f32[8]  # model.py:3
    %a = float32[8] min N, max N, mean N  DIGEST
5: %b = extern_kernel aten.cos.default(%a) : f32[8]  # model.py:4
    %b = float32[8] min N, max N, mean N  DIGEST
7: %c = extern_kernel aten.mul.Tensor(%b, %y) : f32[8]
    %c = float32[8] min N, max N, mean N  DIGEST
output 0: float32[8] min N, max N, mean N
"""
    )


def test_traces_of_the_interpreter_and_of_emitted_code_are_the_same() -> None:
    shown = {
        invoke("run", "lines.wir", "--trace", *emitter).stdout
        for emitter in ((), ("--emitter", "python"))
    }
    assert len(shown) == 1


def test_lines_after_passes_have_the_numbers_of_the_new_text() -> None:
    result = invoke("run", "lines.wir", "--trace", "--pass", "memory")
    assert result.stdout.startswith("5: extern_kernel aten.sin.out(%x, out = %a)")
    assert result.exit_code == 0, result.stderr


def test_a_fault_is_reported_after_the_lines_before_it(folder: Path) -> None:
    text = LINES.replace("aten.cos.default(%a)", "aten.cos.default(%a, 1)")
    (folder / "fault.wir").write_text(text)
    for emitter, code in (((), "WIR823"), (("--emitter", "python"), "WIR906")):
        result = invoke("run", "fault.wir", "--trace", *emitter)
        assert result.exit_code == 1
        assert result.stdout.startswith("4: %a = ")
        assert code in result.stderr


def test_sides_without_a_difference_agree() -> None:
    for sides in (("python", "fx"), ("interpreter", "python:memory")):
        result = invoke("diff-run", "lines.wir", *sides)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("no difference: 3 values are the same")


@pytest.mark.usefixtures("wrong_emitter")
def test_the_first_line_that_differs_is_shown_with_its_source() -> None:
    result = invoke("diff-run", "lines.wir", "interpreter", "python")
    assert result.exit_code == 4
    assert "lines.wir:5:3: error WIR914: %b differs in python from" in result.stderr
    assert "note: this line is from model.py:4" in result.stderr
    assert result.stdout == ""


@pytest.mark.usefixtures("wrong_emitter")
def test_the_difference_is_json_if_that_is_asked_for() -> None:
    result = invoke("diff-run", "lines.wir", "fx", "python:memory", "--format", "json")
    assert result.exit_code == 4
    (found,) = json.loads(result.stderr)
    assert (found["code"], found["origin"]) == ("WIR914", "model.py:4")


@pytest.mark.usefixtures("wrong_emitter")
def test_a_tolerance_allows_differences() -> None:
    result = invoke("diff-run", "lines.wir", "fx", "python", "--tolerance", "1000")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (("interpreter", "nothing"), "WIR700"),
        (("interpreter", "python:no_such_pass"), "WIR740"),
        (("interpreter:memory(", "python"), "WIR74"),
    ],
)
def test_sides_that_do_not_exist_are_refused(sides: tuple[str, str], message: str) -> None:
    result = invoke("diff-run", "lines.wir", *sides)
    assert result.exit_code == 1
    assert message in result.stderr


def test_two_programs_are_compared(folder: Path) -> None:
    (folder / "other.wir").write_text(LINES.replace("aten.cos.default", "aten.tan.default"))
    for runner in ((), ("python",), ("interpreter:memory",)):
        result = invoke("diff-run", "lines.wir", "other.wir", *runner)
        assert result.exit_code == 4
        assert "executes the code in lines.wir and other.wir" in result.stderr
        name = runner[0] if runner else "interpreter"
        where = f"%b differs in other.wir with {name} from lines.wir with {name}"
        assert f"error WIR914: {where}" in result.stderr
        assert result.stdout == ""
    assert "other.wir:5:3: error" in invoke("diff-run", "lines.wir", "other.wir").stderr
    result = invoke("diff-run", "lines.wir", "lines.wir")
    assert (result.exit_code, result.stdout[:13]) == (0, "no difference"), result.stderr


def test_programs_of_other_inputs_or_outputs_are_refused(folder: Path) -> None:
    assert "%x: f32[8]" in LINES
    (folder / "wide.wir").write_text(LINES.replace("f32[8]", "f32[9]"))
    result = invoke("diff-run", "lines.wir", "wide.wir")
    assert result.exit_code == 1
    assert "wide.wir" in result.stderr
    assert "error WIR8" in result.stderr
    assert "  return %c\n" in LINES
    (folder / "more.wir").write_text(LINES.replace("return %c\n", "return %c, %y\n"))
    result = invoke("diff-run", "lines.wir", "more.wir")
    assert result.exit_code == 2
    assert "the programs return 1 and 2 values" in result.stderr


def test_what_to_compare_with_is_asked_for() -> None:
    for first in ("interpreter", "python", "eager"):
        result = invoke("diff-run", "lines.wir", first)
        assert result.exit_code == 2
        assert "Missing argument 'SECOND'" in result.stderr


def test_memory_is_checked_without_a_trace_only() -> None:
    result = invoke("run", "lines.wir", "--trace", "--check-memory", "--emitter", "python")
    assert result.exit_code == 2
    assert "--check-memory is for runs without --trace" in result.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("frontend", ["export", "lowering"])
def test_a_model_is_compared_with_eager(
    frontend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("diff-run", "model.py:Model", "eager", "python", "--frontend", frontend)
    result = invoke(*words)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("no difference: ")
    if frontend == "export":
        call_another(monkeypatch, "relu", "sigmoid")
        result = invoke(*words)
        assert result.exit_code == 4
        assert "WIR914" in result.stderr
        assert "note: this line is from" in result.stderr


@pytest.mark.usefixtures("folder")
def test_inputs_of_a_program_are_not_for_eager() -> None:
    result = invoke("diff-run", "model.py:Model", "eager", "python", "--inputs", "x.pt")
    assert result.exit_code == 2


def test_what_fails_has_statuses_of_its_own(folder: Path) -> None:
    """A reduction by this command must not end in a program that fails in both runs."""
    text = LINES.replace("aten.cos.default(%a)", "aten.cos.default(%a, 1)")
    (folder / "fails.wir").write_text(text)
    for first, second, code, status in (
        ("lines.wir", "fails.wir", "WIR917", 5),
        ("fails.wir", "lines.wir", "WIR917", 5),
        ("fails.wir", "fails.wir", "WIR918", 1),
    ):
        result = invoke("diff-run", first, second)
        assert (result.exit_code, code in result.stderr) == (status, True), result.stderr
