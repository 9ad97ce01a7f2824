"""Runs many generated programs through both emitters, beside the interpreter.

Programs have control flow, views, mutation, dynamic sizes, pools, streams, operators and
C++ kernels.  The C++ emitter's library and the Python emitter's module must return the same
bits as the interpreter.
"""

import os
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.results import ROOT, Record, tested_versions
from bench.sweep.generated_programs import STEPS, Batch, Sweep, check_batch, sweep_command
from bench.sweep.worker_pool import Lost, run_tasks
from wrapperir.ir import Language, Program, keyword
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing import Case, Outcome, check_case
from wrapperir.testing.programs import programs
from wrapperir.text import format_program
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import PythonEmitter

OUT = ROOT / "out" / "sweep-cpp"
INTRODUCTION = """\
# Generated programs in C++

{programs} generated programs of {lines} lines, with control flow, views, mutation, dynamic
sizes, pools, streams, operators and C++ kernels. Each was run twice by the interpreter, as
the Python emitter's module and as the C++ emitter's library, and all gave the same bits:
{faults} faults. Made by `make sweep-cpp` with {versions}.
"""
SECONDS = 3600.0


def run_batch(batch: Batch) -> Record:
    """Check the programs of a batch; its record counts them and names the first fault."""
    kernels = batch.number % 2 == 0
    strategy = programs(
        languages=(Language.CPP,) if kernels else (),
        max_steps=STEPS[batch.number // 2 % len(STEPS)],
    )
    with own_cache():
        return check_batch(batch, strategy, find_fault)


def find_fault(program: Program, counts: Counter[str]) -> str | None:
    """Return how an emitter's program differs from the interpreter's, with its text.

    ``counts`` counts the lines of each kind.
    """
    counts.update(keyword(line) for line in walk_lines(program.lines))
    try:
        case = Case("generated", program, seeds=(counts["programs"],))
        for emitter in (CppEmitter(), PythonEmitter()):
            if check_case(emitter, case) is not Outcome.PASSED:
                return f"{emitter.name} does not support\n{format_program(program)}"
    except Exception:  # whatever it is, it is a fault of an emitter or of this check
        return f"{traceback.format_exc()}\n{format_program(program)}"
    return None


@contextmanager
def own_cache() -> Generator[None]:
    """Keep what is built for these programs apart, and remove it after.

    What serves every program is linked from the common cache.
    """
    common = OUT / "cache"
    outer = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        cache = Path(folder) / "cache"
        shutil.copytree(common, cache, copy_function=os.link)
        os.environ["XDG_CACHE_HOME"] = str(cache)
        try:
            yield
        finally:
            if outer is None:
                del os.environ["XDG_CACHE_HOME"]
            else:
                os.environ["XDG_CACHE_HOME"] = outer


def fill_cache(_task: int) -> None:
    """Build the parts that all programs share: runtime, kernels' headers, bindings."""
    os.environ["XDG_CACHE_HOME"] = str(OUT / "cache")
    from wrapperir.testing import CASES

    for case in CASES:
        if case.name in ("kernels_cpp", "arguments"):
            check_case(CppEmitter(), case)


def format_table(records: Sequence[Record]) -> str:
    """Return the page of ``docs/results`` for these records."""
    totals: Counter[str] = Counter()
    for record in records:
        for name, value in record.items():
            if isinstance(value, int):
                totals[name] += value
    programs, faults = totals.pop("programs"), totals.pop("faults")
    intro = INTRODUCTION.format(
        programs=programs, faults=faults, lines=totals.total(), versions=tested_versions()
    )
    rows = [f"| `{name}` | {count} |" for name, count in totals.most_common()]
    return "\n".join([intro, "| line | of all programs |", "| --- | ---: |", *rows, ""])


def prepare() -> None:
    """Build what all programs share, in a process of its own."""
    shutil.rmtree(OUT / "cache", ignore_errors=True)
    (OUT / "cache").mkdir(parents=True)
    for _, outcome in run_tasks(fill_cache, [0], jobs=1, seconds=SECONDS):
        if isinstance(outcome, Lost):
            sys.exit("the runtime does not build")


SWEEP = Sweep(
    name="sweep-cpp",
    page=ROOT / "docs" / "results" / "cpp-programs.md",
    run_batch=run_batch,
    format_page=format_table,
    count=20_000,
    seconds=SECONDS,
    tasks_each=1,  # libraries stay loaded
)

if __name__ == "__main__":
    sweep_command(SWEEP, prepare)()
