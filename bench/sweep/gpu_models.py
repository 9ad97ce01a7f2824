"""Runs more than twenty architectures on a GPU, half of them in training too.

Each is compiled with every emitter and with the frontend ``lowering``.  Results are
collected in ``out/sweep-models-gpu``; an interrupted sweep resumes.  The page
``docs/results/models-gpu.md`` is written after every result.  On another ``--device`` it is
``out/sweep-models-DEVICE/page.md``.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from attrs import frozen
from rich.progress import Progress

from bench.machine import describe_gpu_machine, describe_machine, measured_commit
from bench.markdown import escape_cell
from bench.model_run import NOISE
from bench.results import ROOT, Record, ResultFile
from bench.sweep.gpu_model_sample import (
    CONTENDERS,
    TRAINING_RUNS,
    Sample,
    record_name,
    run_sample,
)
from bench.sweep.wide_zoo import WIDE, WIDE_ZOO
from bench.sweep.worker_pool import Lost, run_tasks

TARGET = "sweep-models-gpu"
ENVIRONMENT = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # processes enough are at work
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",  # kernels of the hub would take the place of PyTorch's
}
INTRODUCTION = """\
# Model architectures on a GPU

{models} models of the library `transformers` with small random weights, {trained} of them
in training too, compiled with `backend="wrapperir"` and with plain Inductor. Made by
`make {target}` at commit {commit}.

{machine}

All is in f32, without TF32. The error is the largest absolute difference from eager over
every output and, in training, every gradient and buffer. As in `make demo`, a result
passes if its error is at most plain Inductor's in the same process, or if its relative
error against the model in f64 is at most {noise} of eager's or of Inductor's: the largest
difference is often the rounding of one number. In training, where kernels may add in any
order, Inductor's error is the largest of {runs} runs, wrapperir's that of the first.

Seconds are those of the first call with empty caches, compilation included; processes
that ran at the same time make them longer, so they compare contenders, no more. *python*,
*cpp* and *fx* are emitters; *lowering* is `options={{"frontend": "lowering"}}`, kernels of
our own, with emitted Python.

| | {contenders} |
| --- |{rule}
| passed | {passed} |
"""


@frozen
class Sweep:
    """Where the results of a sweep are kept, and what it runs on."""

    device: str
    machine: str
    commit: str
    results: ResultFile

    @property
    def page(self) -> Path:
        """The file of the page."""
        if self.device == "cuda":
            return ROOT / "docs" / "results" / "models-gpu.md"
        return self.results.path.with_name("page.md")

    def run(self, samples: Sequence[Sample], *, jobs: int, seconds: float) -> None:
        """Run the samples, each in a process of its own, and add their records.

        Contenders of a sample that was lost run again, each in a process of its own.
        """
        lost: list[Sample] = []
        with Progress() as progress:
            bar = progress.add_task("models", total=len(samples))
            for sample, outcome in run_tasks(
                run_sample, samples, jobs=jobs, seconds=seconds, tasks_each=1
            ):
                if isinstance(outcome, Lost) and len(sample.contenders) > 1:
                    lost += [
                        Sample(sample.task, (each,), sample.device)
                        for each in sample.contenders
                    ]
                    outcome = []
                elif isinstance(outcome, Lost):
                    outcome = [_lost(sample, outcome, seconds)]
                for record in outcome:
                    self.results.add(record)
                    words = f"{record['name']}: {record['status']}"
                    progress.console.print(words, highlight=False)
                self.write_page()
                progress.update(bar, advance=1)
        if lost:
            self.run(lost, jobs=jobs, seconds=seconds)

    def write_page(self) -> None:
        """Write the page of all records."""
        self.page.parent.mkdir(parents=True, exist_ok=True)
        self.page.write_text(page_text(self.results.read(), self.machine, self.commit))


def _lost(sample: Sample, lost: Lost, seconds: float) -> Record:
    name = record_name(sample.task, sample.contenders[0])
    if lost.timed_out:
        return {"name": name, "status": "timeout", "detail": f"{seconds:.0f} s"}
    return {"name": name, "status": "crash", "detail": f"exit code {lost.exit_code}"}


def page_text(records: Mapping[str, Record], machine: str, commit: str) -> str:
    """Return the page of these records; what has not run yet is shown as such."""
    text = INTRODUCTION.format(
        noise=NOISE,
        models=len(WIDE),
        trained=sum(architecture.trained for architecture in WIDE),
        target=TARGET,
        commit=commit,
        machine=machine,
        runs=TRAINING_RUNS,
        contenders=" | ".join(CONTENDERS),
        rule=" ---: |" * len(CONTENDERS),
        passed=" | ".join(_passed(records, contender) for contender in CONTENDERS),
    )
    text += "\n## Errors and seconds\n\n| model | kind | mode | graphs | Inductor |"
    text += f" {' | '.join(CONTENDERS)} |\n| --- | --- | --- | ---: | ---: |"
    text += " ---: |" * len(CONTENDERS) + "\n"
    for architecture in WIDE:
        modes = {"inference": "", "training": "-training"}
        for mode, suffix in modes.items():
            task = architecture.name + suffix
            if task in WIDE_ZOO:
                cells = [architecture.name, architecture.kind, mode, *_cells(records, task)]
                text += f"| {' | '.join(cells)} |\n"
    failed = [record for record in records.values() if record["status"] != "pass"]
    if failed:
        text += "\n## What did not pass\n\n| task | result | cause |\n| --- | --- | --- |\n"
    for record in sorted(failed, key=lambda record: str(record["name"])):
        cells = [escape_cell(record.get(key)) for key in ("name", "status", "detail")]
        text += f"| {' | '.join(cells)} |\n"
    return text


def _passed(records: Mapping[str, Record], contender: str) -> str:
    found = [records.get(record_name(task, contender)) for task in WIDE_ZOO]
    passed = sum(record is not None and record["status"] == "pass" for record in found)
    return f"{passed} of {len(found)}"


def _cells(records: Mapping[str, Record], task: str) -> list[str]:
    """Return the graphs, Inductor's figures and those of each contender."""
    found = [records.get(record_name(task, contender)) for contender in CONTENDERS]
    counts = [record["graphs"] for record in found if record and "graphs" in record]
    inductor = [
        _figures(record["inductor_error"], record["inductor_seconds"])
        for record in found
        if record and "inductor_error" in record
    ]
    graphs = ", ".join(map(str, dict.fromkeys(counts)))
    return [graphs, next(iter(inductor), ""), *map(_contender_cell, found)]


