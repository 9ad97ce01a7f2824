"""Compiles an artifact's Triton kernels ahead of time, with or without a GPU.

A kernel's source is executed for that, so it is done when a program is built, not when it
is emitted, and in processes of their own.
"""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from attrs import evolve, frozen

from wrapperir.emit.fragment import Fragment, fragment, joined
from wrapperir.emit.names import NameTable
from wrapperir.emit.source_writer import SourceWriter
from wrapperir.kernels.compiler import failed
from wrapperir.kernels.cpp_build import side_by_side
from wrapperir_cpp.layout import KERNELS
from wrapperir_cpp.literals import format_int, format_string
from wrapperir_cpp.module_text import source_writer
from wrapperir_cpp.reserved import RESERVED
from wrapperir_cpp.targets import Target
from wrapperir_cpp.triton_kernels import KERNEL_FACTS
from wrapperir_cpp.triton_workers import WORKERS

TABLE = "kernels.cpp"
"""The table of compiled kernels, a source of the host program."""
RECORD = f"{KERNELS}launches.json"
"""How each compiled kernel is launched, for readers."""
_JOBS_OF_A_PROCESS = 6

Facts: TypeAlias = Mapping[str, Any]


@frozen
class _Job:
    """One compilation: of a kernel, for a target, for aligned addresses or any."""

    symbol: str
    target: Target
    is_aligned: bool
    file: str
    facts: Facts
    result: Facts

    @property
    def task(self) -> Facts:
        """What the worker is told."""
        aligned = list(self.facts["aligned"])
        if self.is_aligned:
            aligned += self.facts["checked"]
        return {
            "source": self.facts["source"],
            "entry": self.facts["entry"],
            "signature": self.facts["signature"],
            "values": self.facts["values"],
            "aligned": aligned,
            "backend": self.target.backend,
            "architecture": self.target.architecture,
            "lanes": self.target.lanes,
            "suffix": self.target.suffix,
            "file": self.file,
        }


