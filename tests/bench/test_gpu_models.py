"""The sweep of models on a GPU: its tasks, what runs again, its records and its page."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from bench.model_run import ModelTask
from bench.results import Record, ResultFile
from bench.sweep import gpu_models
from bench.sweep.compiled import CountingBackend
from bench.sweep.gpu_model_sample import CONTENDERS, Sample, record_name, run_sample
from bench.sweep.gpu_models import Sweep, page_text, waiting_samples
from bench.sweep.wide_zoo import WIDE, WIDE_ZOO
from bench.sweep.worker_pool import Lost


def record_of(task: str, contender: str, status: str = "pass", **more: str) -> Record:
    figures = {"inductor_error": 2e-7, "inductor_seconds": 3.0, "error": 1e-7, "seconds": 2}
    name = record_name(task, contender)
    return {"name": name, "status": status, "graphs": 1, **figures, **more}


def by_name(*records: Record) -> dict[str, Record]:
    return {str(record["name"]): record for record in records}


def test_twenty_architectures_run_and_half_of_them_in_training() -> None:
    trained = [each for each in WIDE if each.trained]
    assert len(WIDE) >= 20
    assert 2 * len(trained) >= len(WIDE)
    assert len(WIDE_ZOO) == len(WIDE) + len(trained)


def test_the_page_shows_figures_failures_and_what_has_not_run() -> None:
    wrong = record_of("bert", "cpp", "wrong", detail="error exceeds")
    crash = {"name": "bert/fx", "status": "crash", "detail": "exit code -11"}
    page = page_text(by_name(record_of("bert", "python"), wrong, crash), "H", "c0ffee")
    assert "at commit c0ffee" in page
    assert (
        "| bert | encoder | inference | 1 | 2.0e-07, 3.0 s | 1.0e-07, 2 s"
        " | **wrong** 1.0e-07, 2 s | **crash** | not run |\n"
    ) in page
    assert f"| passed | 1 of {len(WIDE_ZOO)} | 0 of" in page
    assert "| bert/fx | crash | exit code -11 |" in page


def test_only_what_has_no_record_is_waiting() -> None:
    done = by_name(record_of("bert", "cpp"), *(record_of("t5", c) for c in CONTENDERS))
    samples = waiting_samples(
        ["bert", "t5", "vit-training"], ["python", "cpp"], done, "cpu"
    )
    assert samples == [
        Sample("vit-training", ("python", "cpp"), "cpu"),
        Sample("bert", ("python",), "cpu"),
    ]


def test_contenders_of_a_lost_process_run_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_tasks(
        _: object, tasks: Sequence[Sample], **options: float
    ) -> Iterator[tuple[Sample, list[Record] | Lost]]:
        assert options["tasks_each"] == 1
        for sample in tasks:
            if "cpp" in sample.contenders:
                yield sample, Lost(False, -11)
            else:
                yield sample, [record_of(sample.task, each) for each in sample.contenders]

    monkeypatch.setattr(gpu_models, "run_tasks", run_tasks)
    sweep = Sweep("cpu", "a machine", "c0ffee", ResultFile(tmp_path / "results.jsonl"))
    sweep.run([Sample("bert", ("python", "cpp", "fx"), "cpu")], jobs=1, seconds=1)
    statuses = {name: each["status"] for name, each in sweep.results.read().items()}
    assert statuses == {"bert/python": "pass", "bert/cpp": "crash", "bert/fx": "pass"}
    assert "exit code -11" in sweep.page.read_text()


def test_a_trained_model_starts_anew_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def backend(name: str, options: object = None) -> CountingBackend:
        assert (name == "inductor") == (options is None)
        return CountingBackend("aot_eager")

    def inputs() -> dict[str, torch.Tensor]:
        return {"input": torch.randn(3, 4)}

    def model() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))

    task = ModelTask(name="small", model=model, inputs=inputs, training=True)
    monkeypatch.setitem(WIDE_ZOO, "small", task)
    monkeypatch.setattr("bench.sweep.gpu_model_sample.CountingBackend", backend)
    (record,) = run_sample(Sample("small", ("lowering",), "cpu"))
    assert record["name"] == "small/lowering"
    assert (record["status"], record["graphs"]) == ("pass", 1)
    assert record["error"] == record["inductor_error"] == 0


def test_a_model_that_cannot_be_made_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def model() -> torch.nn.Module:
        raise RuntimeError("no such model")

    task = ModelTask(name="small", model=model, inputs=dict)
    monkeypatch.setitem(WIDE_ZOO, "small", task)
    records = run_sample(Sample("small", ("python", "cpp"), "cpu"))
    assert [record["status"] for record in records] == ["eager_fails"] * 2
    assert "no such model" in str(records[0]["detail"])
