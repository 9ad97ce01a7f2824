"""The ``wrapperir`` command; the modules of subcommands are loaded when they are used."""

import importlib

import click

from wrapperir import __version__

_OWN_MODULES = (
    *("compile", "diff-run", "explain", "graphs", "lower", "lsp", "memory"),
    *("overlap", "partition", "plugins", "profile", "reduce", "run", "tune", "view"),
)
_MODULES = {
    **dict.fromkeys(_OWN_MODULES),
    **dict.fromkeys(("emit", "opt", "package", "print", "verify"), "programs"),
}
"""The module of each subcommand, ``None`` for a module of the same name."""


class _LateGroup(click.Group):
    """Imports a subcommand's module when the subcommand is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        name = cmd_name.replace("-", "_")
        module = f"wrapperir.cli.{_MODULES[cmd_name] or name}"
        command = getattr(importlib.import_module(module), f"{name}_command")
        assert isinstance(command, click.Command)
        return command


@click.command(
    cls=_LateGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 92},
    epilog="\b\nExit status:\n"
    "  0  done; a program that was checked or written has no errors\n"
    "  1  errors were reported, each with its code\n"
    "  2  the command line is wrong\n"
    "  3  a file could not be read or written\n"
    "  130  Ctrl-C",
)
@click.version_option(__version__, prog_name="wrapperir")
def main() -> None:
    """Check, print, transform, run and compile host programs around tensor kernels.

    A program is a .wir or .json file, a directory that compile wrote, or - for standard
    input.  Only compile, diff-run, lower, profile, reduce, run, tune, plugins check, and
    view of a model, execute code; plugins, emit and what they import are installed
    packages.
    """
