"""`wrapperir explain --trace`: what is refused, and what is said without any kernel."""

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.files import ADD, invoke


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("add.wir").write_text(ADD)
    return "add.wir"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"", "it is not JSON"),
        ("a.json", b"[]]", "it is not JSON"),
        ("a.json", b"\xff", "it is not UTF-8"),
        ("a.json", b'{"traceEvents": {}}', "no list of traceEvents"),
        ("a.json.gz", b"[]", "it is not a file of gzip"),
        ("a.json.gz", gzip.compress(b"[]", mtime=0)[:-9], "it is not a file of gzip"),
        (
            "a.json.gz",
            gzip.compress(b"[]" * 99, mtime=0)[:-12] + b"0" * 12,
            "it is not a file of gzip",
        ),
    ],
)
def test_what_is_no_trace_is_a_usage_error(
    program: str, name: str, content: bytes, message: str
) -> None:
    Path(name).write_bytes(content)
    found = invoke("explain", program, "--trace", name)
    assert found.exit_code == 2
    assert f"--trace {name}: " in found.stderr
    assert message in found.stderr


def test_a_trace_and_a_subject_are_not_given_together(program: str) -> None:
    found = invoke("explain", program, "%y", "--trace", "trace.json")
    assert found.exit_code == 2
    assert "give either SUBJECT or --trace" in found.stderr


def test_a_trace_that_is_missing_is_named(program: str) -> None:
    found = invoke("explain", program, "--trace", "trace.json")
    assert found.exit_code == 3
    assert "trace.json" in found.stderr


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_without_kernels_says_how_to_get_them(program: str, name: str) -> None:
    text = json.dumps({"traceEvents": [{"ph": "X", "name": "aten::add"}]}).encode()
    Path(name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    found = invoke("explain", program, "--trace", name)
    assert found.exit_code == 0
    assert found.stdout.startswith("kernels of @")
    assert "cpp.enable_kernel_profile" in found.stderr
