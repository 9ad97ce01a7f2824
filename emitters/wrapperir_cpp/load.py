"""Loads the library of an artifact as a Python callable."""

import importlib.util
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Protocol, cast

import torch
from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.emit import Artifact, Loaded
from wrapperir.emit.artifact import store_artifact
from wrapperir.kernels import failed
from wrapperir_cpp.build import build_extension
from wrapperir_cpp.layout import LIBRARY

_RUNTIME = Path(__file__).with_name("runtime")


class _Binding(Protocol):
    """The module that binding.cpp makes."""

    def Program(  # noqa: N802
        self, path: Path, constants: dict[str, torch.Tensor]
    ) -> Loaded: ...


def load_library(artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
    """Return the program of a built artifact.

    Raises:
        DiagnosticError: WIR707, a constant is missing; WIR709, what binds libraries to
            Python does not build; WIR710, the library does not load, or was built for
            another torch, or does not take its constants.
    """
    binding = _binding()
    # Sources are not needed; kernels for GPUs are found beside the library.
    binaries = {
        path: content
        for path, content in artifact.files.items()
        if isinstance(content, bytes)
    }
    library = store_artifact(evolve(artifact, files=binaries)) / LIBRARY
    # A parameter would come back as an output that is one.
    given = {key: tensor.detach() for key, tensor in constants.items()}
    try:
        return binding.Program(library, given)
    except KeyError as error:
        raise Code.MISSING_CONSTANT.error(
            f"no tensor was given for constant {error}"
        ) from None
    except (ImportError, RuntimeError, TypeError) as error:
        raise Code.INVALID_ARTIFACT.error(
            f"the library does not load: {error}",
            hint="compile the program again, with this torch and on this machine",
        ) from None


@cache
def _binding() -> _Binding:
    include = sysconfig.get_path("include")
    headers = [_RUNTIME / "binding_errors.h", _RUNTIME / "wrapperir.h"]
    path = build_extension(_RUNTIME / "binding.cpp", headers, [include])
    loader = ExtensionFileLoader("binding", str(path))
    spec = importlib.util.spec_from_loader("binding", loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise failed(f"what binds libraries to Python does not load: {error}") from None
    return cast(_Binding, module)
