"""The table of an artifact's compiled Triton kernels, a source of the host program."""

import json
from collections.abc import Mapping, Sequence

from wrapperir.emit import Fragment, NameTable, SourceWriter, fragment, joined
from wrapperir.kernels import Facts, Target, TritonJob, compile_triton
from wrapperir_cpp.layout import KERNELS
from wrapperir_cpp.literals import format_bool, format_int, format_string
from wrapperir_cpp.module_text import source_writer
from wrapperir_cpp.reserved import RESERVED
from wrapperir_cpp.triton_kernels import KERNEL_FACTS

TABLE = "kernels.cpp"
"""The table of compiled kernels, a source of the host program."""
RECORD = f"{KERNELS}launches.json"
"""How each compiled kernel is launched, for readers."""


def compile_triton_kernels(
    files: Mapping[str, str | bytes], targets: Sequence[Target]
) -> dict[str, str | bytes]:
    """Return the files to add to an artifact: its kernels compiled, and their table.

    The record says why a target lacks a kernel.  Without Triton kernels nothing is added.

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
    sources = {
        str(facts["source"]): str(files[facts["source"]]) for facts in kernels.values()
    }
    jobs, built = compile_triton(kernels, sources, targets, KERNELS)
    return {**built, RECORD: _format_record(jobs), TABLE: _format_table(kernels, jobs)}


def _format_record(jobs: Sequence[TritonJob]) -> str:
    rows = [
        json.dumps({"file": job.file, "target": job.target.name, **job.result})
        for job in jobs
    ]
    return "[\n  " + ",\n  ".join(rows) + "\n]\n"


def _format_table(kernels: Mapping[str, Facts], jobs: Sequence[TritonJob]) -> str:
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


def _emit_maps(writer: SourceWriter, names: NameTable, job: TritonJob) -> Fragment:
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


def _format_binary(job: TritonJob, maps: Fragment) -> Fragment:
    result = job.result
    return fragment(
        "{{{}}}",
        joined(
            ", ",
            [
                format_string(job.file),
                format_string(result["function"]),
                format_int(job.target.capability),
                format_bool(job.target.is_exact),
                format_bool(job.is_aligned),
                format_int(result["threads"]),
                format_int(result["shared_bytes"]),
                format_int(result["cluster"]),
                format_int(result["scratch_bytes"]),
                format_bool(result["is_cooperative"]),
                format_bool(result["is_dependent"]),
                maps,
                format_int(result["flags"]),
            ],
        ),
    )
