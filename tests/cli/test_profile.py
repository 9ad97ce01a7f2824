"""``wrapperir profile``."""

import json
import re
from pathlib import Path

import pytest
import torch

from tests.cli.files import LINES, invoke


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "lines.wir").write_text(LINES)


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_the_table_names_lines_and_their_source(emitter: str) -> None:
    result = invoke("profile", "lines.wir", "--emitter", emitter, "--repeat", "3")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "wrapperir: profile executes the code in lines.wir\n"
    head = f"profile of @main with {emitter}, medians of 3 calls\n"
    assert result.stdout.startswith(head)
    assert re.search(
        r" 64 bytes\* +[\d.]+  5: %b = extern_kernel aten.cos.default\(%a\) : f32\[8\]\n"
        r"      from model.py:4 \(cos\)\n",
        result.stdout,
    )
    assert re.search(r" 96 bytes\* +[\d.]+  7: %c = ", result.stdout)


def test_json_and_a_trace_are_written(folder: Path) -> None:
    torch.save([torch.ones(8), torch.ones(8)], "in.pt")
    options = ("--format", "json", "-o", "profile.json", "--perfetto", "trace.json")
    result = invoke("profile", "lines.wir", "--inputs", "in.pt", *options)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    found = json.loads((folder / "profile.json").read_text())
    assert [each["line"] for each in found["lines"]] == [4, 5, 6, 7, 8]
    assert found["repeats"] == 10
    assert found["profiled_ns"] > 0
    trace = json.loads((folder / "trace.json").read_text())
    texts = {event["name"] for event in trace["traceEvents"]}
    assert "free %a" in texts


def test_after_passes_lines_have_the_numbers_of_what_runs() -> None:
    result = invoke(
        *("profile", "lines.wir", "--pass", "use_out_variants", "--repeat", "1"),
        *("--format", "json"),
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert any("allocate" in each["text"] for each in found["lines"])
    assert all(each["line"] for each in found["lines"])


def test_both_cannot_go_to_standard_output() -> None:
    result = invoke("profile", "lines.wir", "--perfetto", "-")
    assert result.exit_code == 2
    assert "cannot both go to standard output" in result.stderr


def test_an_error_of_the_code_is_reported(folder: Path) -> None:
    text = LINES.replace("return %c", 'assert_scalar 0 "no"\n  return %c')
    (folder / "lines.wir").write_text(text)
    result = invoke("profile", "lines.wir")
    assert result.exit_code == 1
    assert "error WIR906: the code of emitter python raised" in result.stderr
