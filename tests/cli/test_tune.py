"""``wrapperir tune``: the report, what it writes, its options and its exit statuses."""

import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from tests.cli.files import SUMS, invoke
from tests.tuning.costs import Pretended, calling, constant
from wrapperir import tuning
from wrapperir.emit import read_artifact
from wrapperir.ir import MultiKernelLine, Number, Program, RecordedChoice, Symbol
from wrapperir.text import format_program, parse_json, parse_program
from wrapperir.tuning import tune
from wrapperir.tuning.choice_cache import SETTING, fresh_choice_cache
from wrapperir.tuning.measure import Times
from wrapperir.tuning.record import parse_record


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    """Stand in for what takes times."""
    made = Pretended({"slow": constant(100.0), "fast": constant(4.0)})
    monkeypatch.setattr(tune, "CallTimer", lambda *given: made)
    return made


@pytest.fixture(autouse=True)
def sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("sums.wir").write_text(format_program(calling([64])))
    Path("dynamic.wir").write_text(format_program(calling([Symbol("s0")])))
    with fresh_choice_cache():
        yield


def selection(program: Program) -> object:
    (line,) = [d for d in program.definitions if isinstance(d, MultiKernelLine)]
    return line.selection


def test_the_report_says_what_was_chosen_by_how_much_and_why(timer: Pretended) -> None:
    result = invoke("tune", "sums.wir")
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == "tuning of @main with the python emitter"
    assert lines[2] == "@twice: always @fast"
    assert lines[3].startswith("  on ")
    assert lines[4:10] == [
        "             of the best time  at worst  best at",
        "    0 @slow             25.00     25.00  0 cases",
        "    1 @fast              1.00      1.00   1 case",
        "  @slow, the next best, takes 25.00 times as long",
        "    @slow us  @fast us",
        "      100.0     4.000*",
    ]
    assert lines[10] == "  * is what is chosen"
    assert lines[-1].startswith("in all 1 case; ")
    assert lines[-1].endswith(" s")


def test_progress_and_the_warning_are_on_standard_error(timer: Pretended) -> None:
    result = invoke("tune", "dynamic.wir", "--samples", "10")
    assert result.stderr.splitlines() == [
        "wrapperir: tune executes the code in dynamic.wir",
        "wrapperir: timing @twice, case 1 of 10 ...",
        "wrapperir: timing @twice, case 9 of 10 ...",
    ]
    assert len(timer.asked) == 10


def test_the_tuned_program_is_written_as_text_or_json(timer: Pretended) -> None:
    for name, parse in (("tuned.wir", parse_program), ("tuned.json", parse_json)):
        assert invoke("tune", "sums.wir", "-o", name).exit_code == 0
        found = selection(parse(Path(name).read_text()))
        assert isinstance(found, RecordedChoice)
        assert (found.index, found.microseconds) == (1, (100.0, 4.0))
    assert invoke("verify", "tuned.wir").stdout == "tuned.wir: no errors\n"


def test_with_the_program_on_standard_output_the_report_is_elsewhere(
    timer: Pretended,
) -> None:
    result = invoke("tune", "sums.wir", "-o", "-")
    assert isinstance(selection(parse_program(result.stdout)), RecordedChoice)
    assert "@twice: always @fast" in result.stderr
    record = invoke("tune", "sums.wir", "--record", "-")
    assert parse_record(record.stdout).kernels[0].chosen == 1
    assert "1 of them known before" in record.stderr


def test_the_record_is_written(timer: Pretended) -> None:
    assert invoke("tune", "sums.wir", "--record", "tuning.json").exit_code == 0
    report = parse_record(Path("tuning.json").read_text())
    (kernel,) = report.kernels
    assert (kernel.kernel, kernel.choices) == ("twice", ("slow", "fast"))
    assert [case.microseconds for case in kernel.cases] == [(100.0, 4.0)]


def test_a_directory_is_what_compile_makes_with_the_record_in_it(
    timer: Pretended,
) -> None:
    result = invoke("tune", "sums.wir", "-o", "compiled", "--record", "tuning.json")
    assert result.exit_code == 0
    artifact = read_artifact(Path("compiled/python"))
    assert artifact.files["tuning.json"] == Path("tuning.json").read_text()
    assert invoke("tune", "sums.wir", "-o", "tuned.wir").exit_code == 0
    result = invoke("compile", "tuned.wir", "-o", "again")
    assert result.exit_code == 0
    assert "again: main: 3 lines, 2 kernels, 1 multi-kernel, 0 constants" in result.stdout
    for name in ("program.wir", "program.json"):
        assert Path("compiled", name).read_text() == Path("again", name).read_text()
    again = read_artifact(Path("again/python"))
    assert artifact.files == {**again.files, "tuning.json": artifact.files["tuning.json"]}
    assert invoke("run", "compiled", "--emitter", "python").exit_code == 0
    # and a second time, over what is there
    assert invoke("tune", "sums.wir", "-o", "compiled").exit_code == 0


