"""Host code that is wrong on purpose is found by the checks of plugins."""

from pathlib import Path

import pytest

from wrapperir.testing.suite import CheckSelection, Status, check_emitter
from wrapperir_opencl import emitter
from wrapperir_opencl.emitter import OpenclEmitter

WRONG = {
    "a read without a wait": (
        "clEnqueueReadBuffer(r->state->queues[0], t->memory->mem, CL_TRUE",
        "clEnqueueReadBuffer(r->state->queues[0], t->memory->mem, CL_FALSE",
        "kernel_late_item_own",
    ),
    "a stream that does not wait": (
        "clEnqueueBarrierWithWaitList(",
        "0 && clEnqueueBarrierWithWaitList(",
        "kernel_streams_own",
    ),
    "memory that is kept": (
        "if (m->mem) clReleaseMemObject(m->mem), wir_count(-m->bytes);",
        "",
        "kernel_buffers_own",
    ),
    "a workspace that is not zeroed": (
        "if (r->failed || span == 0) return !r->failed;",
        "return !r->failed;",
        "kernel_workspaces_own",
    ),
    "a view without its offset": (
        "*t = (wir_tensor){source.memory, source.begin + begin, first};",
        "*t = (wir_tensor){source.memory, source.begin + begin, source.begin + begin};",
        "kernel_buffers_own",
    ),
}


@pytest.mark.device
@pytest.mark.parametrize("name", WRONG)
def test_it_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong, case = WRONG[name]
    text = emitter.RUNTIME.read_text("utf-8")
    assert right in text
    header = tmp_path / emitter.RUNTIME.name
    header.write_text(text.replace(right, wrong), "utf-8")
    monkeypatch.setattr(emitter, "RUNTIME", header)
    selection = CheckSelection(cases=frozenset({case}), devices=frozenset({"opencl"}))
    report = check_emitter(OpenclEmitter(), selection)
    assert report.of(Status.FAILED), [result.reason for result in report.results]
