"""Traces of runs on the command line: each line, and what it wrote."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import click

from wrapperir.cli.source import Source, printed, working_on
from wrapperir.diagnostics import Code, DiagnosticError, first_line
from wrapperir.ir import OriginTable
from wrapperir.ir.blocks import parts_on
from wrapperir.report import line_head

if TYPE_CHECKING:
    import torch

    from wrapperir.diagnostics import LinePath
    from wrapperir.emit import Emitter, Value
    from wrapperir.ir import AnyLine, Program
    from wrapperir.trace import RecordedValue


def print_trace(
    program: "Program",
    source: Source,
    emitter: "Emitter | None",
    inputs: "Sequence[Value]",
    constants: "Mapping[str, torch.Tensor]",
    seed: int,
) -> "tuple[Value, ...]":
    """Run a program and print each line that writes once it has run; return the outputs.

    The lines have the numbers of ``source``, the text of ``program``.

    Raises:
        DiagnosticError: the program faults; or emitted code does not load, or WIR906,
            raises an error.
    """
    from wrapperir.trace import trace_program

    shown = _Shown(program, source)
    trace = trace_program(
        program, inputs, constants, emitter=emitter, seed=seed, show=shown.show
    )
    if trace.failure is None:
        return trace.outputs
    if isinstance(trace.failure, DiagnosticError) or emitter is None:
        raise trace.failure
    cause = f"{type(trace.failure).__name__}: {first_line(trace.failure)}"
    raise Code.EMITTED_CODE_FAILED.error(
        f"the code of emitter {emitter.name} raised {cause}"[:1000],
        hint="it ran to the last line that the trace shows, and perhaps further",
    ) from trace.failure


class _Shown:
    """Prints events, each line once for all values that it writes in a row."""

    def __init__(self, program: "Program", source: Source) -> None:
        from wrapperir.passes import open_graph_regions

        opened = open_graph_regions(program)
        if opened != program or not source.positions:
            source = printed(opened, f"{source.name} (graph regions opened)")
            working_on(source)
        self._program, self._source = opened, source
        self._table = OriginTable(opened)
        self._last: LinePath | None = None

    def show(self, event: "RecordedValue") -> None:
        """Print an event."""
        path = event.point.path
        if path != self._last:
            self._last = path
            click.echo(self._line(path))
        summary = event.summary
        mark = "" if summary.size is None else "%"
        digest = f"  {summary.digest}" if summary.size is not None else ""
        click.echo(f"    {mark}{event.point.name} = {summary}{digest}")

    def _line(self, path: "LinePath") -> str:
        *_, line = parts_on(self._program, path)
        text = line_head(cast("AnyLine", line))
        position = self._source.positions.get(path)
        number = "" if position is None else f"{position.line}: "
        origin = self._table.source_of(path)
        return f"{number}{text}{'' if origin is None else f'  # {origin}'}"