def test_a_directory_that_tune_did_not_write_is_left_alone(timer: Pretended) -> None:
    Path("mine").mkdir()
    Path("mine/notes").write_text("keep")
    result = invoke("tune", "sums.wir", "-o", "mine")
    assert result.exit_code == 1
    assert "WIR710" in result.stderr
    assert timer.asked == []


def test_values_of_symbols_are_given(timer: Pretended) -> None:
    result = invoke("tune", "dynamic.wir", "--symbol", "s0=64,128", "--symbol", "s0=9,64")
    assert result.exit_code == 0
    assert [values["s0"] for values in timer.asked] == [64, 128, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--symbol", "s0"), "'s0' is not SYMBOL=NUMBER"),
        (("--symbol", "s0=1,,2"), "is not SYMBOL=NUMBER"),
        (("--symbol", "=1"), "is not SYMBOL=NUMBER"),
        (("--symbol", "s0=0"), "s0 = 0 is not in its range 1..100000"),
        (("--symbol", "s9=1"), "the program has no symbol s9 (it has s0)"),
        (("--samples", "0"), "0 is not in the range"),
        (("--seconds", "0"), "0.0 is not in the range"),
        (("-o", "-", "--record", "-"), "cannot both go to standard output"),
        (("--constants", "weights.pt"), "--constants is for a directory"),
    ],
)
def test_a_wrong_command_line_is_status_2(
    timer: Pretended, arguments: Sequence[str], message: str
) -> None:
    result = invoke("tune", "dynamic.wir", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("\n", " ").split())
    assert timer.asked == []


def test_errors_are_status_1_and_missing_files_3(timer: Pretended) -> None:
    assert invoke("tune", "missing.wir").exit_code == 3
    unknown = invoke("tune", "sums.wir", "--emitter", "nothing")
    assert (unknown.exit_code, "WIR700" in unknown.stderr) == (1, True)
    Path("broken.wir").write_text(Path("sums.wir").read_text().replace("free ", "free %no"))
    assert invoke("tune", "broken.wir").exit_code == 1
    wrong = invoke("tune", "broken.wir", "--format", "json")
    assert json.loads(wrong.stderr)[0]["severity"] == "error"


def test_passes_run_before(timer: Pretended) -> None:
    text = Path("sums.wir").read_text()
    unused = "  %unused = allocate f32[2]\n  free %unused\n  kernel_call"
    Path("more.wir").write_text(text.replace("  kernel_call", unused))
    assert "%unused" in invoke("tune", "more.wir", "-o", "-").stdout
    result = invoke("tune", "more.wir", "--pass", "remove_dead_lines", "-o", "-")
    assert "%unused" not in result.stdout
    assert "select recorded(1)" in result.stdout
    unknown = invoke("tune", "sums.wir", "--pass", "make_fast")
    assert (unknown.exit_code, "WIR740" in unknown.stderr) == (1, True)


def test_the_cache_is_used_unless_told_otherwise(timer: Pretended) -> None:
    invoke("tune", "sums.wir")
    assert "1 of them known before" in invoke("tune", "sums.wir").stdout
    assert len(timer.asked) == 1
    assert "known before" not in invoke("tune", "sums.wir", "--no-cache").stdout
    assert len(timer.asked) == 2


def test_the_cache_can_be_turned_off(
    timer: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "0")
    invoke("tune", "sums.wir")
    invoke("tune", "sums.wir")
    assert len(timer.asked) == 2


