"""Operators of an emitted program, called with their tensors, their numbers and ``out``.

They are PyTorch's own; where there is a compiler, they are called through operators.cpp,
which is compiled once for this torch and Python and kept in the user's cache.
"""

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType

import torch


def mm_out(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write ``a @ b`` to ``out``."""
    torch.mm(a, b, out=out)


def bmm_out(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write ``a @ b``, a batch of products, to ``out``."""
    torch.bmm(a, b, out=out)


def addmm_out(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    out: torch.Tensor,
) -> None:
    """Write ``beta * x + alpha * (a @ b)`` to ``out``."""
    torch.addmm(x, a, b, beta=beta, alpha=alpha, out=out)


def baddbmm_out(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    out: torch.Tensor,
) -> None:
    """Write ``beta * x + alpha * (a @ b)``, for batches, to ``out``."""
    torch.baddbmm(x, a, b, beta=beta, alpha=alpha, out=out)


def build() -> ModuleType | None:
    """Return the compiled functions; ``None`` where they cannot be had."""
    try:
        source = Path(__file__).with_name("operators.cpp")
        home = Path(torch.__file__).parent
        command = [
            *shlex.split(os.environ.get("CXX") or "c++"),
            *("-std=c++17", "-O1", "-shared", "-fPIC"),
            *(f"-I{sysconfig.get_path('include')}", f"-I{home / 'include'}"),
        ]
        facts = source.read_text(), torch.__version__, sys.version, str(home), command
        name = hashlib.sha256(repr(facts).encode()).hexdigest()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        cache = cache / "wrapperir" / "operators"
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        if cache.is_symlink() or cache.stat().st_uid != os.getuid():
            return None  # it may hold another user's code
        cache.chmod(0o700)
        library = cache / f"{name}.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                built = Path(scratch, "operators.so")
                command += [str(source), "-o", str(built)]
                command += [f"-L{home / 'lib'}", "-ltorch_cpu"]
                subprocess.run(command, check=True, capture_output=True)  # noqa: S603
                built.replace(library)
        return import_library(library)
    except (OSError, ValueError, ImportError, subprocess.CalledProcessError):
        return None


def import_library(path: Path) -> ModuleType:
    """Import a module that was compiled."""
    spec = importlib.util.spec_from_file_location("operators", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compiled = build()
if compiled is not None:
    mm_out = compiled.mm_out
    bmm_out = compiled.bmm_out
    addmm_out = compiled.addmm_out
    baddbmm_out = compiled.baddbmm_out
