"""Programs from files, directories and standard input, and reports of their diagnostics."""

import functools
import io
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, ParamSpec, TextIO

import click
from attrs import evolve, field, frozen

from wrapperir.cli.archives import archive_error, is_archive
from wrapperir.cli.bug_report import report_failure
from wrapperir.diagnostics import (
    TRACEBACKS,
    Code,
    Diagnostic,
    DiagnosticError,
    DiagnosticPlaces,
    LinePath,
    Position,
    diagnostic_objects,
    format_cause,
    format_diagnostics,
    format_diagnostics_json,
)
from wrapperir.ir import Program
from wrapperir.loading import COMPILED_MANIFEST

ERRORS = 1
"""Exit status: errors were reported, each with its code."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, by the convention of shells."""

FILES = 3
"""Exit status: a file could not be read or written."""

P = ParamSpec("P")

_STYLES = (
    (re.compile(r"\berror WIR\d{3}:", re.ASCII), "bold red"),
    (re.compile(r"\bwarning WIR\d{3}:", re.ASCII), "bold yellow"),
    (re.compile(r"^\s*(?:\d+ )?\|\s*(\^~*)$"), "bold green"),
    (re.compile(r"^\s*= hint:"), "bold cyan"),
)

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Stands for a byte that is not part of UTF-8 text."""

PROGRAM_TEXT = "program.wir"
"""The name of a program's text in a directory that ``compile`` wrote."""

PROGRAM_JSON = "program.json"
"""The name of a program's JSON in a directory that ``compile`` wrote."""

STANDARD_INPUT = "-"


@frozen
class Source:
    """A text in which diagnostics are shown, and the positions of a program's parts."""

    name: str
    text: str
    positions: Mapping[LinePath, Position] = field(factory=dict[LinePath, Position])


NOWHERE = Source("wrapperir", "")
"""The source of diagnostics that do not concern a program."""


def read_source(path: str) -> Source:
    """Return the text of a file, of a compiled directory's program, or of standard input.

    Raises:
        DiagnosticError: WIR908, a directory holds no program, or several; or the file is
            an archive.
        OSError: it cannot be read.
    """
    if path == STANDARD_INPUT:
        name, content = "<stdin>", sys.stdin.buffer.read()
    else:
        file = Path(path)
        if file.is_dir():
            file = _program_in(file)
        name, content = str(file), file.read_bytes()
        if is_archive(content):
            raise archive_error(name, io.BytesIO(content))
    # Bytes that are not UTF-8 become lone surrogates, which parse_source reports.
    return Source(name, content.decode(errors="surrogateescape"))


def _program_in(directory: Path) -> Path:
    file = directory / PROGRAM_TEXT
    if file.is_file():
        return file
    inner = [found.parent for found in directory.glob(f"*/{PROGRAM_TEXT}")]
    inner.sort(key=lambda folder: (len(folder.name), folder.name))
    hint = None
    if inner:
        message = f"{directory} holds {len(inner)} programs in folders of their own"
        hint = f"give one of {', '.join(map(str, inner[:10]))}"
    elif (directory / COMPILED_MANIFEST).is_file():
        message = f"{directory} holds no program: compile found none to write"
    else:
        message = f"{directory} is a directory that compile did not write"
    raise Code.NO_PROGRAM.error(message, hint=hint)


def is_program(target: str) -> bool:
    """Return whether a target names a program and not Python code."""
    named = target.endswith((".wir", ".json")) or target == STANDARD_INPUT
    return named or Path(target).is_dir()


def parse_source(source: Source) -> tuple[Program, Source]:
    """Return the program, and the text to show its diagnostics in.

    A text that begins with ``{`` is JSON; its diagnostics are shown in the program's text.

    Raises:
        DiagnosticError: the text is malformed.
    """
    from wrapperir.text import format_with_positions, parse_json, parse_with_positions

    _check_encoding(source.text)

    if source.text.lstrip()[:1] == "{":
        program = parse_json(source.text)
        text, positions = format_with_positions(program)
        return program, Source(f"{source.name} (as text)", text, positions)
    parsed = parse_with_positions(source.text)
    return parsed.program, evolve(source, positions=parsed.positions)


