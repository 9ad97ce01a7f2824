"""Triton kernels in C++: their definitions, launches and compiled code.

A kernel is compiled once for all its calls, with the facts that hold for the arguments
of all calls.  If only the run decides whether addresses are multiples of 16, there are two
variants, and the launch takes the one that the addresses allow.
"""

import json
from collections.abc import Mapping, Sequence
from typing import LiteralString

from wrapperir import ir as wir
from wrapperir.emit import Fragment, NameTable, SourceWriter, fragment, joined
from wrapperir.emit.python.kernels import format_kernel_file
from wrapperir.emit.triton_signature import (
    KERNEL_FACTS,
    bound_values,
    compilation_facts,
    format_facts,
    passed_parameters,
)
from wrapperir.kernels import CompileFacts, Target, TritonJob, compile_triton
from wrapperir_cpp.context import Context
from wrapperir_cpp.kernels import KernelLanguage, LaunchArgument
from wrapperir_cpp.layout import KERNELS
from wrapperir_cpp.literals import format_bool, format_int, format_string
from wrapperir_cpp.module_text import RESERVED, emit_rows, source_writer
from wrapperir_cpp.streams import format_stream

_PREFIX = "triton_"
"""Prefix of the kernels' names; no function of the C library has it."""
TABLE = "kernels.cpp"
"""The table of compiled kernels, a source of the host program."""
RECORD = f"{KERNELS}launches.json"
"""How each compiled kernel is launched, for readers."""
_LONGEST_NAME = 180

# A float as the argument that a kernel declares.
_REAL: Mapping[wir.DType, LiteralString] = {
    wir.DType.F64: "double({})",
    wir.DType.F32: "float({})",
    wir.DType.F16: "half_bits({})",
    wir.DType.BF16: "bfloat16_bits({})",
}


def _declare(context: Context, line: wir.KernelDefinitionLine) -> None:
    """Add the declaration of a Triton kernel, its source and the facts to compile it by."""
    module = context.module
    facts = context.arguments[line.name]
    given = [item[0] for item in passed_parameters(line)]
    for parameter, fact in zip(wir.runtime_parameters(line.parameters), facts, strict=True):
        if parameter.dtype.triton_name is None:
            context.report(f"Triton has no {parameter.dtype.value}", line.name)
            return
        if parameter.name not in given and fact.value is None:
            context.report(
                f"{parameter.name} is a constant of {line.entry}, and calls pass different"
                " values, or one that is known only in the run",
                line.name,
            )
            return
    if any("\ud800" <= character <= "\udfff" for character in line.source):
        context.report("the source of a kernel is not Unicode text", line.name)
        return
    name = line.name.removeprefix(_PREFIX)[:_LONGEST_NAME]
    symbol = module.kernels[line.name] = module.names.claim(f"{_PREFIX}{name}")
    module.declare(fragment("extern TritonKernel {}", symbol))
    source = f"{KERNELS}{symbol}.py"
    module.files[source] = format_kernel_file(line)
    found = format_facts(compilation_facts(line, source, facts))
    module.files[f"{KERNELS}{symbol}{KERNEL_FACTS}"] = found


def _format_launch(
    context: Context,
    line: wir.KernelCallLine,
    kernel: wir.KernelDefinitionLine,
    arguments: Sequence[LaunchArgument],
) -> Fragment:
    """Return ``launch(3, triton_add, c.cuda0, 0, {4, 1, 1}, c.buf0, int32_t{64})``.

    ``arguments`` are one for each runtime parameter of ``kernel``.
    """
    runtime = wir.runtime_parameters(kernel.parameters)
    values = dict(zip((parameter.name for parameter in runtime), arguments, strict=True))
    given = [
        _format_argument(context, parameter, values[name])
        for name, parameter in passed_parameters(kernel)
    ]
    parts = [
        context.line_number(),
        context.module.kernels[kernel.name],
        *format_stream(context, line),
        _format_grid(context, kernel, values),
        *given,
    ]
    return fragment("launch({})", joined(", ", parts))


