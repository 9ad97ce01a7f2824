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
        text = Path(__file__).with_name("operators.cpp").read_bytes()
        home = Path(torch.__file__).parent
        command = [
            *shlex.split(os.environ.get("CXX") or "c++"),
            *("-std=c++17", "-O1", "-shared", "-fPIC"),
            *(f"-I{sysconfig.get_path('include')}", f"-I{home / 'include'}"),
            *("-x", "c++", "-", f"-L{home / 'lib'}", "-ltorch_cpu"),
        ]

        def compile(library: Path) -> None:
            subprocess.run(  # noqa: S603
                [*command, "-o", str(library)], check=True, capture_output=True, input=text
            )

        caching = import_once(Path(__file__).with_name("private_cache.py"))
        cache = caching.user_cache("operators")
        if cache is None:
            return None
        facts = (text.decode(), torch.__version__, sys.version, command)
        key = caching.digest_of(facts)
        return import_file(cache.built(f"{key}.so", compile), "operators")
    except (OSError, ValueError, ImportError, subprocess.CalledProcessError):
        return None


def import_file(path: Path, name: str | None = None) -> ModuleType:
    """Import a Python file or a compiled module, which has its name built in."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def import_once(path: Path) -> ModuleType:
    """Import a Python file without state, once for all emitted programs that have it."""
    name = f"wrapperir_{path.stem}_{hashlib.sha256(path.read_bytes()).hexdigest()}"
    if name not in sys.modules:
        sys.modules[name] = import_file(path)
    return sys.modules[name]


compiled = build()
if compiled is not None:
    mm_out = compiled.mm_out
    bmm_out = compiled.bmm_out
    addmm_out = compiled.addmm_out
    baddbmm_out = compiled.baddbmm_out