def _contender_cell(record: Record | None) -> str:
    if record is None:
        return "not run"
    if record["status"] == "pass":
        return _figures(record["error"], record["seconds"])
    status = f"**{str(record['status']).replace('_', ' ')}**"
    if record["status"] == "wrong":
        return f"{status} {_figures(record['error'], record['seconds'])}"
    return status


def _figures(error: object, seconds: object) -> str:
    return f"{error:.1e}, {seconds} s"


def waiting_samples(
    tasks: Sequence[str],
    contenders: Sequence[str],
    done: Mapping[str, Record],
    device: str,
) -> list[Sample]:
    """Return what has no record yet, training first, as it takes longest."""
    waiting = [
        Sample(
            task,
            tuple(each for each in contenders if record_name(task, each) not in done),
            device,
        )
        for task in sorted(tasks, key=lambda task: not WIDE_ZOO[task].training)
    ]
    return [sample for sample in waiting if sample.contenders]


@click.command()
@click.option("--device", default="cuda", show_default=True)
@click.option("--jobs", default=max(1, (os.cpu_count() or 1) * 3 // 4), show_default=True)
@click.option("--seconds", default=240.0, show_default=True, help="Limit of a process.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
@click.option(
    "--contender",
    "contenders",
    multiple=True,
    type=click.Choice(list(CONTENDERS)),
    default=list(CONTENDERS),
    help="Try these only.",
)
@click.argument("names", nargs=-1, type=click.Choice(list(WIDE_ZOO)), metavar="[TASK]...")
def main(
    device: str,
    jobs: int,
    seconds: float,
    fresh: bool,
    contenders: tuple[str, ...],
    names: tuple[str, ...],
) -> None:
    """Sweep the models, or the tasks named."""
    on_gpu = device == "cuda"
    machine = describe_gpu_machine(TARGET) if on_gpu else describe_machine()
    results = ResultFile.of(TARGET if on_gpu else f"sweep-models-{device}")
    if fresh:
        results.clear()
    sweep = Sweep(device, machine, measured_commit(), results)
    os.environ.update(ENVIRONMENT)
    samples = waiting_samples(names or list(WIDE_ZOO), contenders, results.read(), device)
    sweep.run(samples, jobs=jobs, seconds=seconds)
    sweep.write_page()
    for record in results.read().values():
        if record["status"] != "pass":
            click.echo(f"{record['name']}: {record['status']} {record.get('detail')}")
    click.echo(f"page: {sweep.page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
