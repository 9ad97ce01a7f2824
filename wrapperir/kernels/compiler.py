"""Finding and running the machine's C++ compiler."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from attrs import frozen

from wrapperir.diagnostics import Code, DiagnosticError

_ERROR = re.compile(
    r"\berror:|undefined reference|multiple definition|cannot find|discarded section"
)
_SHOWN_ERRORS = 3
_LONGEST_ERROR = 2000


@frozen
class Compiler:
    """A command that compiles C++, and the output of its ``--version``."""

    command: tuple[str, ...]
    version: str

    def run(self, arguments: Sequence[str], directory: Path, what: str) -> None:
        """Run it in ``directory``; ``what`` names what is built.

        Raises:
            DiagnosticError: WIR709, it fails; the message has its first errors.
        """
        done = subprocess.run(  # noqa: S603
            [*self.command, *arguments],
            cwd=directory,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            raise failed(f"{what} does not build: {first_errors(done.stderr)}")


def first_errors(output: str) -> str:
    """Return the first errors in what a compiler printed."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    errors = [line for line in errors if "ld returned" not in line] or lines
    return "\n".join(errors[:_SHOWN_ERRORS])[:_LONGEST_ERROR] or "the compiler failed"


def failed(message: str, hint: str | None = None) -> DiagnosticError:
    """Return the error for a source that does not build."""
    return Code.KERNEL_BUILD_FAILED.error(message, hint=hint)


def find_compiler() -> Compiler:
    """Return the compiler that ``CXX`` names, or ``g++``, or ``c++``.

    Raises:
        DiagnosticError: WIR709, there is none, or it does not run.
    """
    spelled = os.environ.get("CXX") or ("g++" if shutil.which("g++") else "c++")
    try:
        command = tuple(shlex.split(spelled))
    except ValueError:
        command = ()
    if not command or shutil.which(command[0]) is None:
        raise failed(
            f"there is no C++ compiler: {spelled[:200]!a} is not a command",
            hint="install one, such as g++, or set CXX to it",
        )
    return Compiler(command, compiler_version(command))


@lru_cache
def compiler_version(command: tuple[str, ...]) -> str:
    """Return what a compiler says of its version.

    Raises:
        DiagnosticError: WIR709, it does not run.
    """
    try:
        return subprocess.run(  # noqa: S603
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        hint = "set CXX to a C++ compiler"
        raise failed(f"the C++ compiler does not run: {error}", hint) from None
