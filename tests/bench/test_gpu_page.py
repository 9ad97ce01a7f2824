"""The page of `make bench-gpu`, from records as a run leaves them."""

import os
from pathlib import Path

import pytest
import torch

from bench.gpu import speed
from bench.gpu.contenders import CONTENDERS, LONGEST_REASON, reason_of
from bench.gpu.figures import GOALS, Figures
from bench.gpu.models import WORKLOADS, Workload
from bench.gpu.page import SECTIONS, checks_missing, page_text, skipped
from bench.machine import describe_gpu_machine
from bench.results import ROOT, Record, ResultFile


def no_gpu() -> str:
    """Return the beginning of the error that PyTorch raises without a GPU."""
    with pytest.raises((AssertionError, RuntimeError)) as raised:
        torch.zeros((), device="cuda")
    return f"{raised.typename}: {str(raised.value)[:20]}"


def records_of(*records: Record) -> dict[str, Record]:
    return {str(record["name"]): record for record in records}


CALLS = {"inductor-replay": 100.0, "replay": 74.0, "bare": 70.0, "inductor": 400.0}


def calls_of(contender: str, least: float) -> Record:
    return {
        "name": f"gpt2/{contender}/calls",
        "in_place": least,
        "in_place_median": least + 1,
        "moved": least if contender == "bare" else least + 5,
        "moved_median": least + 6,
        "waited": least + 20,
        "error": 0.2 if contender == "replay" else 0.001,
    }


RECORDS = records_of(
    {"name": "machine", "text": "a machine"},
    {"name": "host.gpu_launch", "text": "| emitted | 5.0 |"},
    *(calls_of(contender, least) for contender, least in CALLS.items()),
    {"name": "gpt2/inductor/build", "allocated": 50.0},
    {"name": "gpt2/python/build", "allocated": 60.0},
    {"name": "gpt2/cpp/calls", "skipped": "no compiler"},
    {"name": "gpt2/cpp/build", "skipped": "no compiler"},
    {"name": "resnet/skipped", "skipped": "not installed: torchvision"},
)


def lines_of(page: str, *cells: str) -> list[str]:
    return [line for line in page.splitlines() if all(cell in line for cell in cells)]


def run_in(folder: Path) -> speed.Run:
    """Return a run whose results and caches are in a folder."""
    return speed.Run(
        results=ResultFile(folder / "results.jsonl"),
        folder=folder / "caches",
        environment=os.environ,
        rounds=1,
        jobs=2,
    )


def test_goals_and_contenders_are_known() -> None:
    names = {contender.name for contender in CONTENDERS}
    workloads = {workload.name for workload in WORKLOADS}
    for goal in GOALS:
        assert {goal.contender, goal.base} <= names
        assert goal.limits.keys() <= workloads
    assert all(c.captures is None or c.captures in names for c in CONTENDERS)


def test_ratios_and_their_goals() -> None:
    figures = Figures(RECORDS)
    replay, waited, moved = GOALS[:3]
    assert replay.ratio(figures, "gpt2") == pytest.approx(0.74)
    assert replay.met(figures, "gpt2") is True
    assert waited.ratio(figures, "gpt2") == pytest.approx(94 / 120)
    assert moved.ratio(figures, "gpt2") == pytest.approx(79 / 70)
    assert moved.met(figures, "gpt2") is False
    assert replay.mean(figures) == replay.ratio(figures, "gpt2")
    assert replay.ratio(figures, "bert") is None
    assert replay.met(figures, "bert") is None
    goals = sum(len(goal.limits) for goal in GOALS)
    assert checks_missing(figures) == goals - 4


def test_page_has_the_figures_that_are_there() -> None:
    page = page_text(Figures(RECORDS))
    assert "a machine" in page
    assert lines_of(page, "0.74 ≤ 0.75", "reduce-overhead / Inductor's")
    assert lines_of(page, "**0.78 > 0.75**", "each call waited for")
    assert lines_of(page, "**1.13 > 1.05**")
    assert lines_of(page, "**1.20 > 1.00**", "memory allocated, Python")
    assert "1 goals are met, 3 missed" in page
    assert "| Inductor | 400.0 | 401.0 | 405.0 | 420.0 | 1.00 | 50.0 | – |" in page
    assert "| eager | – | – | – | – | – | – | – |" in page
    assert "BERT" not in page
    assert "| emitted | 5.0 |" in page