def compile_triton_kernels(
    files: Mapping[str, str | bytes], targets: Sequence[Target]
) -> dict[str, str | bytes]:
    """Return the files to add to an artifact: its kernels compiled, and their table.

    Where a kernel does not compile for one of several targets, that target lacks it, and
    the record says why.  Without Triton kernels there is nothing to add.

    Raises:
        DiagnosticError: WIR709, a kernel compiles for no target.
    """
    kernels = {
        path.removeprefix(KERNELS).removesuffix(KERNEL_FACTS): json.loads(content)
        for path, content in sorted(files.items())
        if path.endswith(KERNEL_FACTS)
    }
    if not kernels:
        return {}
    jobs = [
        _job(symbol, target, facts, is_aligned=is_aligned)
        for symbol, facts in kernels.items()
        for target in targets
        for is_aligned in ((True, False) if facts["checked"] else (False,))
    ]
    sources = {str(facts["source"]): files for facts in kernels.values()}
    texts = {path: files[path] for path in sources}
    # A kernel's jobs stay together: its source is then executed once.
    count = max(1, min(os.cpu_count() or 1, len(jobs) // _JOBS_OF_A_PROCESS))
    size = -(-len(jobs) // count)
    parts = [jobs[i : i + size] for i in range(0, len(jobs), size)]
    done: list[_Job] = []
    built: dict[str, str | bytes] = {}
    for part, contents in side_by_side(lambda part: _run(part, texts), parts):
        done += part
        built.update(contents)
    for symbol, facts in kernels.items():
        _check(facts, [job for job in done if job.symbol == symbol])
    built[RECORD] = _format_record(done)
    built[TABLE] = _format_table(kernels, done)
    return built


def _job(symbol: str, target: Target, facts: Facts, *, is_aligned: bool) -> _Job:
    # The weaker variant is the one that is rarely launched.
    variant = ".any" if facts["checked"] and not is_aligned else ""
    file = f"{KERNELS}{symbol}{variant}.{target.name}.{target.suffix}"
    return _Job(symbol, target, is_aligned, file, facts, {})


def _run(
    jobs: Sequence[_Job], sources: Mapping[str, str | bytes]
) -> tuple[list[_Job], dict[str, bytes]]:
    """Return the jobs with their results, and the files that they made."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / KERNELS).mkdir()
        for path in {job.facts["source"] for job in jobs}:
            text = sources[path]
            assert isinstance(text, str)
            (directory / path).write_text(text, encoding="utf-8")
        tasks = [job.task for job in jobs]
        (directory / "jobs.json").write_text(json.dumps(tasks), encoding="utf-8")
        names = ", ".join(dict.fromkeys(job.facts["name"] for job in jobs))
        WORKERS.compile(directory, names)
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


def _check(facts: Facts, jobs: Sequence[_Job]) -> None:
    """Refuse a kernel that has no target, or of whose variants a target has just one."""
    without = {job.target: job for job in jobs if "error" in job.result}
    if len(without) < len({job.target for job in jobs}):
        return
    first = next(iter(without.values()))
    raise failed(
        f"{facts['name']} does not compile for {first.target.name}: {first.result['error']}"
    )


def _format_record(jobs: Sequence[_Job]) -> str:
    rows = [
        json.dumps({"file": job.file, "target": job.target.name, **job.result})
        for job in jobs
    ]
    return "[\n  " + ",\n  ".join(rows) + "\n]\n"


def _format_table(kernels: Mapping[str, Facts], jobs: Sequence[_Job]) -> str:
    names = NameTable(RESERVED)
    writer = source_writer()
    writer.emit_comment("Kernels that were compiled for this program, by target.")
    writer.emit_line('#include "cuda.h"')
    writer.emit_blank()
    writer.emit_line("using namespace wrapperir;")
    for symbol, facts in kernels.items():
        kernel = names.claim(symbol)
        binaries = names.claim(f"{symbol}_binaries")
        writer.emit_blank()
        rows = [
            _format_binary(job, _emit_maps(writer, names, job))
            for job in jobs
            if job.symbol == symbol
            and job.target.backend == "cuda"
            and "error" not in job.result
        ]
        table = binaries if rows else fragment("nullptr")
        if rows:
            writer.emit_line("static const TritonBinary {}[] = {{", binaries)
            with writer.indented():
                for row in rows:
                    writer.emit_line("{},", row)
            writer.emit_line("}};")
        masks = [
            Fragment(hex(sum(1 << position for position in facts[kind])))
            for kind in ("checked", "descriptors")
        ]
        writer.emit_line('extern "C" {{')
        writer.emit_line(
            "TritonKernel {} = {{{}, {}, {}, {}, {}, {{}}}};",
            kernel,
            format_string(facts["name"]),
            table,
            format_int(len(rows)),
            *masks,
        )
        writer.emit_line("}}")
    return writer.format_text()


def _emit_maps(writer: SourceWriter, names: NameTable, job: _Job) -> Fragment:
    """Append how a kernel's descriptors are encoded, and return the table's name."""
    maps = job.result["maps"]
    if not maps:
        return fragment("nullptr")
    name = names.claim(f"{job.symbol}_maps")
    rows = [
        fragment(
            "{{{}, {}, {}, {{{}}}}}",
            *(format_int(entry[key]) for key in ("swizzle", "item_bytes", "type")),
            joined(", ", map(format_int, entry["block"])),
        )
        for entry in maps
    ]
    writer.emit_line("static const TensorMap {}[] = {{{}}};", name, joined(", ", rows))
    return name


def _format_binary(job: _Job, maps: Fragment) -> Fragment:
    result = job.result
    return fragment(
        "{{{}}}",
        joined(
            ", ",
            [
                format_string(job.file),
                format_string(result["function"]),
                format_int(job.target.capability),
                _format_flag(job.target.is_exact),
                _format_flag(job.is_aligned),
                format_int(result["threads"]),
                format_int(result["shared_bytes"]),
                format_int(result["cluster"]),
                format_int(result["scratch_bytes"]),
                _format_flag(result["is_cooperative"]),
                _format_flag(result["is_dependent"]),
                maps,
                format_int(result["flags"]),
            ],
        ),
    )


def _format_flag(value: bool) -> Fragment:
    return fragment("true") if value else fragment("false")
