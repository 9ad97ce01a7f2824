"""``wrapperir lsp``: the language server for editors, over standard input and output."""

import click

from wrapperir.cli import options
from wrapperir.cli.extras import importing_pygls
from wrapperir.cli.source import reporting


@click.command(name="lsp", epilog=options.examples("wrapperir lsp"))
@reporting
def lsp_command() -> None:
    """Serve editors over standard input and output: a language server for .wir files.

    It shows diagnostics, types, live ranges and origins, goes to definitions, renames,
    formats and folds.  Nothing of a program is executed.
    """
    with importing_pygls():
        from wrapperir.editor.server import make_server
    make_server().start_io()
