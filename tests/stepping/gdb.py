"""Runs gdb without a person."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

_PLAIN = {"DEBUGINFOD_URLS": "", "LC_ALL": "C.UTF-8"}


def shell_output(command: str) -> str:
    """Return what a shell command prints, with this Python as ``python``."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, **_PLAIN, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    ).stdout


def gdb(*arguments: str, commands: list[str]) -> str:
    """Return what gdb prints that debugs a command."""
    given = [part for command in commands for part in ("-ex", command)]
    return shell_output(shlex.join(["gdb", "-nx", "-batch", *given, "--args", *arguments]))


def missing_gdb() -> str | None:
    """Return why gdb cannot be used here, if it cannot."""
    if shutil.which("gdb") is None:
        return "gdb is not installed"
    if "exited normally" not in gdb("true", commands=["run"]):
        return "gdb may not debug processes here"
    return None
