"""Passes on the command line: finding them, running them, showing and listing them."""

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wrapperir.cli.progress import stage
from wrapperir.cli.source import Source, format_as, named_as
from wrapperir.diagnostics import did_you_mean
from wrapperir.ir import Program

if TYPE_CHECKING:
    from wrapperir.pipelines import ChosenPass, PassLike, PassObserver

F = TypeVar("F", bound=Callable[..., Any])

_ALL = "all"

pass_option = click.option(
    "--pass",
    "passes",
    metavar="PIPELINE",
    multiple=True,
    help="Run these passes: a name, or several with arguments, such as"
    " 'insert_frees, plan_memory(planned = \"both\")'; repeat for more, which run in the"
    " order given.  wrapperir opt --help lists them.",
)
"""Takes texts of pipelines, in the order to run them."""

print_after_option = click.option(
    "--print-after",
    metavar="NAME|all",
    multiple=True,
    help="Show on standard error what this pass changed, or each pass; repeat for several.",
)
"""Takes names of passes whose changes are shown."""


class CommandWithPasses(click.Command):
    """A command whose help lists the installed passes; plugins are imported for it."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the passes and pipelines of each origin."""
        super().format_options(ctx, formatter)
        for title, rows in _installed_rows().items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _installed_rows() -> dict[str, list[tuple[str, str]]]:
    """Return a name with its parameters and a summary for each pass, by their origin."""
    from wrapperir.passes import BUILT_IN_PASSES, InstalledPass, format_parameter
    from wrapperir.plugin import plugin_manager

    sections: dict[str, list[tuple[str, str]]] = {}
    for each in (*BUILT_IN_PASSES.values(), *plugin_manager().passes.values()):
        kind = "Passes" if isinstance(each, InstalledPass) else "Pipelines"
        rows = sections.setdefault(f"{kind} of {each.origin}", [])
        if isinstance(each, InstalledPass):
            declared = ", ".join(map(format_parameter, each.parameters))
            call = f"{each.name}({declared})" if declared else each.name
            rows.append((call, _summary(each.run)))
        else:
            rows.append((each.name, each.text))
    return sections


def _summary(function: Callable[..., object]) -> str:
    return (function.__doc__ or "").partition("\n")[0].replace("``", "")


def choose_passes(passes: "Sequence[PassLike]") -> "tuple[ChosenPass, ...]":
    """Return the passes that options name; errors are then shown in the options' texts.

    Raises:
        DiagnosticError: a text is malformed, or names a pass that does not exist.
    """
    from wrapperir.pipelines import find_passes

    chosen: list[ChosenPass] = []
    for given in passes:
        if not isinstance(given, str):
            chosen += find_passes([given])
            continue
        with named_as(Source("--pass", given)):
            chosen += find_passes([given])
    return tuple(chosen)


def showing(names: Sequence[str], chosen: "Sequence[ChosenPass]") -> "PassObserver":
    """Return a function that shows what the passes of these names change.

    Raises:
        UsageError: a name is not that of a pass that runs.
    """
    running = list(dict.fromkeys(each.name for each in chosen))
    for name in names:
        if name not in (*running, _ALL):
            listed = f"these passes run: {', '.join(running) or 'none'}"
            hint = " ".join(filter(None, (did_you_mean(name, running), listed)))
            raise click.UsageError(f"--print-after {name}: {hint}")

    def show(ran: "ChosenPass", before: Program, after: Program) -> None:
        if ran.name in names or _ALL in names:
            _show_changes(ran.name, before, after)

    return show


def run_chosen(
    program: Program, chosen: "Sequence[ChosenPass]", show: "PassObserver | None" = None
) -> Program:
    """Return the program after passes, with progress; call ``show`` after each.

    Raises:
        DiagnosticError: a pass fails.
    """
    from wrapperir.pipelines import run_passes

    for each in chosen:
        with stage(f"running {each.name} ..."):
            changed = run_passes(program, [each])
        if show is not None:
            show(each, program, changed)
        program = changed
    return program


def _show_changes(name: str, before: Program, after: Program) -> None:
    old, new = (format_as(p, "text").splitlines() for p in (before, after))
    changes = list(
        difflib.unified_diff(old, new, f"before {name}", f"after {name}", lineterm="")
    )
    for line in changes or [f"{name}: nothing changed"]:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.echo(click.style(line, fg=colour), err=True)