def _check_encoding(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = text[: error.start]
        # errors="surrogateescape" has kept the byte as this surrogate.
        byte = ord(text[error.start]) - 0xDC00
        offset = len(before.encode())
        position = Position(
            before.count("\n") + 1, error.start - (before.rfind("\n") + 1) + 1
        )
        raise Code.BAD_ENCODING.error(
            f"not UTF-8 text (byte 0x{byte:02x} at offset {offset})", position=position
        ) from None


def format_as(program: Program, to: str) -> str:
    """Return the program as text, JSON or a graph in DOT, ended by a newline."""
    from wrapperir.text import format_json, format_program

    if to == "dot":
        from wrapperir.report import format_dot

        return format_dot(program)
    text = format_json(program) if to == "json" else format_program(program)
    return text if text.endswith("\n") else f"{text}\n"


def printed(program: Program, name: str) -> Source:
    """Return the text of a program, in which its diagnostics are shown."""
    from wrapperir.text import format_with_positions

    text, positions = format_with_positions(program)
    return Source(name, text, positions)


def report(
    diagnostics: Sequence[Diagnostic],
    source: Source,
    *,
    form: Literal["text", "json"] = "text",
    err: bool = True,
    programs: Sequence[DiagnosticPlaces] = (),
) -> None:
    """Write diagnostics to standard error, or with ``err=False`` to standard output.

    ``programs`` are those that notes name by number.
    """
    write = format_diagnostics_json if form == "json" else format_diagnostics
    text = write(diagnostics, *_parts(source), programs)
    # Python has None for a stream that was closed before it began.
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if form == "json" or stream is None or not stream.isatty():
        click.echo(text, nl=not text.endswith("\n") and bool(text), err=err)
        return
    from rich.console import Console  # loaded late: only terminals have colours
    from rich.text import Text

    console = Console(stderr=err, highlight=False, soft_wrap=True)
    for line in text.splitlines():
        styled = Text(line)
        for pattern, style in _STYLES:
            styled.highlight_regex(pattern, style)
        console.print(styled)


def places_in(source: Source) -> DiagnosticPlaces:
    """Return the places of a program's text, for notes of other programs."""
    return DiagnosticPlaces(*_parts(source))


def _parts(source: Source) -> tuple[str, Mapping[LinePath, Position], str]:
    return _SURROGATE.sub("\ufffd", source.text), source.positions, source.name


def notice(text: str) -> None:
    """Write a remark to standard error, except with ``--format json``."""
    if click.get_current_context().params.get("form") != "json":
        click.echo(f"wrapperir: {text}", err=True)


def report_as_one(found: Iterable[tuple[Sequence[Diagnostic], Source]]) -> None:
    """Write the diagnostics of several programs to standard output, as one JSON array.

    Notes name the programs by their numbers.
    """
    import json  # loaded late: only tools ask for this form

    found = tuple(found)
    places = [places_in(source) for _, source in found]
    objects = [
        each
        for diagnostics, source in found
        for each in diagnostic_objects(diagnostics, *_parts(source), places)
    ]
    click.echo(json.dumps(objects, indent=2))


def reporting(run: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors of a subcommand into a report on standard error and an exit status.

    Diagnostics are shown in the program that the subcommand named last with
    :func:`working_on`.
    """

    @functools.wraps(run)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        context = click.get_current_context()
        try:
            run(*args, **kwargs)
        except (DiagnosticError, ModuleNotFoundError) as raised:
            error = _coded(raised)
            source = _source_of(error)
            form = context.params.get("form", "text")
            report(error.diagnostics, source, form="json" if form == "json" else "text")
            report_failure(error, _program_text(source))
            if error.__cause__ is not None and shows_tracebacks():
                click.echo(format_cause(error), err=True, nl=False)
            context.exit(ERRORS)
        except BrokenPipeError:
            raise  # click ends quietly
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            click.echo(f"wrapperir: {name}{error.strerror or error}", err=True)
            context.exit(FILES)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            report_failure(error, _program_text(_last_source()))
            raise
        except KeyboardInterrupt:
            click.echo("wrapperir: interrupted", err=True)
            context.exit(INTERRUPTED)

    return wrapped


def shows_tracebacks() -> bool:
    """Return whether the user asks for tracebacks of errors that plugins raise."""
    return os.environ.get(TRACEBACKS, "").strip() not in ("", "0")


def _source_of(error: DiagnosticError) -> Source:
    """Return the text to which the places of an error refer."""
    if type(error) is not DiagnosticError:
        from wrapperir.pipelines import InvalidResultError  # loaded late: all passes

        if isinstance(error, InvalidResultError):
            return printed(error.program, "<program after the pass>")
    return _last_source()


def _last_source() -> Source:
    found: object = click.get_current_context().meta.get(_SOURCE, NOWHERE)
    assert isinstance(found, Source)
    return found


def _program_text(source: Source) -> str | None:
    """Return the text of the program that a command was given, or else made last."""
    given = click.get_current_context().meta.get(_GIVEN)
    if isinstance(given, Source):
        return given.text
    return source.text if source.positions else None


def _coded(error: DiagnosticError | ModuleNotFoundError) -> DiagnosticError:
    """Return the diagnostics; for a module of PyTorch that is missing, WIR909."""
    from wrapperir.emit.pipeline import missing_torch

    if isinstance(error, DiagnosticError):
        return error
    missing = missing_torch(error)
    if missing is None:
        raise error
    return missing


_SOURCE = "wrapperir.source"
_GIVEN = "wrapperir.given_program"


def working_on(source: Source) -> None:
    """Name the program that later diagnostics are about."""
    click.get_current_context().meta[_SOURCE] = source


@contextmanager
def named_as(source: Source) -> Generator[None]:
    """Name a text that diagnostics of a block are about; those after it are not.

    An error that leaves the block is still about the text.
    """
    meta = click.get_current_context().meta
    before = meta.get(_SOURCE)
    working_on(source)
    yield
    if before is None:
        del meta[_SOURCE]
    else:
        working_on(before)


def open_program(path: str) -> tuple[Program, Source]:
    """Return the program in a file, and the text to show its diagnostics in.

    Raises:
        DiagnosticError: the file holds no program, or its text is malformed.
        OSError: it cannot be read.
    """
    source = read_source(path)
    working_on(source)
    program, source = parse_source(source)
    working_on(source)
    click.get_current_context().meta[_GIVEN] = source
    return program, source
