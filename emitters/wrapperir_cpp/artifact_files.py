"""The files of an artifact: the program, its kernels, and the runtime it is built with."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import LiteralString

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.contract import Artifact
from wrapperir.emit.fragment import fragment
from wrapperir.ir.program import SCHEMA_VERSION, Program
from wrapperir.text import format_program as format_program_text
from wrapperir_cpp.arena import plan_arena
from wrapperir_cpp.entry import emit_entry, emit_outputs
from wrapperir_cpp.layout import BUILD_FACTS, PROGRAM, RUNTIME
from wrapperir_cpp.line_facts import find_lines
from wrapperir_cpp.lines import CppLines
from wrapperir_cpp.module_text import CppModule
from wrapperir_cpp.program_text import format_program
from wrapperir_cpp.streams import CUDA_HEADERS, CUDA_SOURCES
from wrapperir_cpp.survey import survey_program

TEXT = "program.wir"
_RUNTIME = Path(__file__).with_name("runtime")
_INCLUDED: Sequence[LiteralString] = ("checks.h", "description.h", "operators.h")
_HEADERS = (
    *(*_INCLUDED, "choices.h", "guarded.h", "numbers.h", "own_folder.h"),
    *("program.h", "runtime.h", "trial.h", "wrapperir.h"),
)
_SOURCES = (
    *("aoti_interface.cpp", "api.cpp", "checks.cpp", "choices.cpp"),
    *("numbers.cpp", "operators.cpp", "own_folder.cpp", "program.cpp"),
)


def emit_artifact(program: Program, emitter: str) -> Artifact:
    """Return the files for a verified program; ``emitter`` is the name to put in them.

    Raises:
        DiagnosticError: the program holds something that cannot be expressed; all such
            places are named.
    """
    module, survey = CppModule(), survey_program(program)
    lines = CppLines(module, survey, plan_arena(program))
    lines.emit_definitions(program.definitions)
    emit_entry(lines, program)
    lines.emit_lines(program.lines)
    emit_outputs(lines, program)
    _check_keys(lines, program)
    if lines.problems:
        raise DiagnosticError(*lines.problems)
    remarks = [
        f"Program {program.name}; emitter {emitter} of wrapperir.",
        f"IR schema {SCHEMA_VERSION}; needs PyTorch's libraries and no Python.",
    ]
    devices = ["cpu", "cuda"] if survey.cuda.devices else ["cpu"]
    included: list[LiteralString] = [*_INCLUDED]
    headers, sources = [*_HEADERS], [*_SOURCES]
    if lines.choices.recent or lines.choices.trials.choices:
        included.insert(1, "choices.h")
    if survey.cuda.devices:
        included.append("cuda.h")
        headers += CUDA_HEADERS
        sources += CUDA_SOURCES
    spelled = [fragment("runtime/{}", fragment(name)) for name in included]
    text = format_program_text(program)
    places = find_lines(program, text)
    files: dict[str, str | bytes] = {
        PROGRAM: format_program(program, lines, places, spelled, remarks),
        TEXT: text,
        BUILD_FACTS: json.dumps(
            {
                "devices": devices,
                "constants": [constant.key for constant in program.constants],
            }
        ),
        **module.files,
    }
    for name in (*headers, *sources):
        files[f"{RUNTIME}{name}"] = (_RUNTIME / name).read_text("utf-8")
    return Artifact(emitter, files, PROGRAM)


def _check_keys(lines: CppLines, program: Program) -> None:
    for index, constant in enumerate(program.constants):
        if "\0" in constant.key:
            lines.at(("constants",), index)
            lines.report(
                "a constant's key has a zero character, where strings of C end",
                f"%{constant.name}",
            )
