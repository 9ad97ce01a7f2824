"""Checks generated programs of several ranks, and whether planted faults are found.

Two to four ranks have programs of their own, or one program.  They are verified, run
together by the interpreter, and go through the passes for collectives and memory, whose
results must be valid, give the same bits and keep their limits of memory.  A fault of each
kind is planted in the program of one rank, before or after the passes: the verifier and the
interpreter must find it.
"""

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random

from bench.results import ROOT, Record, tested_versions
from bench.sweep.generated_programs import Batch, Sweep, check_batch, sweep_command
from wrapperir.diagnostics import DiagnosticError
from wrapperir.ir import Program
from wrapperir.passes import (
    MEMORY_PASSES,
    Pass,
    merge_collectives,
    overlap_collectives,
    use_comm_memory,
)
from wrapperir.passes.overlap_collectives import MEMORY_LIMIT
from wrapperir.pipelines import PassLike, run_passes
from wrapperir.testing.rank_check import (
    rank_behaviour,
    rank_codes,
    rank_pass_faults,
    run_together,
)
from wrapperir.testing.rank_faults import RANK_FAULTS
from wrapperir.testing.rank_programs import rank_programs
from wrapperir.text import format_program

INTRODUCTION = """\
# Generated programs of several ranks

{programs} sets of generated programs for two to four ranks: in one half, each rank has a
program of its own, in the other half, all ranks have the same. They have {collectives}
collectives of all kinds, in up to four groups, of several tensors and in called blocks,
with computation, views and writes in between. All were accepted by the verifier, and ran
together in the interpreter without a fault or a deadlock. Made by `make sweep-ranks` with
{versions}: {faults} faults.

## Passes

A result is a fault if it is invalid, alone or together, gives other bits, or has a peak of
live bytes above the limit. *Compiled* are the passes that `torch.compile` runs for
collectives and memory, here where each rank has its own program; *all by name* has
`merge_collectives` and `use_comm_memory`, too, here where all ranks have one program.

| passes | limit of the peak | sets changed |
| --- | ---: | ---: |
{passes}

## Planted faults

Each kind was planted in one rank's program of each set, where there was a place for it: in
one half of the sets as they were drawn, in the other half after the passes.
The last column are those that the interpreter finds, too, when the ranks run.

| fault | planted | found by the verifier | found by running |
| --- | ---: | ---: | ---: |
{found}
"""

_LATE = MEMORY_PASSES.index("update_in_place")
_COMM: Pass = partial(use_comm_memory, devices="cpu")
_WIDE = 4.0
_OVERLAP: Pass = partial(overlap_collectives, limit=_WIDE)
_MERGE: Pass = partial(merge_collectives, limit=_WIDE)
_COMPILED: tuple[PassLike, ...] = (
    *MEMORY_PASSES[:_LATE],
    overlap_collectives,
    *MEMORY_PASSES[_LATE:],
)
_ALL: tuple[PassLike, ...] = (
    *MEMORY_PASSES[:_LATE],
    *(_MERGE, _COMM, overlap_collectives),
    *MEMORY_PASSES[_LATE:],
)
_SETS = frozenset({"compiled", "all by name"})
OWN: Mapping[str, tuple[float, tuple[PassLike, ...]]] = {
    f"overlap_collectives(limit = {_WIDE})": (_WIDE, (_OVERLAP,)),
    "compiled": (MEMORY_LIMIT, _COMPILED),
}
"""The passes that are run on sets in which each rank has its own, and peaks' limits."""
COMMON: Mapping[str, tuple[float, tuple[PassLike, ...]]] = {
    f"overlap_collectives(limit = {_WIDE})": (_WIDE, (_OVERLAP,)),
    f"merge_collectives(limit = {_WIDE})": (_WIDE, (_MERGE,)),
    "all by name": (_WIDE * MEMORY_LIMIT, _ALL),
}
"""The passes that are run on sets in which all ranks have one program."""


def run_batch(batch: Batch) -> Record:
    """Check the programs of a batch; its record counts them and names the first fault."""
    common = batch.number % 2 == 1
    strategy = rank_programs(3 if common else 5, common=common)
    return check_batch(batch, strategy, find_fault)


def find_fault(programs: list[Program], counts: Counter[str]) -> str | None:
    """Return the first fault of a set of programs, with their text.

    ``counts`` counts collectives, what passes change, and planted faults.
    """
    given = programs
    try:
        before = rank_behaviour(programs)
        if before.faults:
            return _shown("the verifier", before.faults, programs)
        counts["collectives"] += sum(
            format_program(program).count(" = collective ") for program in programs
        )
        pipelines = COMMON if programs[0] is programs[1] else OWN
        for name, (limit, passes) in pipelines.items():
            given = _transformed(programs, passes)
            if given == programs:
                continue
            counts[name] += 1
            faults = rank_pass_faults(before, rank_behaviour(given), limit)
            if faults:
                return _shown(name, faults, programs)
        if counts["programs"] % 2:
            given = programs
        for kind in RANK_FAULTS:
            missed = _plant(kind, given, Random(counts["programs"]), counts)
            if missed is not None:
                return _shown(f"{kind} is not found", (), missed)
    except Exception:  # whatever it is, it is a fault of a pass or of this check
        return _shown("a traceback", (traceback.format_exc(),), given)
    return None


def _transformed(
    programs: Sequence[Program], passes: tuple[PassLike, ...]
) -> list[Program]:
    """Run passes once on each program, which ranks may have in common."""
    made = {id(program): program for program in programs}
    made = {key: run_passes(program, passes) for key, program in made.items()}
    return [made[id(program)] for program in programs]


def _plant(
    kind: str, programs: list[Program], rng: Random, counts: Counter[str]
) -> list[Program] | None:
    """Plant a fault in one program; return the programs if it is not found."""
    fault, index = RANK_FAULTS[kind], rng.randrange(len(programs))
    changed = fault.plant(programs[index], rng)
    if changed is None:
        return None
    faulty = [*programs[:index], changed, *programs[index + 1 :]]
    counts[f"{kind}, planted"] += 1
    if not rank_codes(faulty) & fault.codes:
        return faulty
    counts[f"{kind}, verified"] += 1
    try:
        run_together(faulty)
    except DiagnosticError:
        counts[f"{kind}, run"] += 1
        return None
    return faulty


def _shown(what: str, faults: Sequence[str], programs: Sequence[Program]) -> str:
    return "\n".join([what, *faults, *map(format_program, programs)])


def format_table(records: Sequence[Record]) -> str:
    """Return the page of ``docs/results`` for these records."""
    totals: Counter[str] = Counter()
    for record in records:
        for name, count in record.items():
            if name not in ("name", "fault"):
                totals[name] += int(count or 0)
    passes = [
        f"| {name if name in _SETS else f'`{name}`'} | {limit:g} | {totals[name]} |"
        for name, (limit, _) in {**OWN, **COMMON}.items()
    ]
    found = [
        f"| {kind} | {totals[f'{kind}, planted']} | {totals[f'{kind}, verified']} "
        f"| {totals[f'{kind}, run']} |"
        for kind in RANK_FAULTS
    ]
    return INTRODUCTION.format(
        programs=totals["programs"],
        collectives=totals["collectives"],
        faults=totals["faults"],
        versions=tested_versions(),
        passes="\n".join(passes),
        found="\n".join(found),
    )


SWEEP = Sweep(
    name="sweep-ranks",
    page=ROOT / "docs" / "results" / "rank-programs.md",
    run_batch=run_batch,
    format_page=format_table,
    count=10_000,
    seconds=1800.0,
)

if __name__ == "__main__":
    sweep_command(SWEEP)()
