"""Extension modules that emitted Python needs, built ahead into the user's cache.

Each function raises ``OSError`` without a compiler or a private directory, and
``subprocess.CalledProcessError`` if a module does not compile.
"""

from collections.abc import Callable, Sequence

from wrapperir import caching
from wrapperir.emit.contract import ComingPrograms
from wrapperir.emit.python.compiled_launches import EMITTED
from wrapperir.kernels import prepare_header
from wrapperir.kernels.emitted.native_module import build_library


def build_launches() -> None:
    """Build the module that launches Triton kernels."""
    headers = "tensors.h", "arguments.h", "driver_functions.h"
    special = "descriptors.h", "descriptor_parts.h", "special_launches.h"
    _build("launches.cpp", *headers, *special)


def build_graphs() -> None:
    """Build the module that captures and replays CUDA graphs."""
    _build("graphs.cpp", "tensors.h", "recording.h", "driver_functions.h")


def build_cpp_calls() -> None:
    """Build the module that calls C++ kernels."""
    _build("cpp_calls.cpp", "tensors.h", "arguments.h")


def cpp_preparations(coming: ComingPrograms) -> Sequence[Callable[[], object]]:
    """Return the builds of what C++ kernels of the coming programs need."""
    if "cpu" not in coming.devices:
        return ()
    return (build_cpp_calls,) if coming.own_kernels else (build_cpp_calls, prepare_header)


def _build(source: str, *headers: str) -> None:
    # The headers are in the order in which the module beside each source names them.
    build_library(EMITTED / source, [EMITTED / name for name in headers], caching)
