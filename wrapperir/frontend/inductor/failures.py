"""Errors while Inductor compiles a graph, with the user's line that they come from."""

import contextlib
import sysconfig
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from attrs import evolve
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException
from torch._inductor import ir
from torch._inductor.exc import InvalidCxxCompiler
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._inductor.scheduler import BaseSchedulerNode

import wrapperir
from wrapperir.diagnostics import Code, DiagnosticError, Note, first_line
from wrapperir.frontend.failures import error_origin, node_location
from wrapperir.ir import SourcePlace

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.session import Session

_INSTALLED = tuple(
    str(Path(str(path)).resolve()) + "/"
    for path in (
        *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
        Path(str(torch.__file__)).parent,
        Path(str(wrapperir.__file__)).parent,
    )
)


@contextlib.contextmanager
def diagnostics_unwrapped() -> Generator[None]:
    """Raise the diagnostics themselves if PyTorch wraps exceptions in its own."""
    try:
        yield
    except DiagnosticError:
        raise
    except Exception as error:
        inner = getattr(error, "inner_exception", None) or error.__cause__
        if isinstance(inner, DiagnosticError):
            # Not from the wrapping error: that one holds the diagnostics themselves.
            raise inner from inner.__cause__
        raise


@contextlib.contextmanager
def reporting_failures(session: "Session") -> Generator[None]:
    """Raise diagnostics with the user's line, and WIR655 for errors of PyTorch's.

    Errors that code of the user's raises, such as a pass that was given to Inductor, are
    raised as Inductor raises them, and so are those that Dynamo acts on.
    """
    try:
        with diagnostics_unwrapped():
            yield
    except DiagnosticError as error:
        if session.built:  # the program's line is known, and has its own place
            raise
        origin = _origin(error)
        found = [evolve(d, origin=d.origin or origin) for d in error.diagnostics]
        raise DiagnosticError(*found) from error.__cause__
    except Exception as error:
        inner = error.inner_exception if isinstance(error, BackendCompilerFailed) else error
        frames = traceback.extract_tb(inner.__traceback__)
        if isinstance(inner, TorchDynamoException) or any(
            _is_users(frame.filename) for frame in frames
        ):
            raise
        if isinstance(inner, InvalidCxxCompiler):
            raise Code.KERNEL_BUILD_FAILED.error(
                "there is no C++ compiler, which Inductor needs",
                hint="install one, such as g++, or set CXX to it",
            ) from inner
        _check_device(inner)
        at = frames[-1]
        raise Code.COMPILATION_FAILED.error(
            f"PyTorch failed to compile the graph: {type(inner).__name__}:"
            f" {first_line(inner)}",
            notes=(Note(message=f"raised at {at.filename}:{at.lineno}, in {at.name}"),),
            origin=_origin(inner),
        ) from inner


def _check_device(error: Exception) -> None:
    """Raise WIR661 for Inductor's error of a device that it does not know."""
    name = torch._C._get_privateuse1_backend_name()
    if isinstance(error, KeyError) and error.args == (name,):
        raise Code.INVALID_OPTION.error(
            f"option 'frontend': Inductor compiles nothing for device {name}",
            hint="options={'frontend': 'lowering'} makes kernels without Inductor",
        ) from error


def _is_users(file: str) -> bool:
    resolved = str(Path(file).resolve())
    generated = str(Path(cache_dir()).resolve())
    return not file.startswith("<") and not resolved.startswith((*_INSTALLED, generated))


def _origin(error: BaseException) -> str | None:
    """Return the user's line of the node that the innermost frame was working on."""
    return error_origin(error, _location)


def _location(value: Any) -> SourcePlace | None:
    node = value.node if isinstance(value, BaseSchedulerNode) else value
    if isinstance(node, ir.IRNode):
        return next(filter(None, map(node_location, getattr(node, "origins", ()))), None)
    return node_location(node)
