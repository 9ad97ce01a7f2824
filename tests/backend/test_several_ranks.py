"""Training on several ranks: graphs are given and return meshes, and start collectives."""

from itertools import product
from pathlib import Path

import pytest

from tests.forked_processes import ROOT, ProcessServer


@pytest.mark.parametrize(
    ("ranks", "emitter", "frontend"),
    [
        ("2", "python", "inductor"),
        ("4", "python", "lowering"),
        pytest.param("2", "cpp", "inductor", marks=pytest.mark.sweep),
        pytest.param("2", "fx", "inductor", marks=pytest.mark.sweep),
    ],
)
def test_ranks_train(
    ranks: str,
    emitter: str,
    frontend: str,
    process_server: ProcessServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    module = "tests.backend.distributed_training"
    done = process_server.run("-m", module, ranks, emitter, frontend)
    assert done.stdout.endswith("trained\n"), done.stderr[-4000:]


IN_EVERY_RUN = {
    ("tensors", "2", "python", "lowering"),
    ("parameters", "2", "python", "lowering"),
}
LLAMAS = [
    pytest.param(*way, marks=() if way in IN_EVERY_RUN else pytest.mark.sweep)
    for way in product(
        ("tensors", "parameters"),
        ("2", "4"),
        ("python", "cpp", "fx"),
        ("inductor", "lowering"),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("split", "ranks", "emitter", "frontend"), LLAMAS)
def test_a_llama_on_several_ranks_is_that_on_one(
    split: str,
    ranks: str,
    emitter: str,
    frontend: str,
    process_server: ProcessServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(ROOT)
    given = split, ranks, emitter, frontend, str(tmp_path)
    done = process_server.run("-m", "tests.backend.distributed_llama", *given)
    *_, last = done.stdout.splitlines() or [""]
    found, _, what = last.partition(" ")
    assert what == "collectives", done.stderr[-4000:]
    # PyTorch gathers split parameters between the graphs, and sums split tensors in them.
    assert (found != "0") == (split == "tensors")
