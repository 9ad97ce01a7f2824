"""The text of ``program.c``, and what its loader needs to know."""

import json
from collections.abc import Mapping

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Fragment, SourceWriter, fragment
from wrapperir.emit.c.expressions import format_string
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.number_kinds import kind_of
from wrapperir_opencl.context import OpenclContext
from wrapperir_opencl.entry import Entry
from wrapperir_opencl.expressions import RUNTIME
from wrapperir_opencl.launches import check_kernel
from wrapperir_opencl.lines import OpenclLines


@frozen
class ProgramText:
    """The text of a program in C, and its signature as JSON."""

    code: str
    signature: str


def emit_program(program: wir.Program) -> ProgramText:
    """Return the C of a program.

    Raises:
        DiagnosticError: WIR705, something has no C; all such places are named.
    """
    facts = ProgramFacts(program)
    context = OpenclContext(facts)
    for index, line in enumerate(program.definitions):
        context.at(("definitions",), index)
        if line.name in context.kernels and isinstance(line, wir.KernelDefinitionLine):
            check_kernel(context, line)
    lines = OpenclLines(context)
    entry = Entry(context, lines)
    with context.writer.indented():
        entry.emit_inputs()
        lines.emit_lines(program.lines, ("lines",))
        entry.emit_outputs()
    if context.problems:
        raise DiagnosticError(*context.problems)
    return ProgramText(_format_file(context), _format_signature(program, facts))


def _format_file(context: OpenclContext) -> str:
    program = context.facts.program
    writer = SourceWriter(comment_prefix="// ", indentation="  ")
    writer.emit_comment(f"Program {program.name}, a host program over the OpenCL API.")
    counts = {
        "WIR_QUEUES": len(context.queues),
        "WIR_KERNELS": len(context.kernels),
        "WIR_EVENTS": len(context.events),
        "WIR_KEPT": len(context.kept),
    }
    for name, count in counts.items():
        writer.emit_line("#define {} {}", Fragment(name), Fragment(str(count)))
    writer.emit_line('#include "{}"', Fragment(RUNTIME.name))
    writer.emit_blank()
    kernels = [context.facts.definitions[name] for name in context.kernels]
    _emit_strings(writer, fragment("ENTRIES"), [[_entry(k)] for k in kernels])
    sources = [_source(k).splitlines(keepends=True) for k in kernels]
    _emit_strings(writer, fragment("SOURCES"), sources)
    writer.emit_blank()
    writer.emit_line(
        "static int wir_program(wir_run *r, const wir_value *inputs, wir_value *outputs) {{"
    )
    writer.emit_writer(context.writer)
    writer.emit_line("done:")
    writer.emit_line("  return !r->failed;")
    writer.emit_line("}}")
    return writer.format_text()


def _emit_strings(writer: SourceWriter, name: Fragment, texts: list[list[str]]) -> None:
    """Append an array of strings, each of several lines."""
    writer.emit_line("static const char *const {}[] = {{", name)
    for lines in texts:
        for line in lines or [""]:
            writer.emit_line("    {}", format_string(line))
        writer.emit_line("    ,")
    writer.emit_line("    NULL}};")


def _entry(line: wir.DefinitionLine) -> str:
    assert isinstance(line, wir.KernelDefinitionLine)  # multi-kernels are resolved
    return line.entry


def _source(line: wir.DefinitionLine) -> str:
    assert isinstance(line, wir.KernelDefinitionLine)
    return line.source


def _format_signature(program: wir.Program, facts: ProgramFacts) -> str:
    inputs = [
        {"name": f"%{x.name}", "mutated": x.mutated, **_describe(x.type)}
        for x in program.inputs
    ]
    constants = [
        {"name": f"%{x.name}", "key": x.key, "mutated": x.mutated, **_describe(x.type)}
        for x in program.constants
    ]
    outputs = [_describe(_output_type(x, facts)) for x in program.outputs]
    content = {"inputs": inputs, "constants": constants, "outputs": outputs}
    return json.dumps(content, indent=1) + "\n"


def _output_type(output: wir.Argument, facts: ProgramFacts) -> wir.ValueType | None:
    if isinstance(output, wir.BufferRef):
        return facts.types[output.name]
    if isinstance(output, int | float | wir.Symbol | wir.Operation):
        return wir.ScalarType(facts.kinds.dtype(output))
    return None


def _describe(type: wir.ValueType | None) -> Mapping[str, object]:
    """Return the kind of a value, and the element type and rank of a tensor."""
    if isinstance(type, wir.TensorType):
        names = {"dtype": type.dtype.value, "element": type.dtype.torch_name}
        return {"kind": "tensor", "rank": len(type.size), **names}
    if isinstance(type, wir.ScalarType):
        return {"kind": kind_of(type.dtype).value}
    return {"kind": "none"}
