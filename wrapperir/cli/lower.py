"""``wrapperir lower``: the stages of our own lowering, from loops to a program."""

from typing import TYPE_CHECKING, Literal

import click

from wrapperir.cli import options
from wrapperir.cli.bug_report import bug_report_option
from wrapperir.cli.progress import stage
from wrapperir.cli.source import format_as, notice, reporting
from wrapperir.cli.writing import write_output

if TYPE_CHECKING:
    from wrapperir.frontend.lowering.lower import LoweringStages


@click.command(
    name="lower",
    epilog=options.examples(
        "wrapperir lower model.py:Model",
        "wrapperir lower model.py:Model --print schedule",
        "wrapperir lower model.py:Model --print schedule --explain",
        "wrapperir lower model.py:Model --print program -o model.wir",
    ),
)
@click.argument("target", metavar="TARGET")
@click.option(
    "--print",
    "what",
    type=click.Choice(["loops", "schedule", "program"]),
    default="loops",
    show_default=True,
    help="loops: a loop nest for each operator.  schedule: the fused kernels, and the bytes"
    " that each launch reads and writes.  program: the lines, as compile writes them.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Also write why operators share a kernel or not, and the bytes that this saves.",
)
@options.output_option
@bug_report_option
@reporting
def lower_command(
    target: str,
    what: Literal["loops", "schedule", "program"],
    explain: bool,
    output: str | None,
) -> None:
    """Write what TARGET is lowered to by wrapperir's own kernels.

    TARGET is FILE.py:NAME or a .pt2 file, as compile takes them: see wrapperir compile
    --help.  compile with --frontend lowering goes on from here.

    This executes code: the file and the function or module in it.  No kernel is built.
    """
    with stage("loading torch ..."):
        from wrapperir.cli.lowering import check_target, lower_in_stages
    notice(f"lower executes the code in {check_target(target)}")
    with stage(f"lowering {target} ..."):
        stages = lower_in_stages(target)
    text = _format_stage(stages, what)
    if explain:
        from wrapperir.lowering.explain import format_decisions

        lines = format_decisions(stages.schedule.decisions).splitlines()
        text += "".join(f"{line}\n" for line in ("", *(f"# {line}" for line in lines)))
    write_output(output, text)


def _format_stage(stages: "LoweringStages", what: str) -> str:
    from wrapperir.lowering.text import format_graph, format_schedule

    if what == "program":
        return format_as(stages.lowered.program, "text")
    if what == "loops":
        return format_graph(stages.loops).text
    return format_schedule(stages.schedule, stages.symbols).text
