"""Executes emitted Python modules."""

import importlib.util
import re
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import cast

import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit.artifact import artifact_digest, store_artifact
from wrapperir.emit.contract import Artifact
from wrapperir.emit.torch_dtypes import UnknownDeviceError, torch_device
from wrapperir.emit.triton_signature import KERNEL_FACTS
from wrapperir.ir import Device
from wrapperir.operators import UnknownOperatorError, find_overload

_COMPILE_ERROR = r"C\+\+ compile error of (@\S+):\n"  # as cpp_kernels.py says it
_PLACE = r"^\S+?:\d+:\d+: "
_DEVICE = r"= torch\.device\(['\"](\w+)['\"](?:, (\d+))?\)$"
_OPERATOR = r"= bindings\.find\(torch\.ops\.(\w+\.\w+\.\w+), "


class _TextLoader(SourceLoader):
    """Loads a module from a text, without looking for or leaving compiled files.

    Debuggers and tracebacks call the text ``shown``; it lies at ``path``.
    """

    def __init__(self, text: str, path: str, shown: str) -> None:
        self._text = text
        self._path = path
        self._shown = shown

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        return self._text.encode()

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._text, self._shown, "exec", dont_inherit=True)
        return code


def load_module(
    artifact: Artifact,
    constants: Mapping[str, torch.Tensor],
    *,
    interpreted: bool,
) -> ModuleType:
    """Execute the entry of an artifact, give it its constants and return the module.

    ``interpreted`` says that Triton kernels run on the CPU, in Triton's interpreter.
    A module of one file is executed from memory.  One with kernels in files of their own
    is first written to the user's cache, under the digest of what it holds.  Code has the
    name of the file in the artifact's ``folder``, so that breakpoints there are hit.

    Raises:
        DiagnosticError: a constant is missing; WIR704 or WIR705, a device or an operator
            is not registered; WIR709, a kernel does not compile, or the module does not
            load.
    """
    text = artifact.files[artifact.entry]
    assert isinstance(text, str)
    if len(artifact.files) > 1:
        path = str(store_artifact(artifact) / artifact.entry)
    else:  # tracebacks find the source by this name, through the module's loader
        path = f"wrapperir/{artifact_digest(artifact)[:16]}/{artifact.entry}"
    if any(file.endswith(KERNEL_FACTS) for file in artifact.files):
        # Its processes, which wait for further programs, then compile the kernels.
        importlib.import_module("wrapperir.kernels.triton_compile")
    shown = path if artifact.folder is None else str(artifact.folder / artifact.entry)
    spec = ModuleSpec("wrapperir_program", _TextLoader(text, path, shown), origin=path)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    try:
        with ExitStack() as entered:
            if interpreted:
                from wrapperir.kernels.triton_cpu import interpreted_triton

                entered.enter_context(interpreted_triton())
            cast(_TextLoader, spec.loader).exec_module(module)
    except Exception as error:
        raise _load_error(module, text, error) from error
    _bind_constants(module, constants)
    return module


def _load_error(module: ModuleType, text: str, error: Exception) -> DiagnosticError:
    """Return the error for a module that does not load: WIR704, WIR705 or WIR709."""
    if failed := re.match(_COMPILE_ERROR, str(error)):
        from wrapperir.kernels.compiler import first_errors

        # The lines are not those of the kernel's source.
        causes = first_errors(str(error)[failed.end() :])
        message = f"{failed[1]} does not compile: {re.sub(_PLACE, '', causes, flags=re.M)}"
        return Code.KERNEL_BUILD_FAILED.error(message)
    frames = traceback.walk_tb(error.__traceback__)
    numbers = [n for frame, n in frames if frame.f_globals is vars(module)]
    statement = text.split("\n")[numbers[0] - 1] if numbers else ""
    bound = re.search(_OPERATOR, statement)
    if bound and not isinstance(error, TypeError):  # it is there, and not an operator
        try:
            find_overload(bound[1])
        except UnknownOperatorError as unknown:
            hint = "import the library that registers it"
            return Code.UNSUPPORTED_FEATURE.error(str(unknown), subject=bound[1], hint=hint)
    if made := re.search(_DEVICE, statement):
        try:
            torch_device(Device(made[1], None if made[2] is None else int(made[2])))
        except UnknownDeviceError as unknown:
            return unknown.unsupported
    cause, *_ = str(error).strip().splitlines() or [""]
    message = f"the emitted module does not load: {type(error).__name__}: {cause}"
    return Code.KERNEL_BUILD_FAILED.error(message)


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
