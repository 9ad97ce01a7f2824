"""Turns of contenders on a GPU: what is timed, and what the loss of a contender costs.

Nothing here needs a GPU: contenders are functions, or processes that say what such do.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import click
import pytest
import torch

from bench.gpu import speed, turns
from bench.gpu.contenders import CONTENDERS, Step
from bench.gpu.figures import Figures
from bench.gpu.models import WORKLOADS, Inputs, Prepared, Workload
from bench.gpu.turns import Contest, largest_error
from bench.results import Record, ResultFile

X = torch.ones(2)
INPUTS = [(X,)]
KINDS = {"in_place": INPUTS, "moved": 4 * INPUTS, "waited": INPUTS}
WORKLOAD = WORKLOADS[-1]


def test_errors_are_relative_and_see_what_is_missing_or_not_a_number() -> None:
    ones = torch.ones(4)
    assert largest_error([ones, ones], [ones, 1.5 * ones]) == pytest.approx(0.5)
    assert largest_error([ones], []) == float("inf")
    assert largest_error([ones], [ones * float("nan")]) == float("inf")


class GpuLostError(RuntimeError):
    """An error after which the GPU can do nothing more."""


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(turns, "LEAST_SECONDS", 1e-5)


def double(inputs: Inputs) -> torch.Tensor:
    return 2 * inputs[0]


def contest_of(steps: Mapping[str, Step], said: list[Mapping[str, object]]) -> Contest:
    prepared = Prepared(function=lambda x: 2 * x, inputs=INPUTS)
    contest = Contest(workload=WORKLOAD, prepared=prepared, say=said.append)
    contest.steps |= steps
    contest.records |= {name: {} for name in steps}
    contest.expected = [[2 * X]]
    return contest


def figures_in(said: list[Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    return {str(line["contender"]): line for line in said if "contender" in line}


def failing_after(calls: int, error: Exception) -> Step:
    left = iter(range(calls))

    def step(inputs: Inputs) -> torch.Tensor:
        if next(left, None) is None:
            raise error
        return double(inputs)

    return step


@pytest.mark.parametrize("calls", [0, 5, 25, 60])
def test_a_contender_that_fails_loses_only_its_own_figures(calls: int) -> None:
    said: list[Mapping[str, object]] = []
    bad = failing_after(calls, ValueError("bad address"))
    contest = contest_of({"eager": double, "replay": bad, "cpp": double}, said)
    contest.take_turns(KINDS, rounds=40)
    figures = figures_in(said)
    assert figures["replay"] == {
        "contender": "replay",
        "skipped": "ValueError: bad address",
    }
    for name in ("eager", "cpp"):
        assert figures[name]["turns"] == 40
        assert figures[name]["error"] == 0
        assert {"in_place", "moved", "waited", "moved_median"} <= figures[name].keys()


def test_a_lost_gpu_leaves_the_figures_of_whole_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[Mapping[str, object]] = []

    def lost(*_: object) -> None:
        raise GpuLostError("gone")

    def lose(inputs: Inputs) -> torch.Tensor:
        if said.count({"begun": "replay"}) > 2:
            monkeypatch.setattr(torch.cuda, "synchronize", lost)
            lost()
        return double(inputs)

    contest = contest_of({"eager": double, "replay": lose}, said)
    with pytest.raises(GpuLostError):
        contest.take_turns(KINDS, rounds=40)
    figures = figures_in(said)
    assert figures["replay"]["skipped"] == "GpuLostError: gone"
    assert figures["eager"]["turns"] == 2


def test_results_are_compared_after_the_last_turn_too() -> None:
    said: list[Mapping[str, object]] = []
    calls = iter(range(10**6))

    def drifting(inputs: Inputs) -> torch.Tensor:
        return double(inputs) * (1 if next(calls) < 10 else 1.5)

    contest = contest_of({"eager": double, "replay": drifting}, said)
    contest.take_turns(KINDS, rounds=3)
    assert figures_in(said)["replay"]["error"] == pytest.approx(0.5)
    assert figures_in(said)["eager"]["error"] == 0


def test_contenders_begin_rounds_in_turn() -> None:
    said: list[Mapping[str, object]] = []
    contest = contest_of({"eager": double, "python": double, "cpp": double}, said)
    contest.take_turns(KINDS, rounds=2)
    begun = [line["begun"] for line in said if "begun" in line]
    first, second = ["eager", "python", "cpp"], ["python", "cpp", "eager"]
    assert begun == [*first, *second, *first, *second, *first]


@pytest.mark.parametrize("seconds", [0.7, 1.0, 2.3])
def test_each_input_is_called_equally_often(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LEAST_SECONDS", 25.0)
    monkeypatch.setattr(turns, "LEAST_CALLS", 6)
    monkeypatch.setattr(turns, "seconds_of", lambda *_: seconds)
    calls = turns.calls_of_a_turn(double, "in_place", 4 * INPUTS)
    assert calls % 4 == 0
    assert calls * seconds >= 25
    monkeypatch.setattr(turns, "seconds_of", lambda *_: 100.0)
    assert turns.calls_of_a_turn(double, "in_place", 4 * INPUTS) == 8


def test_results_are_compared_with_eager_alone() -> None:
    said: list[Mapping[str, object]] = []
    prepared = Prepared(function=lambda x: 2 * x, inputs=INPUTS)
    contest = Contest(workload=WORKLOAD, prepared=prepared, say=said.append)
    eager = CONTENDERS[0]
    contest.compile(eager)
    assert contest.records == {"eager": {"error": 0.0}}
    failing = Prepared(function=lambda x: x.no_such, inputs=INPUTS)
    contest = Contest(workload=WORKLOAD, prepared=failing, say=said.append)
    contest.compile(eager)
    assert "no_such" in str(figures_in(said)["eager"]["skipped"])
    contest.steps["python"] = double
    contest.records["python"] = {}
    contest.compare("python", contest.results("python"))
    assert contest.records["python"] == {}


# A process that says what `bench.gpu.turns` says, and does what its scripts tell.
PROCESS = """
import json, os, pathlib, sys, time
name, rounds, *without = sys.argv[2:]

