"""Executes emitted Python modules."""

import importlib.util
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import cast

import torch

from wrapperir.diagnostics import Code
from wrapperir.emit.artifact import artifact_digest, store_artifact
from wrapperir.emit.contract import Artifact


class _TextLoader(SourceLoader):
    """Loads a module from a text, without looking for or leaving compiled files."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        return self._text.encode()


def load_module(
    artifact: Artifact,
    constants: Mapping[str, torch.Tensor],
    *,
    interpreted: bool,
) -> ModuleType:
    """Execute the entry of an artifact, give it its constants and return the module.

    ``interpreted`` says that Triton kernels run on the CPU, in Triton's interpreter.
    A module of one file is executed from memory.  One with kernels in files of their own
    is first written to the user's cache, under the digest of what it holds.

    Raises:
        DiagnosticError: a constant is missing, or the module does not load.
    """
    text = artifact.files[artifact.entry]
    assert isinstance(text, str)
    if len(artifact.files) > 1:
        path = str(store_artifact(artifact) / artifact.entry)
    else:  # tracebacks find the source by this name, through the module's loader
        path = f"wrapperir/{artifact_digest(artifact)[:16]}/{artifact.entry}"
    spec = ModuleSpec("wrapperir_program", _TextLoader(text, path), origin=path)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    try:
        with ExitStack() as entered:
            if interpreted:
                from wrapperir.kernels.triton_cpu import interpreted_triton

                entered.enter_context(interpreted_triton())
            cast(_TextLoader, spec.loader).exec_module(module)
    except Exception as error:
        cause, *_ = str(error).strip().splitlines() or [""]
        message = f"the emitted module does not load: {type(error).__name__}: {cause}"
        raise Code.KERNEL_BUILD_FAILED.error(message) from error
    _bind_constants(module, constants)
    return module


def _bind_constants(module: ModuleType, constants: Mapping[str, torch.Tensor]) -> None:
    # A parameter would make operators record gradients, and refuse it with out=.
    detached = {key: value.detach() for key, value in constants.items()}
    found: object = getattr(module, "bind_constants", None)
    if found is None:
        return  # a program without constants
    bind = cast(Callable[[Mapping[str, torch.Tensor]], None], found)
    try:
        bind(detached)
    except KeyError as error:
        message = f"no tensor was given for constant {error}"
        raise Code.MISSING_CONSTANT.error(message) from None
