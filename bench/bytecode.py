"""Bytecode of Python modules, compiled before a start is timed.

pip compiles it when it installs a package.  Where nothing did, as in an image that cannot
be written, each process compiles the source of all that it imports: 11 of the 21 seconds of
a cold start with Inductor were that, on one machine.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_STARTED = ("torch._inductor.compile_fx", "transformers", "triton", "wrapperir.backend")
"""Modules that import the packages of a start."""


def with_bytecode(folder: Path) -> dict[str, str]:
    """Compile the modules of a start, and return the environment of processes with them.

    Takes seconds on a machine of many cores.  What else a process imports is compiled by
    the first that does.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # Templates in some packages are not Python; they stay as they are.
    command = [sys.executable, "-m", "compileall", "-qq", "-j0", *map(str, _places())]
    subprocess.run(command, env=environment, capture_output=True)
    return environment


def _places() -> Iterator[Path]:
    """Yield the folders of Python's own modules and of packages of a start."""
    for name in _STARTED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # its workloads are skipped
    packages = {name.partition(".")[0] for name in tuple(sys.modules)}
    for name in packages:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and Path(file).name == "__init__.py":
            yield Path(file).parent
    yield Path(os.__file__).parent