def say(**line):
    print(json.dumps(line), flush=True)

def wait_for(path):
    until = time.monotonic() + 60
    while not pathlib.Path(path).exists():
        assert time.monotonic() < until, path
        time.sleep(0.01)

def contend(*names):
    for name in names:
        if name not in without:
            say(begun=name)
            say(contender=name, in_place=1.0, moved=2.0, waited=3.0, turns=1)

def go():
    say(ready=True)
    assert sys.stdin.readline()

NAMES = %s
""" % [contender.name for contender in CONTENDERS]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> speed.Run:
    monkeypatch.setattr(speed, "PAGE", tmp_path / "page.md")
    results = ResultFile(tmp_path / "results.jsonl")
    return speed.Run(
        results=results,
        folder=tmp_path / "caches",
        environment=os.environ,
        rounds=1,
        jobs=2,
    )


def play(monkeypatch: pytest.MonkeyPatch, scripts: Mapping[str, str]) -> list[list[str]]:
    """Let processes run the scripts of their workloads; return the arguments of each."""
    started: list[list[str]] = []

    def start(
        _: speed.Run, module: str, name: str, *arguments: str, caches: str
    ) -> "subprocess.Popen[str]":
        started.append([name, *arguments])
        return subprocess.Popen(
            [sys.executable, "-c", PROCESS + scripts[name], module, name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    monkeypatch.setattr(speed.Run, "start", start)
    return started


def workloads_of(*names: str) -> list[Workload]:
    return [workload for workload in WORKLOADS if workload.name in names]


DEATHS = {
    "in its turn": "go(); contend(*(n for n in NAMES if n != 'replay'))\n"
    "if 'replay' not in without:\n"
    "  say(begun='replay'); os.kill(os.getpid(), 9)\n"
    "say(done=True)",
    "while it compiles": "if 'replay' not in without:\n"
    "  say(begun='replay'); os.kill(os.getpid(), 9)\n"
    "go(); contend(*NAMES); say(done=True)",
}


@pytest.mark.parametrize("when", DEATHS)
def test_a_contender_that_ends_the_process_is_left_out_of_the_next(
    when: str, run: speed.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = play(monkeypatch, {"gpt2": DEATHS[when]})
    speed.measure_calls(run, workloads_of("gpt2"))
    assert started == [["gpt2", "1"], ["gpt2", "1", "replay"]]
    figures = Figures(run.results.read())
    assert figures.timed("gpt2")
    (reason,) = figures.skipped("gpt2", "replay")
    assert reason.startswith("the process was killed")
    assert figures.number("gpt2", "bare", "waited") == 3
    assert "wrapperir, reduce-overhead: the process was killed" in speed.PAGE.read_text()


def test_a_lost_gpu_costs_the_contender_that_lost_it(
    run: speed.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
go()
if "cpp" not in without:
    say(contender="cpp", skipped="an illegal address"); say(skipped="GPU lost"); sys.exit(1)
contend(*NAMES); say(done=True)
"""
    started = play(monkeypatch, {"gpt2": script})
    speed.measure_calls(run, workloads_of("gpt2"))
    assert started == [["gpt2", "1"], ["gpt2", "1", "cpp"]]
    figures = Figures(run.results.read())
    assert figures.timed("gpt2")
    assert figures.skipped("gpt2", "cpp") == ["an illegal address"]
    assert not figures.records["gpt2/skipped"]["skipped"]


