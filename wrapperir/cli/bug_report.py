"""Bug reports of the command line: the options, and what a command that fails writes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from wrapperir.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from wrapperir.bug_reports import BugReport

F = TypeVar("F", bound=Callable[..., Any])

_FOLDER = "wrapperir.bug_report"
_DATA = "wrapperir.bug_report_data"
_OFFER = "--bug-report DIR writes a folder, without tensors, to report this with"
_TARGETS = ("program", "target")
"""Parameters that name what a command works on."""
_VALUES = ("inputs", "constants")
"""Parameters that name files of tensors."""


def bug_report_option(command: F) -> F:
    """Take the folder for a report, and whether it has values of tensors."""

    def keep(context: click.Context, parameter: click.Parameter, given: object) -> None:
        context.meta[_DATA if parameter.name == "bug_report_data" else _FOLDER] = given

    command = click.option(
        "--bug-report",
        metavar="DIR",
        envvar="WRAPPERIR_BUG_REPORT",
        show_envvar=True,
        expose_value=False,
        callback=keep,
        help="If this fails, write a new folder in DIR to report it with: the program,"
        " versions, and the command that repeats it, but no tensors.",
    )(command)
    return click.option(
        "--bug-report-data",
        is_flag=True,
        expose_value=False,
        callback=keep,
        help="Copy the files of --inputs and --constants into the report.",
    )(command)


def report_failure(error: Exception, program: str | None) -> None:
    """Write a report of a command that failed, or say how to have one.

    ``program`` is the text of what the command worked on.  Commands without the option, and
    errors of what the user asked for, are left alone.
    """
    context = click.get_current_context()
    if _FOLDER not in context.meta:
        return
    from wrapperir.bug_reports import is_offered, is_reportable, write_bug_report

    if not is_reportable(error):
        return
    is_json = context.params.get("form") == "json"
    if context.meta[_FOLDER] is None:
        if not is_json and is_offered(error):
            click.echo(f"wrapperir: {_OFFER}", err=True)
        return
    folder = write_bug_report(_report(context, error, program), Path(context.meta[_FOLDER]))
    if folder is not None and not is_json:
        click.echo(f"wrapperir: {folder} has a report of this", err=True)


def _report(context: click.Context, error: Exception, program: str | None) -> "BugReport":
    from wrapperir.bug_reports import BugReport

    files = {} if program is None else {"program.wir": program}
    data: dict[str, object] = {}
    inputs: list[Mapping[str, object]] = []
    renamed = {name: "program.wir" for name in _TARGETS if program is not None}
    for name in _VALUES:
        path = context.params.get(name)
        values = None if path is None else _loaded(path)
        if values is None:
            continue
        inputs += _described(values) if name == "inputs" else ()
        if context.meta.get(_DATA):
            data[f"{name}.pt"] = values
            renamed[name] = f"{name}.pt"
    return BugReport(
        error=error,
        command=_words(context, renamed),
        program=None,
        options={name: value for name, value in context.params.items() if value},
        inputs=inputs,
        files=files,
        data=data,
    )


def _loaded(path: str) -> object:
    from wrapperir.cli.values import load_tensors

    try:
        return load_tensors(path)
    except (DiagnosticError, OSError):  # perhaps that is the error
        return None


def _described(values: object) -> list[Mapping[str, object]]:
    from wrapperir.bug_reports import describe_value

    if isinstance(values, Mapping):
        named = cast("Mapping[object, object]", values)
        return [describe_value(value, str(name)) for name, value in named.items()]
    is_list = isinstance(values, list | tuple)
    listed = cast("Sequence[object]", values) if is_list else [values]
    return [describe_value(value) for value in listed]


def _words(context: click.Context, renamed: Mapping[str, str]) -> list[str]:
    """Return the words of the command, with other files for some of its parameters."""
    words = ["wrapperir", *context.command_path.split()[1:]]
    for parameter in context.command.params:
        name = parameter.name or ""
        value: object = renamed.get(name, context.params.get(name))
        if name not in context.params or value in (None, ()):
            continue
        if value == parameter.get_default(context):
            continue
        if name == "frontend" and "target" in renamed:
            continue  # the program is there already
        if isinstance(parameter, click.Argument):
            words.append(str(value))
        elif isinstance(value, bool):
            words += [parameter.opts[-1]] if value else []
        else:
            is_several = isinstance(value, tuple)
            for each in cast("tuple[object, ...]", value) if is_several else (value,):
                words += [parameter.opts[-1], str(each)]
    return words
