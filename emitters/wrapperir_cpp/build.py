"""Building an artifact: its host program, and kernels tuned on this GPU; loading it."""

import importlib.util
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.emit import Artifact, Loaded
from wrapperir.emit.artifact import store_artifact
from wrapperir.emit.recordings import note_recordings
from wrapperir.emit.triton_signature import KERNEL_FACTS
from wrapperir.ir import BenchmarkChoice, KernelCallLine, MultiKernelLine, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.kernels import (
    Target,
    build_kernels,
    compile_object,
    find_compiler,
    link_library,
    present_targets,
    side_by_side,
)
from wrapperir.kernels.torch_extensions import TORCH_LIBRARIES, compile_with_torch
from wrapperir_cpp.binding import HOST_FLAGS, binding
from wrapperir_cpp.debug_information import has_debug_information, with_shown_sources
from wrapperir_cpp.layout import (
    BRIDGE_LIBRARY,
    BRIDGE_SOURCE,
    BUILD_FACTS,
    CORE_SOURCES,
    KERNELS,
    LIBRARY,
    POOLS_LIBRARY,
    POOLS_NAME,
    POOLS_SOURCE,
    PRIVATEUSE1_SOURCE,
    PROGRAM,
    RUNTIME,
    TEXT,
)

if TYPE_CHECKING:
    from wrapperir.tuning.choice_cache import ChoiceCache

logger = logging.getLogger("wrapperir.choices")

_TIMED_WITH = "python"
"""The emitter to time with; its code needs no compiler."""
_SAMPLES = 8
_SECONDS = 0.05
"""Short, since ``wrapperir tune`` may take longer than a build."""


_EXPORTED = ("wrapperir_*", "AOTInductor*")
_BESIDE = {
    BRIDGE_SOURCE: (BRIDGE_LIBRARY, ()),
    POOLS_SOURCE: (POOLS_LIBRARY, (f"-Wl,-soname,{POOLS_NAME}",)),
}
"""Sources that are compiled with PyTorch's C++ headers, to libraries of their own.

With each, the name of its library and flags to link it.
"""
_WITH_TORCH = frozenset({*_BESIDE, PRIVATEUSE1_SOURCE})
"""Sources that include PyTorch's C++ headers."""
_CORE = f"{RUNTIME}core.cpp"
"""The source that includes those which every program has."""


def build_artifact(
    artifact: Artifact,
    targets: Sequence[Target],
    emit: Callable[[Program], Artifact] | None = None,
) -> Artifact:
    """Return an artifact with its libraries, and its Triton kernels for some targets.

    With ``emit``, the kernels of choices that are open are timed and emitted anew.

    Raises:
        DiagnosticError: WIR709, there is no compiler, or a source does not build; WIR710,
            built files cannot be kept.
    """
    tuned = tune_artifact(artifact, targets, emit) if emit else artifact
    tuned = with_shown_sources(tuned)
    shown = tuned.folder if has_debug_information(tuned) else None
    files, objects = tuned.files, dict[str, Path]()
    if has_gpu_kernels(files):
        with ThreadPoolExecutor(max_workers=1) as pool:
            pending = pool.submit(_build_objects, files, objects, shown)
            # What reads programs is imported late: a library that is kept needs none of it.
            from wrapperir_cpp.triton_kernels import compile_triton_kernels

            files = {**files, **compile_triton_kernels(files, targets)}
            objects = pending.result()
    libraries = _build_libraries(files, objects, shown)
    built = {name: path.read_bytes() for name, path in libraries.items()}
    return evolve(artifact, files={**files, **built}, entry=LIBRARY)