def test_page_without_records() -> None:
    page = page_text(Figures({}))
    assert "no run yet" in page
    assert "nothing" in page.split("## Skipped")[1]


def test_what_was_skipped_and_why() -> None:
    said = skipped(Figures(RECORDS))
    assert any("ResNet" in line and "not installed: torchvision" in line for line in said)
    assert sum("no compiler" in line for line in said) == 1
    assert any("differ from eager's by 0.2" in line for line in said)
    assert len(said) == 3


def test_missing_packages_of_a_workload() -> None:
    workload = Workload(
        name="x", title="x", prepare=WORKLOADS[-1].prepare, needs=("torch", "no_such_thing")
    )
    assert workload.missing() == ["no_such_thing"]


def test_the_reason_is_the_backend_s_own_error() -> None:
    error = RuntimeError("wrapped")
    error.inner_exception = TypeError("got 'mode'\nand more")  # type: ignore[attr-defined]
    assert reason_of(error) == "TypeError: got 'mode'"
    assert reason_of(ValueError()) == "ValueError: no message"
    assert len(reason_of(ValueError("long " * 100))) == LONGEST_REASON


def test_a_contender_that_fails_says_why(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    run = run_in(tmp_path)
    record, words = speed._build(run, "softmaxes", "eager")
    assert record["name"] == "softmaxes/eager/build"
    assert no_gpu() in str(record["skipped"])
    assert no_gpu() in words


def test_memory_is_the_least_of_both_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter(
        [
            {"seconds": 9.0, "allocated": 50.0, "reserved": 80.0},
            {"seconds": 3.0, "allocated": 60.0, "reserved": 70.0},
        ]
    )
    monkeypatch.setattr(speed, "_first_calls", lambda *_: next(found))
    run = run_in(tmp_path)
    record, words = speed._build(run, "softmaxes", "python")
    memory = {"allocated": 50.0, "reserved": 70.0}
    assert record == {"name": "softmaxes/python/build", **memory}
    assert "reserved 70.0" in words


def test_builds_that_have_figures_are_not_made_again(tmp_path: Path) -> None:
    built: list[Record] = [
        {"name": f"gpt2/{contender.name}/build", "allocated": 1.0, "reserved": 2.0}
        for contender in CONTENDERS
        if contender.captures is None
    ]
    done = Figures(records_of(*built))
    run = run_in(tmp_path)
    speed.measure_builds(run, WORKLOADS[:1], done)
    assert not run.results.read()


def test_a_workload_is_timed_when_each_contender_has_every_figure_or_a_reason() -> None:
    calls = {"in_place": 1.0, "moved": 1.0, "waited": 1.0}
    names = [f"gpt2/{contender.name}/calls" for contender in CONTENDERS]
    records: dict[str, Record] = {name: {"name": name, **calls} for name in names}
    assert Figures(records).timed("gpt2")
    assert not Figures(records).timed("bert")
    del records["gpt2/replay/calls"]
    assert not Figures(records).timed("gpt2")
    old: Record = {"name": "gpt2/replay/calls", "in_place": 1.0, "moved": 1.0}
    assert not Figures({**records, **records_of(old)}).timed("gpt2")
    refused: Record = {"name": "gpt2/replay/calls", "skipped": "no driver"}
    assert Figures({**records, **records_of(refused)}).timed("gpt2")


def test_memory_is_on_the_page_without_times() -> None:
    built = {"allocated": 50.0, "reserved": 60.0}
    names = "gpt2/inductor/build", "gpt2/python/build"
    page = page_text(Figures({name: {"name": name, **built} for name in names}))
    assert lines_of(page, "| Inductor | – |", "| 50.0 | 60.0 |")
    assert lines_of(page, "1.00 ≤ 1.00", "memory allocated, Python")
    assert "2 goals are met, 0 missed" in page


def test_a_contender_may_need_no_memory() -> None:
    built: list[Record] = [
        {"name": f"{workload}/{contender}/build", "allocated": size, "reserved": 0.0}
        for workload in ("gpt2", "products")
        for contender, size in (("inductor", 50.0), ("python", 0.0))
    ]
    page = page_text(Figures(records_of(*built)))
    (row,) = lines_of(page, "0.00 ≤ 1.00", "memory allocated, Python")
    assert row.endswith("| 0.00 |")
    assert lines_of(page, "memory reserved, Python", "| – | – | – |")


def test_the_page_tells_its_commits_and_turns() -> None:
    figures = Figures(records_of({"name": "commits", "text": "abc"}))
    assert figures.commits("abc") == "abc"
    assert figures.commits("def with changes") == "abc, def with changes"
    assert "make bench-gpu` at commit abc." in page_text(figures)
    records: list[Record] = [
        {"name": f"{n}/eager/calls", "in_place": 1.0, "turns": n} for n in (3, 15)
    ]
    assert "the least of 3 to 15 turns" in page_text(Figures(records_of(*records)))
    assert "the least of 15 turns" in page_text(Figures(records_of(records[1])))


def test_figures_of_other_workloads_stay(tmp_path: Path) -> None:
    names = ["machine", "host.gpu_launch", "gpt2/eager/calls"]
    names += ["bert/eager/build", "bert/eager/calls"]
    results = ResultFile(tmp_path / "results.jsonl")

    def kept(
        machine: str,
        *workloads: str,
        resume: bool = False,
        build: bool = True,
        calls: bool = True,
    ) -> list[str]:
        results.clear()
        for name in names:
            results.add({"name": name, "text": "here"})
        figures = speed.kept_figures(
            results, machine, workloads, resume=resume, build=build, calls=calls
        )
        assert figures.records == results.read()
        return list(figures.records)

    assert kept("here") == []
    assert kept("here", resume=True) == names
    assert kept("here", "bert") == names[:-2]
    assert kept("here", "bert", build=False) == names[:-1]
    assert kept("here", build=False) == ["bert/eager/build"]
    assert kept("here", calls=False) == [*names[:-2], names[-1]]
    assert kept("here", "bert", calls=False) == [*names[:-2], names[-1]]
    assert kept("here", "bert", resume=True) == names
    assert kept("there", "bert", resume=True) == []


def test_each_record_is_kept_and_the_page_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "PAGE", tmp_path / "page.md")
    run = run_in(tmp_path)
    run.add({"name": "machine", "text": "here"}, "began")
    assert "here" in (tmp_path / "page.md").read_text()
    line = {
        "contender": "eager",
        "in_place": 2.0,
        "moved": 3.0,
        "waited": 4.0,
        "error": 0.0,
    }
    run.add(*speed._calls_record("softmaxes", line))
    figures = Figures(run.results.read())
    assert figures.measured("softmaxes")
    assert not figures.measured("products")
    page = (tmp_path / "page.md").read_text()
    assert "softmaxes of 64×64 | 2 |" in page
    assert "softmaxes of 64×64, waited | 4 |" in page
    assert "softmaxes of 64×64, moved | 3 |" in page


