"""The command ``plugins``: lists the installed plugins, makes new ones and checks them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from wrapperir.cli import options
from wrapperir.cli.extras import importing_hypothesis
from wrapperir.cli.source import ERRORS, NOWHERE, open_program, reporting, working_on

if TYPE_CHECKING:
    from wrapperir.plugin import Plugin


@click.group(
    name="plugins",
    invoke_without_command=True,
    epilog=options.examples(
        "wrapperir plugins",
        "wrapperir plugins new acme --target c",
        "wrapperir plugins check python --feature comments",
    ),
)
@click.pass_context
@reporting
def plugins_command(context: click.Context) -> None:
    """List the installed plugins, their emitters, renderers of kernels and passes.

    Plugins that do not load, and hooks that fail, are listed with their cause; the status
    is then 1.  What the other hooks of a plugin provide is still there.
    """
    if context.invoked_subcommand is None:
        _list_plugins()


def _list_plugins() -> None:
    from wrapperir.plugin import plugin_manager

    manager = plugin_manager()
    rows: list[tuple[str, ...]] = [
        ("PLUGIN", "DISTRIBUTION", "EMITTERS", "RENDERERS", "PASSES")
    ]
    rows += [(p.name, p.origin, *_provided(p)) for p in manager.plugins]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    for broken in manager.broken:
        click.echo(f"\n{broken.problem}:", err=True)
        click.echo(_indented(broken.traceback), err=True, nl=False)
    for conflict in manager.conflicts:
        click.echo(f"\n{conflict.code.value}: {conflict.message}", err=True)
    if manager.broken or manager.conflicts:
        click.get_current_context().exit(ERRORS)


def _provided(plugin: "Plugin") -> tuple[str, ...]:
    """Return a cell for what each hook provides."""
    names: dict[str, Sequence[str]] = {
        "wrapperir_emitters": plugin.emitters,
        "wrapperir_renderers": [each.language.value for each in plugin.renderers],
        "wrapperir_passes": [each.name for each in plugin.passes],
    }
    return tuple(
        "failed" if hook in plugin.failed else ", ".join(given) or "none"
        for hook, given in names.items()
    )


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


@plugins_command.command(
    name="check",
    epilog=options.examples(
        "wrapperir plugins check acme",
        "wrapperir plugins check acme --feature buffers --feature leaks",
        "wrapperir plugins check acme --examples 500 --seed 7",
        "wrapperir plugins check acme --program found.wir --seed 3",
    ),
)
@click.argument("emitter", metavar="EMITTER")
@click.option(
    "--feature", "features", metavar="NAME", multiple=True, help="Check this row alone."
)
@click.option(
    "--case",
    "cases",
    metavar="NAME",
    multiple=True,
    help="Run this case alone; if it fails, show its program and any traceback.",
)
@click.option(
    "--device", "devices", metavar="KIND", multiple=True, help="Check on this kind alone."
)
@click.option(
    "--examples",
    type=click.IntRange(0, 1_000_000),
    metavar="N",
    default=25,
    show_default=True,
    help="The number of programs to draw.",
)
@options.seed_option("The seed of drawn programs, or of the inputs of --program.")
@click.option(
    "--program",
    metavar="FILE",
    help="Check this program alone, such as a counterexample; - is standard input.",
)
@reporting
def check_command(
    emitter: str,
    features: tuple[str, ...],
    cases: tuple[str, ...],
    devices: tuple[str, ...],
    examples: int,
    seed: int,
    program: str | None,
) -> None:
    """Check that EMITTER does what it declares, beside the interpreter.

    A row of the table is a feature: programs of the conformance kit that need it.  The last
    rows are probes: memory that calls keep, wrong inputs, calls from several threads, and
    programs that are drawn within what the emitter declares.  Each check runs in a process
    of its own.  What is skipped has a reason.  The status is 1 if a check fails, or if
    none ran.

    This executes the code that the emitter makes.
    """
    from wrapperir.emit.pipeline import find_emitter

    found = find_emitter(emitter)
    with importing_hypothesis():
        from wrapperir.cli.plugin_report import check_and_report
    if program is not None:
        from wrapperir.cli.programs import errors_of, exit_with_errors

        parsed, source = open_program(program)
        exit_with_errors(errors_of(parsed), source)
        holds = check_and_report(found, program=parsed, devices=devices, seed=seed)
    else:
        working_on(NOWHERE)
        holds = check_and_report(
            found,
            features=features,
            cases=cases,
            devices=devices,
            examples=examples,
            seed=seed,
        )
    if not holds:
        click.get_current_context().exit(ERRORS)


@plugins_command.command(
    name="new",
    epilog=options.examples(
        "wrapperir plugins new acme",
        "wrapperir plugins new acme --target c",
        "wrapperir plugins new acme --target cpp -o acme-plugin",
    ),
)
@click.argument("name", metavar="NAME")
@click.option(
    "--target",
    type=click.Choice(["python", "c", "cpp"]),
    default="python",
    show_default=True,
    help="The language of the host programs that the emitter writes.",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="The directory to make.  [default: wrapperir-emitter-NAME]",
)
@reporting
def new_command(
    name: str, target: Literal["python", "c", "cpp"], output: str | None
) -> None:
    """Write a distribution with a new emitter NAME.

    It installs, is found by its name, and passes the checks of what it declares.  Its
    README says what to write next.  A directory that exists is not changed.
    """
    from wrapperir.plugin.templates import write_plugin

    folder = Path(output or f"wrapperir-emitter-{name}")
    files = write_plugin(name, target, folder)
    click.echo(f"{folder}: {len(files)} files")
    for file in files:
        click.echo(f"  {file}")
    click.echo(
        f"\nNext:\n"
        f"  pip install -e {folder}\n"
        f"  wrapperir plugins check {name}\n"
        f"  pytest {folder}\n"
        f"Then read {folder / 'README.md'}: it says what to write, in which order."
    )
