"""Gathers what a page of a program shows."""

from collections.abc import Iterable, Iterator, Mapping

from wrapperir.emit import Emitter
from wrapperir.ir import Program
from wrapperir.report import MemoryReport, build_timeline, choose_values, frontend_reuse
from wrapperir.view.emitted_code import emit_codes
from wrapperir.view.kernel_sources import KernelRows
from wrapperir.view.link_program import ProgramText, link_program, origins_by_name
from wrapperir.view.links import ShownDecision
from wrapperir.view.lowering_stages import StageLinks
from wrapperir.view.pass_steps import PassStep
from wrapperir.view.source_files import read_source_file
from wrapperir.view.view_page import ProgramView


def view_program(
    shown: ProgramText,
    source: str,
    sizes: Mapping[str, int],
    emitters: Iterable[Emitter],
    steps: tuple[PassStep, ...] = (),
    stages: StageLinks | None = None,
) -> ProgramView:
    """Return the view of a valid program, with the code of these emitters.

    ``source`` says where the program is from, ``sizes`` are values of symbols, ``stages``
    those of the lowering that made the program, and ``steps`` the passes that ran after it.
    Source files are read; nothing of the program is executed.

    Raises:
        SymbolValueError: a value is for no symbol or out of range.
    """
    program = shown.program
    symbols = choose_values(program, sizes)
    values = {symbol.name: symbol.value for symbol in symbols}
    timeline = build_timeline(program, shown.positions, values, "as given")
    codes = emit_codes(program, emitters)
    rows: Mapping[str, KernelRows] = {}
    if stages is not None:
        codes = (stages.codes(), *codes)
        rows = stages.kernel_rows()
    return ProgramView(
        source=source,
        program=link_program(shown, values, read_source_file, codes, rows),
        memory=MemoryReport(
            program=program.name, source=source, symbols=symbols, versions=(timeline,)
        ),
        decisions=(*(stages.decisions() if stages else ()), *_outside(program, steps)),
        steps=steps,
        reused=frontend_reuse(program, values),
    )


def _outside(program: Program, steps: Iterable[PassStep]) -> Iterator[ShownDecision]:
    """Yield why lines are in no graph that is captured, once for each line."""
    nodes = {name: index for index, name in enumerate(origins_by_name(program))}
    for step in steps:
        for line in step.outside:
            yield ShownDecision(
                kind="not captured",
                subject=line.text,
                reason=line.reason,
                nodes=tuple(nodes[name] for name in line.nodes if name in nodes),
            )
