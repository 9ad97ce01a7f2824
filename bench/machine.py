"""Description of the machine that figures depend on: versions, compiler, processor."""

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import click
import torch

from bench.results import ROOT, tested_versions


def describe_machine() -> str:
    """Return one line: the versions, the compiler, the processor."""
    compiler = shutil.which(os.environ.get("CXX", "c++")) or "c++"
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True)
    named = f"{Path(compiler).resolve().name} {version.stdout.strip()}"
    python = f"Python {platform.python_version()}"
    return f"{tested_versions()}, {python}, {named}, {_processor()}"


def describe_gpu_machine(target: str) -> str:
    """Return the description of this machine and its GPU, for a target of the Makefile.

    Raises:
        ClickException: there is no GPU, or this package is not installed.
    """
    if not torch.cuda.is_available():
        raise click.ClickException(
            f"torch {torch.__version__} of {sys.executable} finds no GPU;"
            f" make {target} GPU_PYTHON=... names a Python with a PyTorch that does"
        )
    try:
        described = describe_machine()
    except PackageNotFoundError as error:
        install = f"{sys.executable} -m pip install -e ."
        raise click.ClickException(f"{error}; install it: {install}") from error
    return f"{described}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name(0)}"


def measured_commit() -> str:
    """Return the commit that is measured, and whether code was changed since."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    if shutil.which("git") is None:
        return "unknown"
    code = "--untracked-files=no", "--", "wrapperir", "emitters", "bench"
    changed = " with changes" if git("status", "--porcelain", *code) else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changed


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.partition(':')[2].strip()}, {os.cpu_count()} processors"
    return f"{platform.machine()}, {os.cpu_count()} processors"