def test_a_cache_that_others_can_write_to_is_named(
    timer: Pretended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv(SETTING, str(shared))
    result = invoke("tune", "sums.wir")
    assert result.exit_code == 0
    assert f"the cache of choices is not used: {shared} " in result.stderr
    assert list(shared.iterdir()) == []


def test_what_cannot_be_timed_is_said_and_the_status_is_0(timer: Pretended) -> None:
    text = Path("sums.wir").read_text().replace("select benchmark", "select forced(0)")
    Path("settled.wir").write_text(text)
    result = invoke("tune", "settled.wir", "-o", "same.wir")
    assert result.exit_code == 0
    assert (
        "@twice: not tuned: its policy is `forced(0)`; write `select benchmark` to have it"
        " timed\n"
    ) in result.stdout
    assert Path("same.wir").read_text() == text


def test_ctrl_c_is_status_130_and_keeps_what_was_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Mapping[str, Number]] = []

    def interrupted(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        asked.append(values)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return Times((5.0, 1.0), (None, None))

    monkeypatch.setattr(tune, "CallTimer", lambda *given: interrupted)
    result = invoke("tune", "dynamic.wir", "--samples", "4", "-o", "tuned.wir")
    assert result.exit_code == 130
    assert not Path("tuned.wir").exists()
    kept = "wrapperir: kept for the next run: the times of 2 finished cases\n"
    assert result.stderr.endswith(f"{kept}wrapperir: interrupted\n")
    asked.clear()
    for arguments in (("--no-cache",), ("--seed", "5", "--symbol", "s0=99999,99998,99997")):
        alone = invoke("tune", "dynamic.wir", *arguments)
        assert alone.exit_code == 130
        assert ("kept for the next run" in alone.stderr) is (arguments != ("--no-cache",))
        asked.clear()
    again = invoke("tune", "dynamic.wir", "--samples", "4")
    assert "4 cases, 2 of them known before" in again.stdout


def test_the_examples_of_help_choose_something(timer: Pretended) -> None:
    Path("sums.wir").write_text(SUMS)
    timer.microseconds = {"by_columns": constant(9.0), "by_rows": constant(4.0)}
    text = invoke("tune", "--help").stdout
    lines = [x.strip() for x in text.splitlines() if x.startswith("    wrapperir ")]
    assert len(lines) >= 4
    for line in lines:
        if "--emitter cpp" not in line:  # which builds
            result = invoke(*line.split()[1:])
            assert "@row_sums: always @by_rows" in result.stdout, line


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("-o", "missing/tuned.wir"), "missing/tuned.wir: No such file or directory"),
        (("-o", "sums.wir/tuned"), "sums.wir/tuned: Not a directory"),
        (("-o", "folder.wir"), "folder.wir: Is a directory"),
        (("--record", "missing/tuning.json"), "missing/tuning.json: No such file"),
        (("-o", "tuned.wir", "--record", "folder.wir"), "folder.wir: Is a directory"),
    ],
)
def test_what_cannot_be_written_is_found_before_timing(
    timer: Pretended, arguments: Sequence[str], named: str
) -> None:
    Path("folder.wir").mkdir()
    before = sorted(os.listdir())
    result = invoke("tune", "sums.wir", *arguments)
    assert result.exit_code == 3
    assert f"wrapperir: {named}" in result.stderr
    assert timer.asked == []
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("output", ["tuned.wir", "made/compiled"])
def test_a_directory_that_cannot_be_written_to_is_found_before_timing(
    timer: Pretended, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    def refuse(*arguments: object, **named: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), ".")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    result = invoke("tune", "sums.wir", "-o", output)
    assert result.exit_code == 3
    assert f"wrapperir: {output}: Permission denied" in result.stderr
    assert timer.asked == []


def test_a_record_may_go_into_the_directory_that_is_written(timer: Pretended) -> None:
    result = invoke("tune", "sums.wir", "-o", "made", "--record", "made/record.json")
    assert result.exit_code == 0
    assert parse_record(Path("made/record.json").read_text()).kernels[0].chosen == 1


def test_the_report_is_printed_though_nothing_can_be_written(
    timer: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    result = invoke("tune", "sums.wir", "-o", "tuned.wir", "--no-cache")
    assert result.exit_code == 3
    assert "tuned.wir: No space left on device" in result.stderr
    assert "@twice: always @fast" in result.stdout


@pytest.mark.parametrize("setting", ["off", "relative"])
def test_a_setting_of_the_cache_that_is_no_path_is_status_2(
    timer: Pretended, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(SETTING, setting)
    result = invoke("tune", "sums.wir")
    assert result.exit_code == 2
    said = " ".join(result.stderr.replace("│", " ").split())
    assert f"{SETTING}='{setting}' is neither 0 nor an absolute path" in said
    assert timer.asked == []
    assert invoke("tune", "sums.wir", "--no-cache").exit_code == 0


def test_each_choice_is_named_before_its_first_run() -> None:
    result = invoke("tune", "dynamic.wir", "--symbol", "s0=1,2", "--seconds", "0.001")
    assert result.stderr.splitlines()[1:] == [
        "wrapperir: timing @twice, case 1 of 2 ...",
        "wrapperir: timing @twice: @slow, case 1 of 2 ...",
        "wrapperir: timing @twice: @fast, case 1 of 2 ...",
    ]


def test_help_has_examples_and_statuses() -> None:
    text = invoke("tune", "--help").stdout
    assert "wrapperir tune sums.wir -o tuned.wir" in text
    assert "Exit status: 0 also where" in text
    said = " ".join(text.split())
    assert "[default: python]" in said
    assert f"[default: {tuning.SAMPLES};" in said
    assert f"[default: {tuning.SECONDS};" in said
    assert "Times that are kept are taken whatever it is" in said
    assert "tune" in invoke("--help").stdout
