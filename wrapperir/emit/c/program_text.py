"""The text of a program in C or C++, and what its loader needs to know."""

import json
from collections.abc import Mapping
from pathlib import Path

from wrapperir import ir as wir
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.c import HEADERS
from wrapperir.emit.c.context import CContext, source_writer
from wrapperir.emit.c.entry import ProgramBorders
from wrapperir.emit.c.expressions import format_int, format_string, identifiers_in
from wrapperir.emit.c.lines import CLines
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.source_text import Fragment

LOADER, SIGNATURE = "load_program.py", "signature.json"


def program_files(
    program: wir.Program, kind: type[CLines], entry: str, emitter: str
) -> Mapping[str, str | bytes]:
    """Return the files of a program: its text at ``entry``, headers, loader and signature.

    Raises:
        DiagnosticError: WIR705, something has no C; all such places are named.
    """
    facts = ProgramFacts(program)
    headers = {p.name: p.read_text("utf-8") for p in (kind.driver, *HEADERS)}
    used = frozenset[str]().union(*map(identifiers_in, headers.values()))
    context = CContext(facts, kind.device, used)
    lines, borders = kind(context), ProgramBorders(context)
    for _, line in context.walk(program.definitions, ("definitions",)):
        lines.visit(line)
    with context.writer.indented():
        borders.emit_inputs()
        lines.emit_lines(program.lines, ("lines",))
        borders.emit_outputs()
    lines.finish()
    if context.problems:
        raise DiagnosticError(*context.problems)
    hosted = {kind.device} if kind.device != "cpu" else set[str]()
    loader = Path(__file__).with_name(LOADER)
    return {
        entry: _format_file(context, kind.driver.name, emitter),
        SIGNATURE: _format_signature(program, facts, hosted),
        **headers,
        LOADER: loader.read_text("utf-8"),
        **lines.files,
    }


def _format_file(context: CContext, driver: str, emitter: str) -> str:
    writer = source_writer()
    writer.emit_comment(f"Program {context.facts.program.name}, by the {emitter} emitter.")
    counts = {
        "WIR_STREAMS": len(context.streams),
        "WIR_KERNELS": len(context.kernels),
        "WIR_EVENTS": len(context.events),
        "WIR_KEPT": len(context.kept),
    }
    for name, count in counts.items():
        writer.emit_line("#define {} {}", Fragment(name), format_int(count))
    for header in ("stdbool", "stddef", "stdint"):
        writer.emit_line("#include <{}.h>", Fragment(header))
    writer.emit_blank()
    writer.emit_writer(context.head)
    writer.emit_line("#include {}", format_string(driver))
    writer.emit_blank()
    writer.emit_line(
        "static int wir_program(wir_run *r, const wir_value *inputs, wir_value *outputs) {{"
    )
    writer.emit_writer(context.writer)
    writer.emit_line("  return r->fault == NULL;")
    writer.emit_line("}}")
    writer.emit_blank()
    writer.emit_line('#include "wir_entry.h"')
    return writer.format_text()


def _format_signature(program: wir.Program, facts: ProgramFacts, hosted: set[str]) -> str:
    values: list[wir.Input | wir.ConstantInput] = [*program.inputs, *program.constants]
    given = [
        {"name": f"%{x.name}", "mutated": x.mutated, **_describe(x.type, hosted)}
        for x in values
    ]
    count = len(program.inputs)
    keys = [constant.key for constant in program.constants]
    content = {
        "inputs": given[:count],
        "constants": [{"key": k, **x} for k, x in zip(keys, given[count:], strict=True)],
        "outputs": [_describe(_output_type(x, facts), hosted) for x in program.outputs],
    }
    return json.dumps(content, indent=1) + "\n"


def _output_type(output: wir.Argument, facts: ProgramFacts) -> wir.ValueType | None:
    if isinstance(output, wir.BufferRef):
        return facts.types[output.name]
    if isinstance(output, int | float | wir.Symbol | wir.Operation):
        return wir.ScalarType(facts.kinds.dtype(output))
    return None


def _describe(type: wir.ValueType | None, hosted: set[str]) -> Mapping[str, object]:
    """Return the kind of a value, and the element type and rank of a tensor."""
    if isinstance(type, wir.TensorType):
        device = "cpu" if type.device.kind in hosted else type.device.kind
        names = {"dtype": type.dtype.value, "element": type.dtype.torch_name}
        return {"kind": "tensor", "rank": len(type.size), "device": device, **names}
    if isinstance(type, wir.ScalarType):
        return {"kind": kind_of(type.dtype).value}
    return {"kind": "none"}
