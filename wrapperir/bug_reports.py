"""Folders to report a bug with: the program, options, versions and how to repeat it."""

import json
import logging
import os
import platform
import re
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attrs import field, frozen

from wrapperir.diagnostics import Code, DiagnosticError, format_diagnostics_json
from wrapperir.emit.artifact import dump_folder

if TYPE_CHECKING:
    from wrapperir.ir import Program

VARIABLE = "WRAPPERIR_BUG_REPORT"
"""The environment variable that names the folder for reports."""

_logger = logging.getLogger("wrapperir.bug_report")

_DISTRIBUTIONS = ("wrapperir", "torch", "triton", "sympy", "numpy", "hypothesis")

_OFFERED = re.compile(r"WIR(6[0-5]|70[2-9]|71[1-3]|743|8|906|914)")
"""Codes of frontends, emitters, passes and runs."""

_OF_USERS = {
    Code.UNKNOWN_OPTION,
    Code.INVALID_OPTION,
    Code.UNKNOWN_EMITTER,
    Code.UNKNOWN_PASS,
    Code.BAD_PIPELINE,
    Code.WRONG_PASS_ARGUMENT,
}
"""Errors of what the user asked for, whose messages say all."""


@frozen(kw_only=True)
class BugReport:
    """An error, and what is needed to repeat it.

    ``command`` repeats it in the folder, where ``program`` is ``program.wir``.  ``inputs``
    describe the inputs.  ``files`` has further texts by name.  ``data`` has values of
    tensors by file: none, unless the user asks for them.
    """

    error: BaseException
    command: Sequence[str]
    program: "Program | None" = None
    options: Mapping[str, object] = field(factory=dict[str, object])
    inputs: Sequence[Mapping[str, object]] = ()
    files: Mapping[str, str] = field(factory=dict[str, str])
    data: Mapping[str, object] = field(factory=dict[str, object])


def report_folder() -> Path | None:
    """Return the folder that the environment names for reports; ``None`` if it does not."""
    named = os.environ.get(VARIABLE, "").strip()
    return Path(named) if named else None


def is_reportable(error: Exception) -> bool:
    """Return whether a report is written of an error, if the user asks for reports."""
    if not isinstance(error, DiagnosticError):
        return True
    return not all(found.code in _OF_USERS for found in error.diagnostics)


def is_offered(error: Exception) -> bool:
    """Return whether an error is perhaps one of wrapperir, or of a plugin or pass.

    The others are errors of a program that the user gave, or of what was asked for.
    """
    if not isinstance(error, DiagnosticError):
        return True
    return is_reportable(error) and any(
        _OFFERED.match(found.code.value) for found in error.diagnostics
    )


def write_bug_report(report: BugReport, root: Path) -> Path | None:
    """Write a report to a new folder in ``root`` and return it.

    If it cannot be written, that is logged, and ``None`` returned: the error that is
    reported matters more.
    """
    try:
        folder = dump_folder(root, "bug")
        for name, text in _files_of(report).items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
        for name, values in report.data.items():
            import torch  # there are tensors

            torch.save(values, folder / name)
    except Exception as error:
        _logger.warning("no bug report was written to %s: %s", root, error)
        return None
    return folder


def describe_value(value: object, name: str | None = None) -> dict[str, object]:
    """Return facts of an input: dtype, size, stride and so on, and no elements."""
    named: dict[str, object] = {} if name is None else {"name": name}
    if hasattr(value, "untyped_storage") or hasattr(value, "stride"):
        tensor = cast(Any, value)
        return {
            **named,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "size": [str(extent) for extent in tensor.shape],
            "stride": [str(step) for step in tensor.stride()],
            "offset": str(tensor.storage_offset()),
            "device": str(tensor.device),
            "requires_grad": bool(tensor.requires_grad),
        }
    return {**named, "type": type(value).__name__}


def _files_of(report: BugReport) -> dict[str, str]:
    files = dict(report.files)
    if report.program is not None:
        from wrapperir.text import format_program

        files["program.wir"] = format_program(report.program)
    facts = {
        "error": _error_facts(report.error),
        "command": list(report.command),
        "options": {name: repr(value) for name, value in report.options.items()},
        "inputs": list(report.inputs),
        "versions": _versions(),
    }
    files["report.json"] = json.dumps(facts, indent=2) + "\n"
    files["traceback.txt"] = "".join(traceback.format_exception(report.error))
    named = ", ".join(f"`{name}`" for name in sorted(report.data))
    files["README.md"] = _README.format(
        error=str(report.error).strip() or type(report.error).__name__,
        command=shlex.join(report.command),
        data=f"Tensors are in {named}." if report.data else _NO_DATA,
    )
    return files


_NO_DATA = "No file holds a tensor; the error above may name single elements."
_README = """\
# A bug of wrapperir

```text
{error}
```

This command repeats it, run in this folder:

```sh
{command}
```

{data} The files hold code, and names of files and of parts of the
model: read them before you send them.
"""


def _error_facts(error: BaseException) -> object:
    if isinstance(error, DiagnosticError):
        return json.loads(format_diagnostics_json(error.diagnostics, "", {}, "program.wir"))
    return {"type": type(error).__name__, "message": str(error)}


def _versions() -> dict[str, object]:
    found: dict[str, object] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
    }
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    entry_points = metadata.entry_points(group="wrapperir")
    found["plugins"] = sorted(
        f"{point.name}: {point.dist.name} {point.dist.version}"
        for point in entry_points
        if point.dist is not None
    )
    torch: Any = sys.modules.get("torch")  # a report imports nothing
    if torch is None:
        return found
    found["torch"] = torch.__version__  # which names the build, too
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        found["gpus"] = [torch.cuda.get_device_name(number) for number in range(count)]
    return found
