"""Oracles of ``wrapperir reduce``: whether a program still shows what is looked for."""

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wrapperir.cli.extras import importing_hypothesis
from wrapperir.diagnostics import DiagnosticError
from wrapperir.ir import Program
from wrapperir.text import format_program
from wrapperir.verify import verify

if TYPE_CHECKING:
    from wrapperir.emit import Emitter
    from wrapperir.reduce import Interesting

FILE = "{}"
"""Stands for the program's file in the words of a command."""


def succeeds(command: Sequence[str]) -> "Interesting":
    """Return whether a command ends with status 0, given a file with the program's text."""

    def is_interesting(program: Program) -> bool:
        with tempfile.TemporaryDirectory(prefix="wrapperir-reduce-") as folder:
            file = Path(folder, "program.wir")
            file.write_text(format_program(program))
            words = [word.replace(FILE, str(file)) for word in command]
            done = subprocess.run(  # noqa: S603 - the command that the user gave
                words, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        return done.returncode == 0

    return is_interesting


def reports(code: str, seed: int) -> "Interesting":
    """Return whether the verifier reports a code, else the interpreter on drawn inputs."""
    with importing_hypothesis():
        from wrapperir.testing.inputs import run_example

    def is_interesting(program: Program) -> bool:
        found = [diagnostic.code.value for diagnostic in verify(program)]
        if not found:
            try:
                run_example(program, seed)
            except DiagnosticError as error:
                found = [diagnostic.code.value for diagnostic in error.diagnostics]
            except ValueError:  # no inputs can be drawn
                return False
        return code in found

    return is_interesting


def differs(emitter: "Emitter", seed: int) -> "Interesting":
    """Return whether what an emitter makes differs from the interpreter, on drawn inputs.

    What the first program shows, other values or an error of some class, is what the others
    must show.  What faults in the interpreter tells nothing.  If the first program does, as
    for indices out of range, no element of an input is negative.
    """
    with importing_hypothesis():
        from wrapperir.testing import Case, check_case
        from wrapperir.testing.inputs import SMALLEST_NUMBER, run_example

    wanted: list[type[Exception]] = []
    smallest: list[int] = []

    def is_interesting(program: Program) -> bool:
        try:
            if not smallest:
                smallest.append(SMALLEST_NUMBER if runs(program) else 0)
            run_example(program, seed, smallest=smallest[0])
            check_case(emitter, Case("program", program, (seed,), smallest=smallest[0]))
        except (DiagnosticError, ValueError):
            return False
        except Exception as error:  # ConformanceError, or what the emitted code raised
            wanted.append(type(error))
            return type(error) is wanted[0]
        return False

    def runs(program: Program) -> bool:
        try:
            run_example(program, seed)
        except DiagnosticError:
            return False
        return True

    return is_interesting
