"""Description of the machine that figures depend on: versions, compiler, processor."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from bench.results import tested_versions


def describe_machine() -> str:
    """Return one line: the versions, the compiler, the processor."""
    compiler = shutil.which(os.environ.get("CXX", "c++")) or "c++"
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True)
    named = f"{Path(compiler).resolve().name} {version.stdout.strip()}"
    python = f"Python {platform.python_version()}"
    return f"{tested_versions()}, {python}, {named}, {_processor()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.partition(':')[2].strip()}, {os.cpu_count()} processors"
    return f"{platform.machine()}, {os.cpu_count()} processors"
