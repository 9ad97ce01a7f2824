"""What emitted Python needs whatever the program: extension modules, Triton's compiler."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from wrapperir import caching
from wrapperir.emit import ComingPrograms
from wrapperir.emit.python.compiled_launches import EMITTED
from wrapperir.emit.python.extension_modules import (
    build_graphs,
    build_launches,
    cpp_preparations,
)
from wrapperir.kernels.emitted.native_module import build_library
from wrapperir.kernels.triton_compile import start_compiler


def preparations(coming: ComingPrograms) -> Sequence[Callable[[], object]]:
    """Return the functions to run in the background, as ``Emitter.preparations`` does."""
    has_cuda = "cuda" in coming.devices and torch.version.hip is None
    if coming.is_new:
        return (start_compiler,) if has_cuda else ()
    builds = (
        (_build_operators, True),
        (build_launches, has_cuda),
        (build_graphs, has_cuda and coming.graphs),
    )
    return [*(build for build, is_needed in builds if is_needed), *cpp_preparations(coming)]


def _build_operators() -> None:
    source = Path(__file__).with_name("emitted") / "operators.cpp"
    build_library(source, [EMITTED / "tensors.h"], caching)