def test_a_workload_that_fails_says_why_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.setattr(speed, "PAGE", tmp_path / "page.md")
    run = run_in(tmp_path)
    run.add({"name": "machine", "text": "here"}, "began")
    speed.measure_calls(run, [WORKLOADS[-1]])
    page = (tmp_path / "page.md").read_text()
    assert "here" in page
    assert f"relu): {no_gpu()}" in page
    run.add(*speed._skipped(WORKLOADS[-1], None))
    assert "AssertionError" not in (tmp_path / "page.md").read_text()


def test_a_machine_without_a_gpu_is_told() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(Exception, match="finds no GPU; make bench-gpu GPU_PYTHON"):
        describe_gpu_machine("bench-gpu")


def test_the_output_of_a_section_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "PAGE", tmp_path / "page.md")
    run = run_in(tmp_path)
    speed.measure_sections(run, ["host.gpu_launch"])
    text = Figures(run.results.read()).text("host.gpu_launch")
    assert text.startswith("wrapperir-")
    assert Figures(run.results.read()).complete("host.gpu_launch")
    assert text in (tmp_path / "page.md").read_text()


def test_sections_are_benches() -> None:
    for module in SECTIONS:
        assert Path(ROOT, "bench", *module.split(".")).with_suffix(".py").exists()
