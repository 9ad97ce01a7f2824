"""``wrapperir explain``: what a source line became, or what a kernel came from."""

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from wrapperir.cli import options
from wrapperir.cli.source import Source, notice, open_program, reporting
from wrapperir.cli.writing import write_output

if TYPE_CHECKING:
    from wrapperir.ir import Program


@click.command(
    name="explain",
    epilog=options.examples(
        "wrapperir explain mlp.wir model.py:12",
        "wrapperir explain mlp.wir layers.0.mlp",
        "wrapperir explain mlp.wir @cpp_fused_0",
        "wrapperir explain --format json mlp.wir %buf7",
        "wrapperir explain mlp.wir --trace trace.json",
    ),
)
@options.program_argument
@click.argument("subject", metavar="[SUBJECT]", required=False)
@click.option(
    "--trace",
    metavar="FILE",
    help="Explain the kernels in a trace that torch.profiler exported.",
)
@options.spelling_option
@options.output_option
@reporting
def explain_command(
    program: str,
    subject: str | None,
    trace: str | None,
    to: Literal["text", "json"],
    output: str | None,
) -> None:
    """Say what SUBJECT became in PROGRAM, or what it came from.

    SUBJECT is a place in the source (model.py:12, or model.py), the path of a module
    (layers.0.mlp) or of a parameter (layers.0.mlp.weight), a node of the graph, a kernel
    (@name) or a buffer (%name).  Without it, each kernel and operator call is explained.
    With --trace, each kernel in the trace is, with its time.  Lines have their numbers in
    PROGRAM's text.  Nothing of the program is executed, and no source file is read.
    """
    from wrapperir.report import explain, format_explanation, format_explanation_json

    if trace is not None and subject is not None:
        raise click.UsageError("give either SUBJECT or --trace")
    parsed, source = open_program(program)
    if trace is not None:
        write_output(output, _explain_trace(parsed, source, trace, to))
        return
    found = explain(parsed, source.positions, subject)
    write = format_explanation if to == "text" else format_explanation_json
    write_output(output, write(found))


def _explain_trace(program: "Program", source: Source, trace: str, to: str) -> str:
    from wrapperir.report import (
        explain_trace,
        format_trace_explanation,
        format_trace_explanation_json,
    )

    try:
        found = explain_trace(program, source.positions, _read_trace(trace))
    except ValueError as error:
        raise click.UsageError(f"--trace {trace}: {error}") from None
    if not found.kernels:
        notice(
            "no event of the trace has the name of a kernel; C++ kernels have events with"
            " torch._inductor.config.cpp.enable_kernel_profile"
        )
    write = format_trace_explanation if to == "text" else format_trace_explanation_json
    return write(found)


def _read_trace(path: str) -> str:
    """Return the text of a trace, which torch.profiler may have compressed.

    Raises:
        ValueError: it is not compressed as its name says, or not UTF-8.
    """
    content = Path(path).read_bytes()
    if path.endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, zlib.error, EOFError):
            raise ValueError("it is not a file of gzip") from None
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
