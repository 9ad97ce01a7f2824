"""Training of a tensor-parallel model, whose graphs are given and return meshes."""

import pytest

from tests.forked_processes import ROOT, ProcessServer


@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
@pytest.mark.parametrize(
    "emitter",
    ["python", *(pytest.param(each, marks=pytest.mark.sweep) for each in ("cpp", "fx"))],
)
def test_two_ranks_train(
    emitter: str,
    frontend: str,
    process_server: ProcessServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    module = "tests.backend.distributed_training"
    done = process_server.run("-m", module, emitter, frontend)
    assert done.stdout.endswith("trained\n"), done.stderr[-4000:]
