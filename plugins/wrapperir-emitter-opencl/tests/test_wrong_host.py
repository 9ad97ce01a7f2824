"""Host code that is wrong on purpose is found by the checks of plugins."""

import pytest

from fresh_checks import Result, check
from wrapperir.emit.c import HEADERS
from wrapperir_opencl.lines import OpenclLines

WRONG = {
    "a read without a wait": (
        "clEnqueueReadBuffer(r->driver->queues[0], (cl_mem)memory, CL_TRUE",
        "clEnqueueReadBuffer(r->driver->queues[0], (cl_mem)memory, CL_FALSE",
        "kernel_late_item_own",
    ),
    "a stream that does not wait": (
        "clEnqueueBarrierWithWaitList(",
        "0 && clEnqueueBarrierWithWaitList(",
        "kernel_late_stream_own",
    ),
    "memory that is kept": (
        "wir_driver_free(m->driver, m->device);\n    wir_count(-m->bytes);",
        "",
        "kernel_buffers_own",
    ),
    "memory that is kept until the call ends": (
        "  wir_let_go(r, m);\n  wir_destroy(m);\n}",
        "}",
        "peak_buffers",
    ),
    "a workspace that is not zeroed": (
        "if (r->fault != NULL || span == 0) return r->fault == NULL;",
        "return r->fault == NULL;",
        "kernel_workspaces_own",
    ),
    "a view without its offset": (
        "wir_tensor_at(source.memory, source.begin + begin, first)",
        "wir_tensor_at(source.memory, source.begin + begin, source.begin + begin)",
        "kernel_buffers_own",
    ),
}


_TRIES = 4
"""Host code that does not wait may be late enough by chance where others run."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    """Return the results of each wrong host."""
    runs: dict[str, tuple[str, tuple[str, ...]]] = {}
    for name, (right, wrong, case) in WRONG.items():
        headers = [OpenclLines.driver, *HEADERS]
        (found,) = [path for path in headers if right in path.read_text("utf-8")]
        header = tmp_path_factory.mktemp("wrong") / found.name
        header.write_text(found.read_text("utf-8").replace(right, wrong), "utf-8")
        runs[name] = (str(header), (case,))
    results: dict[str, list[Result]] = {}
    for _ in range(_TRIES):
        left = [name for name in runs if not failures(results.get(name, []))]
        if left:
            done = check(*(runs[name] for name in left))
            results.update(zip(left, done, strict=True))
    return results


def failures(results: list[Result]) -> list[str]:
    """Return the reasons of the checks that failed."""
    return [reason for _, _, status, reason in results if status == "failed"]


@pytest.mark.device
@pytest.mark.parametrize("name", WRONG)
def test_it_is_found(name: str, results: dict[str, list[Result]]) -> None:
    found = failures(results[name])
    assert found
    assert not any("did not end" in reason for reason in found)
