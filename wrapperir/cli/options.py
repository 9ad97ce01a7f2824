"""Options that several subcommands take."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


program_argument = click.argument("program", metavar="PROGRAM")
"""Takes the program's file."""

check_memory_option = click.option(
    "--check-memory",
    is_flag=True,
    help="Have emitted code check, as it runs, that its memory is as the program says.",
)
"""Takes whether emitted code checks its memory."""

debug_info_option = click.option(
    "--debug-info",
    type=click.Choice(["code", "program"]),
    help="Have debuggers step through emitted code, or through the program's text.",
)
"""Takes what debuggers step through."""

output_option = click.option(
    "-o", "--output", metavar="FILE", help="Write here, not to standard output."
)
"""Takes the file to write."""

EMITTER = (
    "The emitter: python, cpp, fx or another that wrapperir plugins lists; two, such as"
    " acme+python, where the second takes what the first lacks."
    "  [default: python]"
)
"""The help of ``--emitter`` where files are emitted."""


def emitter_option(default: str | None, help: str) -> Callable[[F], F]:
    """Take the name of an emitter."""
    return click.option("--emitter", metavar="NAME", default=default, help=help)


def frontend_option(
    names: Sequence[str], default: str | None, help: str
) -> Callable[[F], F]:
    """Take the frontend that makes a program of a function, module or exported program."""
    return click.option(
        "--frontend",
        type=click.Choice(names),
        default=default,
        show_default=default is not None,
        help=help,
    )


FRONTENDS = ("export", "inductor", "lowering")
"""The frontends of ``compile``."""


def _format_option(name: str, help: str, *others: str) -> Callable[[F], F]:
    forms = click.Choice(["text", "json", *others])
    return click.option(
        "--format", name, type=forms, default="text", show_default=True, help=help
    )


diagnostics_format_option = _format_option("form", "How to show diagnostics.")

verify_format_option = _format_option("form", "How to show diagnostics.", "sarif")

spelling_option = _format_option("to", "The spelling to write.")

print_format_option = _format_option("to", "The form to write.", "dot")


def seed_option(help: str) -> Callable[[F], F]:
    """Take the seed of random numbers."""
    numbers = click.IntRange(0, 2**63 - 1)
    return click.option(
        "--seed", type=numbers, metavar="N", default=0, show_default=True, help=help
    )


inputs_option = click.option(
    "--inputs",
    metavar="FILE",
    help="Take the inputs from what torch.save or safetensors wrote: a list in order, or "
    "a dict by name.  Otherwise they are drawn at random by their types.",
)

constants_option = click.option(
    "--constants",
    metavar="FILE",
    help="Take the constants from a dict by key.  Otherwise those that compile wrote "
    "beside PROGRAM are used, or random ones.",
)


def symbol_option(flag: str, name: str, metavar: str, help: str) -> Callable[[F], F]:
    """Take values of symbols, as a mapping from symbols to tuples of numbers.

    With a metavar ``SYMBOL=NUMBER,...`` an option may give several numbers.
    """
    number = r"-?\d{1,18}"
    several = metavar.endswith(",...")
    wanted = re.compile(f"{number}(,{number})*" if several else number, re.ASCII)
    example = "s0=64,128,4096" if several else "s0=128"

    def read(
        context: click.Context, parameter: click.Parameter, given: tuple[str, ...]
    ) -> dict[str, tuple[int, ...]]:
        symbols: dict[str, tuple[int, ...]] = {}
        for text in given:
            symbol, _, values = text.partition("=")
            if not symbol or not wanted.fullmatch(values):
                raise click.BadParameter(f"{text!r} is not {metavar}, such as {example}")
            numbers = dict.fromkeys(map(int, values.split(",")))
            symbols[symbol] = (*symbols.get(symbol, ()), *numbers)
        return symbols

    return click.option(
        flag, name, metavar=metavar, multiple=True, callback=read, help=help
    )


size_option = symbol_option(
    "--size",
    "sizes",
    "SYMBOL=NUMBER",
    "Take a symbol to be this; repeat for several. Others are 64, or the nearest value"
    " in their range.",
)
"""Takes values of symbols that sizes are counted with."""


def examples(*lines: str) -> str:
    """Return the end of a help text that shows commands."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
