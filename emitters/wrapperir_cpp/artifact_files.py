"""The files of an artifact: the program, its kernels, and the runtime it is built with."""

import json
from collections.abc import Sequence
from typing import LiteralString

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Artifact, fragment
from wrapperir.emit.support import unsupported_device
from wrapperir.ir import SCHEMA_VERSION, Program
from wrapperir_cpp.context import Context
from wrapperir_cpp.debugged_values import show_values
from wrapperir_cpp.device_table import DEVICE_FILES, DeviceTable, runtime_files
from wrapperir_cpp.entry import emit_input_checks, emit_inputs, emit_outputs
from wrapperir_cpp.layout import BUILD_FACTS, CORE_SOURCES, PROGRAM, RUNTIME, TEXT
from wrapperir_cpp.lines import CppLines
from wrapperir_cpp.program_text import find_lines, format_program

_INCLUDED: Sequence[LiteralString] = ("description.h", "numbers.h", "operators.h")
_FILES = runtime_files(
    *(*_INCLUDED, "choices.h", "program.h", "runtime.h", "wrapperir.h"),
    *(path.removeprefix(RUNTIME) for path in CORE_SOURCES),
)

(_DEBUGGING,) = runtime_files("debugging.h")


def emit_artifact(
    program: Program,
    name: str,
    tables: Sequence[DeviceTable],
    lines: type[CppLines],
    *,
    debugged: bool = False,
) -> Artifact:
    """Return the files for a verified program, by the emitter called ``name``.

    With ``debugged``, debuggers find the data of values by their names.

    Raises:
        DiagnosticError: the program holds something that cannot be expressed; all such
            places are named.  Or WIR704, it uses a device that is not in ``tables``.
    """
    context = Context(program, tables, debugged=debugged)
    for device in sorted(context.devices.mentioned, key=str):
        if device.kind not in context.tables:
            supported = frozenset(context.tables)
            raise DiagnosticError(unsupported_device(name, device, supported))
    emitted = lines(context)
    emitted.emit_definitions(program.definitions)
    emit_inputs(context, program)
    emitted.emit_symbols(program.symbols)
    emit_input_checks(context, program)
    show_values(context, [given.name for given in program.inputs])
    show_values(context, [constant.name for constant in program.constants])
    emitted.emit_lines(program.lines)
    emit_outputs(context, program)
    for index, constant in enumerate(program.constants):
        if "\0" in constant.key:  # a string of C would end there
            context.at(("constants",), index)
            message = "a constant's key has a zero character, where strings of C end"
            context.report(message, f"%{constant.name}")
    if context.problems:
        raise DiagnosticError(*context.problems)
    kinds = {device.kind for device in context.devices.devices}
    used = [table for table in tables if table.kind in kinds]
    remarks = [
        f"Program {program.name}; emitter {name} of wrapperir.",
        f"IR schema {SCHEMA_VERSION}; needs PyTorch's libraries and no Python.",
    ]
    included: list[LiteralString] = [*_INCLUDED]
    if context.choices.recent or context.choices.fastest:
        included.insert(0, "choices.h")
    if used:
        included.append("device.h")
    for table in used:
        included.extend(table.headers)
    if debugged:
        included.append("debugging.h")
    if context.regions:
        included.append("graph_regions.h")
    spelled = [fragment("runtime/{}", fragment(name)) for name in included]
    text, places = find_lines(program)
    files: dict[str, str | bytes] = {
        PROGRAM: format_program(program, context, places, spelled, remarks),
        TEXT: text,
        BUILD_FACTS: json.dumps(
            {
                "devices": ["cpu", *(table.kind for table in used)],
                "libraries": [name for table in used for name in table.libraries],
                "constants": [constant.key for constant in program.constants],
            }
        ),
        **context.module.files,
    }
    if debugged:
        files[f"{RUNTIME}{_DEBUGGING.name}"] = _DEBUGGING.read_text("utf-8")
    return Artifact(name, {**files, **runtime_sources(used)}, PROGRAM)


def runtime_sources(tables: Sequence[DeviceTable]) -> dict[str, str]:
    """Return the runtime's headers and sources for some kinds of device, by path."""
    of_devices = (*(DEVICE_FILES if tables else ()), *(f for t in tables for f in t.files))
    return {
        f"{RUNTIME}{path.name}": path.read_text("utf-8") for path in (*_FILES, *of_devices)
    }