def tune_artifact(
    artifact: Artifact, targets: Sequence[Target], emit: Callable[[Program], Artifact]
) -> Artifact:
    """Return an artifact with the choices of its kernels for GPUs, and the record of that.

    Choices are made for multi-kernels that are timed, and kernels with several configs.  An
    artifact with a record, without choices, or without a GPU of a target here, is returned
    unchanged.  ``emit`` is the emitter's.

    Raises:
        DiagnosticError: its program cannot be read.
    """
    from wrapperir.tuning.record import RECORD

    if RECORD in artifact.files:
        return artifact
    if not has_gpu_kernels(artifact.files):
        return artifact
    if not {*present_targets()} & {*targets}:
        return artifact
    from wrapperir.text import parse_program

    text = artifact.files[TEXT]
    program = parse_program(text if isinstance(text, str) else text.decode())
    names = open_choices(program)
    if not names:
        return artifact
    from wrapperir.tuning.record import format_record
    from wrapperir.tuning.tune import tune_program

    tuned = tune_program(
        program,
        emitter=_TIMED_WITH,
        cache=_cache(),
        kernels=names,
        samples=_SAMPLES,
        seconds=_SECONDS,
    )
    chosen = emit(tuned.program)
    kept = {
        path: content
        for path, content in artifact.files.items()
        if not path.startswith(KERNELS)
    }
    files = {**kept, **chosen.files, RECORD: format_record(tuned.report)}
    return evolve(artifact, files=files, folder=None)  # which has other files


def _cache() -> "ChoiceCache | None":
    from wrapperir.caching import CacheRefusedError
    from wrapperir.tuning.choice_cache import default_cache

    try:
        return default_cache()
    except CacheRefusedError as error:
        logger.warning("choices are not kept for later: %s", error)
        return None


def open_choices(program: Program) -> frozenset[str]:
    """Return the names of timed multi-kernels that are called on GPUs.

    Kernels with several configs count as such.
    """
    from wrapperir.passes import split_configs

    split = split_configs(program)
    called = {
        line.kernel
        for line in walk_lines(split.lines)
        if isinstance(line, KernelCallLine) and line.device.kind == "cuda"
    }
    return frozenset(
        line.name
        for line in split.definitions
        if isinstance(line, MultiKernelLine)
        and isinstance(line.selection, BenchmarkChoice)
        and line.name in called
    )


def _build_libraries(
    files: Mapping[str, str | bytes], objects: Mapping[str, Path], shown: Path | None
) -> dict[str, Path]:
    """Return the libraries of an artifact by their names in it, in the user's cache.

    ``objects`` are those that are built already, by the paths of their sources.  Debug
    information, if there is any, names the files in the folder ``shown``.
    """
    compiler = find_compiler()
    kernels = kernel_sources(files)
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending = pool.submit(build_kernels, kernels, shown)
        objects = _build_objects(files, objects, shown)
        kernel_objects = pending.result()
    facts = cast(dict[str, list[str]], json.loads(files[BUILD_FACTS]))
    libraries = [*TORCH_LIBRARIES, *facts["libraries"]]
    host = [path for name, path in objects.items() if name not in _BESIDE]
    openmp = ("-fopenmp",) if kernels else ()
    program = [*host, *kernel_objects]
    built = {
        LIBRARY: link_library(compiler, LIBRARY, program, libraries, _EXPORTED, openmp)
    }
    for source, (library, flags) in _BESIDE.items():
        if source in objects:
            built[library] = link_library(
                compiler, library, [objects[source]], libraries, _EXPORTED, flags
            )
    return built


def has_gpu_kernels(files: Mapping[str, str | bytes]) -> bool:
    """Return whether an artifact has kernels to compile for targets."""
    return any(path.endswith(KERNEL_FACTS) for path in files)


