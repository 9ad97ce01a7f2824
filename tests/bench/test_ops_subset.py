"""A small draw of the operator sweep: what plain Inductor gets right, we get right."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bench.results import Record, ResultFile, Variant
from bench.sweep import compiled, op_sample
from bench.sweep.op_sample import OpTask, run_op, sample_names
from bench.sweep.ops import COMPARED, format_table, sweep

SEED = 20
SIZE = 5


EMITTERS = ("python", "fx")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[OpTask, Record]:
    """Return the records of all emitters, which share eager's results."""
    kernels = tmp_path_factory.mktemp("kernels")
    names = random.Random(SEED).sample(sample_names(), SIZE)
    tasks = [
        OpTask(name, kernels, Variant(emitter)) for name in names for emitter in EMITTERS
    ]
    return sweep(tasks, jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_draw_of_operators(emitter: str, records: dict[OpTask, Record]) -> None:
    found = [record for task, record in records.items() if task.variant.emitter == emitter]
    assert len({record["name"] for record in found}) == SIZE
    compared = [r for r in found if r["status"] in COMPARED]
    assert len(compared) > SIZE // 2
    assert not [r for r in compared if r["status"] not in {"pass", "diagnostic"}]
    passed = [r for r in compared if r["status"] == "pass"]
    assert len(passed) >= 0.9 * len(compared), compared


def test_results_resume(tmp_path: Path) -> None:
    results = ResultFile(tmp_path / "sweep" / "results.jsonl")
    assert results.read() == {}
    results.add({"name": "add", "status": "error"})
    results.add({"name": "add", "status": "pass"})
    with results.path.open("a") as file:
        file.write('{"name": "mul", "sta')  # the sweep was stopped while it wrote
    assert results.read() == {"add": {"name": "add", "status": "pass"}}


def test_the_table_counts_what_plain_inductor_gets_right() -> None:
    records: dict[str, Record] = {
        str(i): {"name": str(i), "status": status}
        for i, status in enumerate([*COMPARED, "pass", "inductor_fails", "no_sample"])
    }
    table = format_table(records, Variant())
    assert f"**2 of {len(COMPARED) + 1}** samples" in table
    assert "| inductor_fails | 1 |" in table


def test_the_table_names_an_emitter_that_was_chosen() -> None:
    records: dict[str, Record] = {"add": {"name": "add", "status": "pass"}}
    assert "with the emitter" not in format_table(records, Variant())
    table = format_table(records, Variant("cpp"))
    assert table.startswith("# PyTorch's operators with the emitter cpp\n")
    assert "`make sweep-ops EMITTER=cpp`" in table


def test_the_table_of_a_frontend_says_which_samples_call_operators() -> None:
    def record(name: str, group: str | None, calls: str) -> Record:
        return {"name": name, "status": "pass", "group": group, "calls": calls}

    records = {
        str(each["name"]): each
        for each in (
            record("add", "pointwise", ""),
            record("igamma", "pointwise", "aten.igamma.default"),
            record("mm", None, "aten.mm.out"),
        )
    }
    table = format_table(records, Variant(frontend="lowering"))
    assert "| pointwise | 2 | 1 | 50.0% |" in table
    assert "| all samples | 3 | 1 | 33.3% |" in table
    assert table.index("| igamma | pointwise | aten.igamma.default |") < table.index(
        "| mm |"
    )


@pytest.mark.parametrize(
    ("ours", "inductors", "status", "runs"),
    [(1.0, 2.0, "pass", 0), (2.0, 1.0, "wrong", 1), (2.0, 2.0, "inductor_fails", 1)],
)
def test_inductor_runs_where_a_result_is_not_eagers(
    ours: float,
    inductors: float,
    status: str,
    runs: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    found: list[str] = []
    factors = {"wrapperir": ours, "inductor": inductors}

    def lookup(name: str) -> Callable[..., object]:
        def compile(graph: torch.fx.GraphModule, _: object, **options: object) -> object:
            found.append(name)
            return lambda *given: [result * factors[name] for result in graph(*given)]

        return compile

    monkeypatch.setattr(compiled, "lookup_backend", lookup)
    op_sample._sample.cache_clear()
    # A task sets it for its process: later tests would build their kernels anew there.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert run_op(OpTask("add", tmp_path))["status"] == status
    assert found.count("inductor") == runs