def test_a_process_that_fails_without_a_contender_is_not_started_again(
    run: speed.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {
        "gpt2": "sys.exit(3)",
        "bert": "go(); contend(*NAMES[:2]); sys.stdout.write('{\"conten'); sys.exit(4)",
        "resnet": "go(); contend(*NAMES); say(done=True); sys.stdout.close(); os.abort()",
    }
    started = play(monkeypatch, scripts)
    speed.measure_calls(run, workloads_of("gpt2", "bert", "resnet"))
    assert len(started) == 3
    figures = Figures(run.results.read())
    assert "ended with 3" in str(figures.records["gpt2/skipped"]["skipped"])
    assert "ended with 4" in str(figures.records["bert/skipped"]["skipped"])
    assert figures.number("bert", "inductor", "in_place") == 1
    assert not figures.timed("bert")
    assert figures.timed("resnet")
    assert not figures.records["resnet/skipped"]["skipped"]


def test_what_all_processes_say_is_heard_at_once(
    run: speed.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    said: list[str] = []

    def echo(text: str) -> None:
        said.append(text)
        if "bert/eager: compiled" in text:
            heard.touch()

    monkeypatch.setattr(click, "echo", echo)
    end = "go(); contend(*NAMES); say(done=True)"
    scripts = {
        "gpt2": f"wait_for({str(heard)!r}); {end}",
        "bert": f"say(compiled='eager', seconds=2.0); {end}",
    }
    play(monkeypatch, scripts)
    speed.measure_calls(run, workloads_of("gpt2", "bert"))
    figures = Figures(run.results.read())
    assert figures.timed("gpt2")
    assert figures.timed("bert")


def test_a_run_that_is_stopped_builds_no_more(
    run: speed.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = threading.Event()
    built: list[str] = []

    def build(_: speed.Run, workload: str, contender: str) -> tuple[Record, str]:
        built.append(contender)
        dropped.wait(10)
        return {"name": f"{workload}/{contender}/build"}, contender

    def stop(futures: Sequence["Future[tuple[Record, str]]"]) -> None:
        futures[-1].add_done_callback(lambda _: dropped.set())
        raise KeyboardInterrupt

    monkeypatch.setattr(speed, "_build", build)
    monkeypatch.setattr(speed, "as_completed", stop)
    with pytest.raises(KeyboardInterrupt):
        speed.measure_builds(run, workloads_of("gpt2"), Figures({}))
    assert built in (["eager"], ["eager", "inductor"])  # those that ran already


def test_time_is_limited_only_while_a_process_is_listened_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    armed: list[object] = []

    class Timer:
        def __init__(self, *_: object) -> None:
            armed.append(self)

        def cancel(self) -> None:
            armed.remove(self)

    monkeypatch.setattr(speed, "_killed_late", Timer)
    script = "print('{\"begun\": \"cpp\"}', flush=True); print('{\"rea', end='')"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        lines = speed._lines(process)
        assert next(lines) == {"begun": "cpp"}
        assert not armed
        assert list(lines) == []
        assert not armed