def kernel_sources(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """Return the sources of an artifact's C++ kernels by path."""
    return {
        path: content
        for path, content in sorted(files.items())
        if path.startswith(KERNELS) and path.endswith(".cpp") and isinstance(content, str)
    }


def _build_objects(
    files: Mapping[str, str | bytes],
    known: Mapping[str, Path],
    shown: Path | None = None,
) -> dict[str, Path]:
    """Return the objects of the host program's sources; those in ``known`` are built."""
    sources, included = host_sources(files)
    cuda_headers = _cuda_headers() if POOLS_SOURCE in sources else None
    if cuda_headers is None and POOLS_SOURCE in sources:
        del sources[POOLS_SOURCE]
        if not known:  # else it was said when the others were built
            message = "graph regions are not recorded: CUDA's headers of Triton are missing"
            logging.getLogger("wrapperir.graphs").warning(message)

    def build(path: str) -> Path:
        folder = shown if path == PROGRAM else None
        return build_object(path, sources[path], included, cuda_headers, folder)

    paths = sorted(sources.keys() - known.keys())
    return {**known, **dict(zip(paths, side_by_side(build, paths), strict=True))}


def host_sources(
    files: Mapping[str, str | bytes],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the sources of a host program to compile, and the files that they include.

    Those that every program has are one, as most of the time is for what they include.
    """
    texts = {
        path: content
        for path, content in files.items()
        if isinstance(content, str) and not path.startswith(KERNELS)
    }
    included = {path: text for path, text in texts.items() if path.endswith(".h")}
    sources = {path: text for path, text in texts.items() if path.endswith(".cpp")}
    core = [path for path in CORE_SOURCES if path in sources]
    included |= {path: sources.pop(path) for path in core}
    names = [path.removeprefix(RUNTIME) for path in core]
    sources[_CORE] = "".join(f'#include "{name}"\n' for name in names)
    return sources, included


def build_object(
    path: str,
    text: str,
    headers: Mapping[str, str],
    cuda_headers: Path | None = None,
    shown: Path | None = None,
) -> Path:
    """Return the object of a source of the host program, in the user's cache.

    With ``shown``, it has debug information, which names the files in that folder.

    Raises:
        DiagnosticError: WIR709, it does not compile; WIR710, it cannot be kept.
    """
    major, minor = torch.__version__.split(".")[:2]
    version = (f"-DWRAPPERIR_TORCH_MAJOR={major}", f"-DWRAPPERIR_TORCH_MINOR={minor}")
    if path in _WITH_TORCH:
        cuda = ("-isystem", str(cuda_headers)) if path == POOLS_SOURCE else ()
        return compile_with_torch(path, text, headers, (*version, *cuda))
    folder = Path(torch.__file__).parent / "include"
    optimized = () if shown is None else ("-O0",)  # each line is then stepped through
    flags = (*HOST_FLAGS, *optimized, *version, "-isystem", str(folder))
    return compile_object(find_compiler(), path, text, headers, flags, shown)


def _cuda_headers() -> Path | None:
    """Return the folder of CUDA's headers that Triton brings, ``None`` without them."""
    found = importlib.util.find_spec("triton")
    if found is not None and found.origin is not None:
        folder = Path(found.origin).parent / "backends" / "nvidia" / "include"
        if (folder / "cuda_runtime_api.h").is_file():
            return folder
    return None


def load_library(artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
    """Return the program of a built artifact.

    Raises:
        DiagnosticError: WIR707, a constant is missing; WIR709, the binding to Python does
            not build; WIR710, the library does not load, was built for another torch, or
            does not take its constants.
    """
    return load_folder(store_artifact(only_binaries(artifact)), constants)


def only_binaries(artifact: Artifact) -> Artifact:
    """Return a built artifact without sources, which loading it does not need.

    Kernels for GPUs are found beside the library.
    """
    binaries = {
        path: content
        for path, content in artifact.files.items()
        if isinstance(content, bytes)
    }
    return evolve(artifact, files=binaries)


def load_folder(folder: Path, constants: Mapping[str, torch.Tensor]) -> Loaded:
    """Return the program of the libraries in a folder; errors as ``load_library``."""
    # Detached, a parameter that is also an output comes back as a plain tensor.
    given = {key: tensor.detach() for key, tensor in constants.items()}
    try:
        program = binding().Program(folder / LIBRARY, given)
    except KeyError as error:
        raise Code.MISSING_CONSTANT.error(
            f"no tensor was given for constant {error}"
        ) from None
    except (ImportError, RuntimeError, TypeError) as error:
        raise Code.INVALID_ARTIFACT.error(
            f"the library does not load: {error}",
            hint="compile the program again, with this torch and on this machine",
        ) from None
    note_recordings(program)
    return program