def _format_argument(
    context: Context, parameter: wir.RuntimeParameter, argument: LaunchArgument
) -> Fragment:
    value, address = argument.value, argument.address
    if isinstance(value, wir.BufferRef):
        assert address is not None  # it is a tensor
        if not isinstance(parameter, wir.DescriptorParameter):
            return address
        type = context.facts.tensor_type(value.name)
        sizes, strides = map(context.format_ints, (type.size, type.stride))
        item = format_int(parameter.dtype.itemsize)
        return fragment("describe({}, {}, {}, {})", address, item, sizes, strides)
    dtype = parameter.dtype
    expressions = context.expressions
    if dtype is wir.DType.BOOL:
        return fragment("int8_t({})", expressions.format_number(value, wir.SymbolKind.BOOL))
    if dtype in _REAL:
        return fragment(
            _REAL[dtype], expressions.format_number(value, wir.SymbolKind.FLOAT)
        )
    c_type = fragment(dtype.cpp_type)
    number = expressions.format_index(value)
    constant = expressions.constant(value)
    if isinstance(constant, int) and _fits(constant, dtype):
        return fragment("{}{{{}}}", c_type, number)
    if dtype in (wir.DType.I64, wir.DType.U64):
        return fragment("{}({})", c_type, number)
    return fragment("narrow<{}>({}, {})", c_type, number, context.line_number())


def _fits(value: int, dtype: wir.DType) -> bool:
    bits = dtype.itemsize * 8
    if dtype.value.startswith("u"):
        return value >= 0 and value.bit_length() <= bits
    return (value if value >= 0 else ~value).bit_length() < bits


def _format_grid(
    context: Context, kernel: wir.KernelDefinitionLine, values: Mapping[str, LaunchArgument]
) -> Fragment:
    numbers: dict[str, wir.Expr] = {
        key: value
        for key, value in bound_values(kernel).items()
        if isinstance(value, int | float)
    }
    for name, argument in values.items():
        if not isinstance(argument.value, wir.BufferRef):
            numbers[name] = argument.value
    extents = [
        context.expressions.format_index(wir.settled_where(wir.substitute(extent, numbers)))
        for extent in kernel.grid or (1,)
    ]
    return fragment("{{{}}}", joined(", ", extents))


TRITON_KERNELS = KernelLanguage(_declare, _format_launch)
"""Triton kernels, launched through the CUDA driver."""


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
    paths = [str(facts["source"]) for facts in kernels.values()]
    sources = {path: str(files[path]) for path in paths}
    jobs, built = compile_triton(kernels, sources, targets, KERNELS)
    rows = [
        json.dumps({"file": job.file, "target": job.target.name, **job.result})
        for job in jobs
    ]
    record = "[\n  " + ",\n  ".join(rows) + "\n]\n"
    return {**built, RECORD: record, TABLE: _format_table(kernels, jobs)}


def _format_table(kernels: Mapping[str, CompileFacts], jobs: Sequence[TritonJob]) -> str:
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
            emit_rows(writer, fragment("static const TritonBinary {}[]", binaries), rows)
        masks = [
            Fragment(hex(sum(1 << position for position in facts[kind])))
            for kind in ("checked", "descriptors")
        ]
        writer.emit_line('extern "C" {{')
        parts = format_string(facts["name"]), table, format_int(len(rows)), *masks
        writer.emit_line("TritonKernel {} = {{{}, {{}}}};", kernel, joined(", ", parts))
        writer.emit_line("}}")
    return writer.format_text()


def _emit_maps(writer: SourceWriter, names: NameTable, job: TritonJob) -> Fragment:
    """Append the table of how a kernel's descriptors are encoded, and return its name."""
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
    facts = ("threads", "shared_bytes", "cluster", "scratch_bytes")
    parts = [
        *(format_string(job.file), format_string(result["function"])),
        *(format_int(job.target.capability), format_bool(job.target.is_exact)),
        *(format_bool(job.is_aligned), *(format_int(result[fact]) for fact in facts)),
        *(format_bool(result["is_cooperative"]), format_bool(result["is_dependent"])),
        *(maps, format_int(result["flags"])),
    ]
    return joined(", ", parts)
