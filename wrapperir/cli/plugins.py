"""``wrapperir plugins``: list what is installed."""

import click

from wrapperir.cli.options import examples
from wrapperir.cli.report import ERRORS, reporting


@click.command(name="plugins", epilog=examples("wrapperir plugins"))
@reporting
def command() -> None:
    """List the installed plugins and their emitters.

    Plugins that do not load are listed with their cause; the status is then 1.
    """
    from wrapperir.plugin import plugin_manager

    manager = plugin_manager()
    rows = [("PLUGIN", "DISTRIBUTION", "EMITTERS")]
    rows += [
        (p.name, f"{p.distribution} {p.version}".strip(), ", ".join(p.emitters) or "none")
        for p in manager.plugins
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    for broken in manager.broken:
        click.echo(f"\n{broken.name} of {broken.distribution} did not load:", err=True)
        click.echo(_indented(broken.traceback), err=True, nl=False)
    for conflict in manager.conflicts:
        click.echo(f"\n{conflict.code.value}: {conflict.message}", err=True)
    if manager.broken or manager.conflicts:
        click.get_current_context().exit(ERRORS)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())
