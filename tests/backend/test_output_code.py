"""Emitted code in PyTorch's logs and traces, and in ``run_and_get_code``, as Inductor's."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.codecache import output_code_log
from torch._inductor.utils import (
    run_and_get_code,
    run_and_get_kernels,
    run_and_get_triton_code,
    run_fw_bw_and_get_code,
)

EMITTERS = ("python", "cpp", "fx")
STARTS = {
    "python": "# Program function; emitter python of wrapperir.",
    "cpp": "// Program function; emitter cpp of wrapperir.",
    "fx": "# function\ndef forward(self",
}
LAYER = torch.nn.Linear(8, 8)


def function(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = LAYER(x).sin()
    return result


BOTH = pytest.mark.parametrize("frontend", ["inductor", "lowering"])
PARTS = {"inductor": ("_fused", "tmp0"), "lowering": ("_sin_0", "v0")}
"""Parts of the names and sources of kernels."""


def compiled(emitter: str, frontend: str = "inductor") -> Any:
    options: Any = {"emitter": emitter, "frontend": frontend}
    return torch.compile(function, backend="wrapperir", options=options)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("quick_kernels")
@BOTH
@pytest.mark.parametrize("emitter", EMITTERS)
def test_run_and_get_code_returns_what_was_emitted(emitter: str, frontend: str) -> None:
    x = torch.randn(4, 8)
    with torch.no_grad():
        result, (code,) = run_and_get_code(compiled(emitter, frontend), x)
        torch.testing.assert_close(result, function(x))
        assert code.startswith(STARTS[emitter])
        assert all(part in code for part in PARTS[frontend])
        assert run_and_get_triton_code(compiled(emitter, frontend), x) == code


@pytest.mark.slow
@pytest.mark.usefixtures("quick_kernels")
@BOTH
@pytest.mark.parametrize("emitter", EMITTERS)
def test_the_code_of_a_backward_is_returned_too(emitter: str, frontend: str) -> None:
    function = compiled(emitter, frontend)
    _, codes = run_fw_bw_and_get_code(lambda: function(torch.randn(4, 8)))
    assert len(codes) == 2


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_run_and_get_kernels_finds_the_kernels(emitter: str) -> None:
    with torch.no_grad():
        _, kernels = run_and_get_kernels(compiled(emitter), torch.randn(4, 8))
    assert any("tmp0" in kernel for kernel in kernels)


def logged(call: Any, caplog: pytest.LogCaptureFixture) -> tuple[str, list[str]]:
    """Return the code of a function, and what the log says while it is compiled."""
    level = output_code_log.level
    output_code_log.setLevel(logging.DEBUG)
    output_code_log.addHandler(caplog.handler)
    try:
        with torch.no_grad():
            _, (code,) = run_and_get_code(call, torch.randn(4, 8))
    finally:
        output_code_log.removeHandler(caplog.handler)
        output_code_log.setLevel(level)
    return code, [record.getMessage() for record in caplog.records]


@pytest.mark.usefixtures("quick_kernels")
@BOTH
@pytest.mark.parametrize("emitter", EMITTERS)
def test_the_log_shows_program_code_and_a_file(
    emitter: str, frontend: str, caplog: pytest.LogCaptureFixture
) -> None:
    code, said = logged(compiled(emitter, frontend), caplog)
    assert any("\nprogram @function(" in text for text in said)
    assert f"Output code: \n{code}" in said
    paths = {
        text.removeprefix("Output code written to: ")
        for text in said
        if text.startswith("Output code written to: ")
    }
    (path,) = paths
    assert Path(path).read_text() == code


@pytest.mark.parametrize("option", ["dump_dir", "debug_info"])
@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_the_log_names_the_file_that_runs(
    emitter: str,
    option: str,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    run_cache: Path,
) -> None:
    given = {"dump_dir": str(tmp_path), "debug_info": "code"}[option]
    options: Any = {"emitter": emitter, "frontend": "lowering", option: given}
    call = torch.compile(function, backend="wrapperir", options=options)
    code, said = logged(call, caplog)
    file = Path(said[-1].removeprefix("Output code written to: "))
    assert file.name == {"python": "program.py", "cpp": "program.cpp"}[emitter]
    if option == "dump_dir":
        assert file.parent == tmp_path / "forward-0" / emitter
    else:
        assert file.parent.parent == run_cache / "wrapperir" / "artifacts"
    assert code.startswith(file.read_text())


@pytest.mark.usefixtures("quick_kernels")
@BOTH
@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_trace_has_program_and_code(emitter: str, frontend: str) -> None:
    log = logging.getLogger("torch.__trace")
    entries: list[tuple[dict[str, Any], str]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            fields: dict[str, Any] = vars(record)
            entries.append((fields["metadata"], fields["payload"]))

    handler = Handler()
    log.addHandler(handler)
    try:
        with torch.no_grad():
            _, (code,) = run_and_get_code(compiled(emitter, frontend), torch.randn(4, 8))
    finally:
        log.removeHandler(handler)
    traced = [(m, text) for m, text in entries if "inductor_output_code" in m]
    ((metadata, text),) = traced
    assert text == code
    assert Path(metadata["inductor_output_code"]["file_path"]).read_text() == code
    assert json.dumps(metadata["inductor_output_code"])
    programs = [
        text
        for m, text in entries
        if m.get("artifact", {}).get("name") == "wrapperir_program"
    ]
    assert len(programs) == 1
    assert re.search(r"^program @function\(", programs[0], re.MULTILINE)


def test_code_is_shown_where_no_cache_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from wrapperir.diagnostics import Code
    from wrapperir.frontend import output_code

    def refuse(*_: object) -> None:
        raise Code.INVALID_ARTIFACT.error("no cache")

    monkeypatch.setattr(output_code, "built_once", refuse)
    with torch.no_grad():
        _, (code,) = run_and_get_code(compiled("fx"), torch.randn(4, 8))
    assert code.startswith(STARTS["fx"])
