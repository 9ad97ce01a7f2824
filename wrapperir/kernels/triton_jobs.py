"""Compilations of Triton kernels for targets, with or without a GPU."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from attrs import evolve, frozen

from wrapperir.kernels.compiler import failed
from wrapperir.kernels.cpp_build import side_by_side
from wrapperir.kernels.gpu_targets import Target
from wrapperir.kernels.triton_ahead import CompileFacts
from wrapperir.kernels.triton_compile import (
    WORKERS,
    imported_modules,
    write_jobs,
)

T = TypeVar("T")


@frozen
class TritonJob:
    """One compilation of a kernel for a target, for aligned addresses or any."""

    symbol: str
    target: Target
    is_aligned: bool
    file: str
    facts: CompileFacts
    result: CompileFacts

    @property
    def task(self) -> CompileFacts:
        """The job as the worker reads it."""
        aligned = list(self.facts["aligned"])
        if self.is_aligned:
            aligned += self.facts["checked"]
        keys = ("source", "entry", "signature", "values")
        return {
            **{key: self.facts[key] for key in keys},
            "aligned": aligned,
            "backend": self.target.backend,
            "architecture": self.target.architecture,
            "lanes": self.target.lanes,
            "suffix": self.target.suffix,
            "file": self.file,
        }


def compile_triton(
    kernels: Mapping[str, CompileFacts],
    sources: Mapping[str, str],
    targets: Sequence[Target],
    folder: str,
) -> tuple[list[TritonJob], dict[str, bytes]]:
    """Return the compilations of kernels by symbol, and the files that they made.

    A kernel with ``checked`` arguments has two variants for each target.  If it does not
    compile for one of several targets, that target lacks it, and the result says why.
    ``folder`` is the folder of the files, a path that ends with ``/``.

    Raises:
        DiagnosticError: WIR709, a kernel compiles for no target.
    """
    jobs: list[TritonJob] = []
    for symbol, facts in kernels.items():
        for target in targets:
            for is_aligned in (True, False) if facts["checked"] else (False,):
                # The variant for any address is rarely launched.
                variant = ".any" if facts["checked"] and not is_aligned else ""
                file = f"{folder}{symbol}{variant}.{target.name}.{target.suffix}"
                jobs.append(TritonJob(symbol, target, is_aligned, file, facts, {}))
    parts = split_evenly(jobs, os.cpu_count() or 1)
    done: list[TritonJob] = []
    built: dict[str, bytes] = {}
    for part, contents in side_by_side(lambda part: _run(part, sources), parts):
        done += part
        built.update(contents)
    for symbol, facts in kernels.items():
        of_kernel = [job for job in done if job.symbol == symbol]
        without = {job.target: job for job in of_kernel if "error" in job.result}
        if without and len(without) == len({job.target for job in of_kernel}):
            first = next(iter(without.values()))
            name, error = first.target.name, first.result["error"]
            raise failed(f"{facts['name']} does not compile for {name}: {error}")
    return done, built


def split_evenly(items: Sequence[T], most: int) -> list[Sequence[T]]:
    """Return the items in at most so many parts, of neighbors."""
    count = max(1, min(most, len(items)))
    ends = [len(items) * part // count for part in range(count + 1)]
    return [items[begin:end] for begin, end in pairwise(ends)] if items else []


def _run(
    jobs: Sequence[TritonJob], sources: Mapping[str, str]
) -> tuple[list[TritonJob], dict[str, bytes]]:
    """Return the jobs with their results, and the files that they made."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_jobs(directory, [job.task for job in jobs], sources)
        used = {job.facts["source"] for job in jobs}
        names = ", ".join(dict.fromkeys(job.facts["name"] for job in jobs))
        modules = imported_modules(sources[path] for path in used)
        WORKERS.compile(directory, names, modules)
        results = json.loads((directory / "results.json").read_text(encoding="utf-8"))
        done = [
            evolve(job, result=result) for job, result in zip(jobs, results, strict=True)
        ]
        made = {
            job.file: (directory / job.file).read_bytes()
            for job in done
            if "error" not in job.result
        }
    return done, made
