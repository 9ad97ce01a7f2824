"""What emitted Python needs whatever the program: extension modules, Triton's compiler."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from wrapperir import caching
from wrapperir.emit.python.compiled_launches import EMITTED, build_launches
from wrapperir.kernels.emitted.native_module import build_library
from wrapperir.kernels.triton_compile import start_compiler

_OPERATORS = Path(__file__).with_name("emitted") / "operators.cpp", ("tensors.h",)
_GRAPHS = EMITTED / "graphs.cpp", ("tensors.h", "recording.h", "driver_functions.h")
"""Extension modules: sources, and the headers as the modules that build them name them."""


def preparations(
    devices: frozenset[str], *, is_new: bool
) -> Sequence[Callable[[], object]]:
    """Return the functions to run in the background, as ``Emitter.preparations`` does."""
    has_cuda = "cuda" in devices and torch.version.hip is None
    if is_new:
        return (start_compiler,) if has_cuda else ()
    modules = (_OPERATORS, *((_GRAPHS,) if has_cuda else ()))
    return [
        *((build_launches,) if has_cuda else ()),
        *(
            partial(build_library, source, [EMITTED / name for name in headers], caching)
            for source, headers in modules
        ),
    ]
