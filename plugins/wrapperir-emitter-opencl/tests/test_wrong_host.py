"""Host code that is wrong on purpose is found by the checks of plugins."""

import pytest

from fresh_checks import Result, check
from wrapperir_opencl.expressions import RUNTIME

WRONG = {
    "a read without a wait": (
        "clEnqueueReadBuffer(r->state->queues[0], t->memory->mem, CL_TRUE",
        "clEnqueueReadBuffer(r->state->queues[0], t->memory->mem, CL_FALSE",
        "kernel_late_item_own",
    ),
    "a stream that does not wait": (
        "clEnqueueBarrierWithWaitList(",
        "0 && clEnqueueBarrierWithWaitList(",
        "kernel_late_stream_own",
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


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    """Return the results of each wrong host."""
    runs: list[tuple[str, tuple[str, ...]]] = []
    for right, wrong, case in WRONG.values():
        text = RUNTIME.read_text("utf-8")
        assert right in text
        header = tmp_path_factory.mktemp("wrong") / RUNTIME.name
        header.write_text(text.replace(right, wrong), "utf-8")
        runs.append((str(header), (case,)))
    return dict(zip(WRONG, check(*runs), strict=True))


@pytest.mark.device
@pytest.mark.parametrize("name", WRONG)
def test_it_is_found(name: str, results: dict[str, list[Result]]) -> None:
    found = [reason for _, _, status, reason in results[name] if status == "failed"]
    assert found
    assert not any("did not end" in reason for reason in found)
