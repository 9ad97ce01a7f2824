"""Built libraries of programs, for later processes that load the same artifact."""

import importlib.metadata
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from wrapperir.caching import build_cache, digest_of, user_cache
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Artifact, Emitter, artifact_digest, read_artifact
from wrapperir.emit.artifact import store_artifact
from wrapperir.emit.compilation_key import compilation_key
from wrapperir.kernels import Target, find_compiler
from wrapperir.kernels.cpp_build import kernel_compiler, kernel_digest
from wrapperir_cpp.build import kernel_sources
from wrapperir_cpp.debug_information import has_debug_information

_KIND = "builds"
_OF_TRITON = "TRITON_", "LLVM_", "MLIR_"
_PLACES = "_DIR", "_HOME"
_CHOICES = "WRAPPERIR_CHOICE_CACHE"
"""The setting of the cache of times, by which the kernels of a library are chosen."""


def build_key(
    artifact: Artifact, targets: Sequence[Target], emitter: Emitter
) -> str | None:
    """Return the digest of what decides the libraries of an artifact; ``None`` for none.

    These are its files, the targets and the GPUs that choices are timed on, the sources
    of wrapperir and the emitter, the compilers with their settings, PyTorch, and the folder
    that debug information names.

    Raises:
        DiagnosticError: WIR709, no C++ compiler was found.
    """
    choices = os.environ.get(_CHOICES, "").strip()
    if choices == "0":
        return None  # they are made anew in each process
    sources = compilation_key(emitter, {})
    if sources is None:
        return None
    compiler = find_compiler()
    has_kernels = bool(kernel_sources(artifact.files))
    has_gpus = bool(targets) and torch.cuda.is_available()
    gpus = range(torch.cuda.device_count() if has_gpus else 0)
    triton = None
    with suppress(importlib.metadata.PackageNotFoundError):
        triton = importlib.metadata.version("triton")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_OF_TRITON) and not name.endswith(_PLACES)
    }
    return digest_of(
        [
            *(artifact_digest(artifact), sources, [target.name for target in targets]),
            [torch.cuda.get_device_name(index) for index in gpus],
            *(compiler.command, compiler.version, torch.__version__, torch.__file__),
            kernel_digest(kernel_compiler()) if has_kernels else None,
            *(triton, environment, choices),
            str(artifact.folder) if has_debug_information(artifact) else None,
        ]
    )


def kept_folder(key: str) -> Path | None:
    """Return the folder of the libraries that were built under a key, if it is whole."""
    try:
        cache = user_cache(_KIND)
        record = None if cache is None else cache.load(key)
        digest = None if record is None else record.get("artifact")
        if not isinstance(digest, str):
            return None
        folder = build_cache("artifacts").folder() / digest
        read_artifact(folder)
    except (OSError, DiagnosticError):
        return None
    return folder


def keep_folder(key: str, artifact: Artifact) -> Path:
    """Store the files of built libraries under a key, and return their folder.

    Raises:
        DiagnosticError: WIR710, the user has no private cache directory.
        OSError: it cannot be written.
    """
    folder = store_artifact(artifact)
    with suppress(OSError):
        cache = user_cache(_KIND)
        if cache is not None:
            cache.store(key, {"artifact": folder.name})
    return folder
