"""Runs the memory passes on many generated programs, and checks their results.

Every pass runs alone, and all of them in sequence, on programs with control flow, views,
mutation, dynamic sizes, pools and streams.  A result must be valid, give the same bits, and
have no higher peak and no overlap or unordered use that the brute-force checker finds.
"""

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence

from bench.results import ROOT, Record, tested_versions
from bench.sweep.generated_programs import STEPS, Batch, Sweep, check_batch, sweep_command
from wrapperir.ir import Language, Program
from wrapperir.passes import MEMORY_PASSES, PASSES, Pass
from wrapperir.passes.plan_memory import Planned, plan_pools
from wrapperir.testing.pass_check import behaviour, pass_faults
from wrapperir.testing.programs import programs
from wrapperir.text import format_program

INTRODUCTION = """\
# Memory passes on generated programs

{programs} generated programs, with control flow, views, mutation, dynamic sizes, pools and
streams, each transformed by every memory pass alone and by all of them in sequence. A
result is a fault if it is invalid, gives other bits, has a higher peak, or has an overlap
or an unordered use that an independent brute-force checker finds: {faults} faults. Made by
`make sweep-memory` with {versions}.
"""
WITH_KERNELS = 8
"""Of so many batches one has programs with kernels, which run slower."""

TRANSFORMS: Mapping[str, Pass] = {
    **{name: PASSES[name] for name in MEMORY_PASSES},
    "plan_memory, outputs": lambda program: plan_pools(program, Planned.OUTPUTS).program,
    "plan_memory, both": lambda program: plan_pools(program, Planned.BOTH).program,
}
PIPELINES = (
    *((name,) for name in TRANSFORMS),
    MEMORY_PASSES,
    tuple(name for name in MEMORY_PASSES if name != "plan_memory"),
    tuple(name.replace("plan_memory", "plan_memory, both") for name in MEMORY_PASSES),
)


def run_batch(batch: Batch) -> Record:
    """Check the programs of a batch; its record counts them and names the first fault."""
    kernels = batch.number % WITH_KERNELS == 0
    strategy = programs(
        languages=(Language.CPP,) if kernels else (),
        max_steps=STEPS[batch.number // WITH_KERNELS % len(STEPS)],
    )
    return check_batch(batch, strategy, find_fault)


def find_fault(program: Program, counts: Counter[str]) -> str | None:
    """Return the first fault of a pass on a program, with the text of the pass's input.

    ``counts`` counts the programs that each pass changes, in some pipeline.
    """
    given = program
    try:
        first = behaviour(program)
        if first.faults:
            return "\n".join(["the program", *first.faults, format_program(program)])
        known = {program: first}
        changes: set[str] = set()
        for names in PIPELINES:
            given = program
            for name in names:
                made = TRANSFORMS[name](given)
                if made == given:
                    continue
                changes.add(name)
                if made not in known:
                    known[made] = behaviour(made, first.symbols)
                faults = pass_faults(known[given], known[made])
                if faults:
                    return "\n".join([name, *faults, format_program(given)])
                given = made
        counts.update(changes)
    except Exception:  # whatever it is, it is a fault of a pass or of this check
        return f"{traceback.format_exc()}\n{format_program(given)}"
    return None


def format_table(records: Sequence[Record]) -> str:
    """Return the page of ``docs/results`` for these records."""
    totals: Counter[str] = Counter()
    for record in records:
        for name in ("programs", "faults", *TRANSFORMS):
            totals[name] += int(record.get(name) or 0)
    intro = INTRODUCTION.format(versions=tested_versions(), **totals)
    rows = [f"| `{name}` | {totals[name]} |" for name in TRANSFORMS]
    return "\n".join([intro, "| pass | programs changed |", "| --- | ---: |", *rows, ""])


SWEEP = Sweep(
    name="sweep-memory",
    page=ROOT / "docs" / "results" / "memory-passes.md",
    run_batch=run_batch,
    format_page=format_table,
    count=100_000,
    seconds=1800.0,
)

if __name__ == "__main__":
    sweep_command(SWEEP)()
