"""Turns the target of ``compile`` into a program with constants.

A target is a function or module in a Python file that has example inputs, an exported
program, or a program of ours.
"""

import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import torch
from attrs import evolve, frozen
from torch.fx.traceback import annotate_fn

from wrapperir.cli.archives import archive_error, check_exported, is_archive
from wrapperir.cli.source import (
    PROGRAM_JSON,
    PROGRAM_TEXT,
    STANDARD_INPUT,
    Source,
    parse_source,
)
from wrapperir.cli.values import load_constants
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, Note
from wrapperir.emit.constants import read_constants
from wrapperir.frontend import Lowered
from wrapperir.loading import find_artifacts

if TYPE_CHECKING:
    from wrapperir.frontend.lowering.lower import LoweringStages

_FORMS = (
    "define example_inputs() or EXAMPLE_INPUTS: a tensor, a tuple of the positional "
    "arguments, a dict of the keyword arguments, or a pair of a tuple and a dict"
)


def _as_module(function: Callable[..., Any]) -> torch.nn.Module:
    """Return a function as a module of its name, which is what ``torch.export`` takes."""
    name = str(getattr(function, "__name__", type(function).__name__))
    module: torch.nn.Module = type(name, (torch.nn.Module,), {})()
    # Traces of torch.export name frames of forward methods and of annotated functions
    # only; without, every node would seem to come from this file.
    vars(module)["forward"] = annotate_fn({})(function)
    return module


def check_target(text: str) -> Path:
    """Return the file of ``FILE.py:NAME`` or of an exported program; executes nothing.

    Raises:
        DiagnosticError: WIR900, it is spelled otherwise; or WIR908, it is another archive.
        OSError: the file cannot be read.
    """
    path = Path(text)
    if text.endswith(".pt2"):
        check_exported(path)
        return path
    if path.is_file() and not text.endswith(".py"):
        with path.open("rb") as file:
            if is_archive(file.read(4)):
                raise archive_error(text, file)
    path = split_target(text)[0]
    path.open("rb").close()
    return path


def lower_target(text: str, frontend: str, kernel_device: str | None = None) -> Lowered:
    """Return the program of what :func:`check_target` accepts.

    The frontend ``lowering`` writes kernels of CPU tensors for a ``kernel_device``, if it
    is given.

    Raises:
        DiagnosticError: WIR901 to WIR903, WIR907, or what the frontend reports.
        OSError: the file cannot be read.
    """
    if frontend == "lowering":
        stages = lower_in_stages(text, kernel_device)
        return evolve(stages.lowered, stages=stages)
    return lower_exported_by(frontend, *export_target(text))


def lower_exported_by(
    frontend: str, path: Path, exported: torch.export.ExportedProgram
) -> Lowered:
    """Return the program that a frontend makes of an exported program in a file.

    Raises:
        DiagnosticError: what the frontend reports.
    """
    if frontend == "export":
        from wrapperir.frontend.export import lower_exported

        return lower_exported(exported)
    lowered: Lowered
    if frontend == "lowering":
        from wrapperir.frontend.lowering.exported import lower_exported as lower_to_kernels

        lowered = guarded(path, lower_to_kernels, exported).lowered
        return lowered
    from wrapperir.frontend.inductor.exported import lower_exported as lower_fused

    lowered = guarded(path, lower_fused, exported)
    return lowered


def lower_in_stages(text: str, kernel_device: str | None = None) -> "LoweringStages":
    """Return the loops, schedule and program of what :func:`check_target` accepts.

    Kernels of CPU tensors are for a ``kernel_device``, if it is given.

    Raises:
        DiagnosticError: as :func:`lower_target`.
        OSError: the file cannot be read.
    """
    from wrapperir.frontend.lowering.exported import lower_exported

    path, exported = export_target(text)
    lower = partial(lower_exported, kernel_device=kernel_device)
    stages: LoweringStages = guarded(path, lower, exported)
    return stages


def export_target(text: str) -> tuple[Path, torch.export.ExportedProgram]:
    """Return the file and the exported program of what :func:`check_target` accepts.

    Raises:
        DiagnosticError: WIR901 to WIR903.
        OSError: the file cannot be read.
    """
    path = check_target(text)
    if text.endswith(".pt2"):
        return path, guarded(path, _load, path)
    return path, guarded(path, _export, load_target(text))


def _load(path: Path) -> torch.export.ExportedProgram:
    # The error for a file that is not an exported program has what torch logs about it.
    logger = logging.getLogger("torch.export")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        return torch.export.load(path)
    finally:
        logger.disabled = was_disabled


def _export(target: "CompileTarget") -> torch.export.ExportedProgram:
    function = target.function
    module = function if isinstance(function, torch.nn.Module) else _as_module(function)
    return torch.export.export(
        module, target.args, target.kwargs, dynamic_shapes=target.dynamic_shapes
    )


def read_program(source: Source, target: str, file: str | None) -> tuple[Lowered, Source]:
    """Return a program with the constants in ``file`` or beside it, and its text.

    Raises:
        DiagnosticError: the text is malformed; WIR904, the file is not a dict of
            tensors; or WIR710, the constants beside the program are malformed.
        OSError: a file cannot be read.
    """
    program, source = parse_source(source)
    if file is not None:
        return Lowered(program, load_constants(file)), source
    folder = _folder(target)
    beside = find_artifacts(folder) if folder is not None else ()
    for artifact in beside:
        if found := read_constants(artifact):
            return Lowered(program, found), source
    return Lowered(program, {}), source


def _folder(target: str) -> Path | None:
    """Return the folder that ``compile`` wrote the program to, if it did."""
    path = Path(target)
    if target != STANDARD_INPUT and path.is_dir():
        return path
    return path.parent if path.name in {PROGRAM_TEXT, PROGRAM_JSON} else None


@frozen
class CompileTarget:
    """A function or module to compile, and the arguments of one call."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any


def split_target(text: str) -> tuple[Path, str]:
    """Return the file and name of ``FILE.py:NAME``.

    Raises:
        DiagnosticError: WIR900, it is spelled otherwise.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise Code.TARGET_SPELLING.error(
            f"{text[:200]!r} is neither FILE.py:NAME nor a .pt2 file",
            hint="write the file, a colon, and the name of a function or module in it",
        )
    return Path(file), name


def load_target(text: str) -> CompileTarget:
    """Run a Python file and return what ``FILE.py:NAME`` names, with its example inputs.

    A class is called without arguments.  ``DYNAMIC_SHAPES`` in the file is
    passed to ``torch.export`` as ``dynamic_shapes``.

    Raises:
        DiagnosticError: WIR900 to WIR903.
        OSError: the file cannot be read.
    """
    path, name = split_target(text)
    path.open("rb").close()  # errors of the file are not errors of its code
    module = _run_file(path)
    found: Any = getattr(module, name, None)
    if inspect.isclass(found):
        found = guarded(path, found)
    if not callable(found):
        defined = [n for n, v in vars(module).items() if callable(v) and n[:1] != "_"]
        raise Code.TARGET_MISSING.error(
            f"{path} defines no function or module {name}",
            hint=f"it defines {', '.join(defined[:20])}" if defined else None,
        )
    inputs: Any = getattr(module, "EXAMPLE_INPUTS", None)
    if callable(maker := getattr(module, "example_inputs", None)):
        inputs = guarded(path, maker)
    args, kwargs = _arguments(path, inputs)
    _check_call(name, found, args, kwargs)
    shapes: Any = getattr(module, "DYNAMIC_SHAPES", None)
    return CompileTarget(found, args, kwargs, shapes)


def _check_call(
    name: str, found: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Refuse example inputs that are not arguments of what is to be compiled."""
    called = found.forward if isinstance(found, torch.nn.Module) else found
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # it has none that Python knows
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise Code.EXAMPLE_INPUTS.error(
            f"{name} cannot be called with the example inputs: {error}",
            hint="name a function that takes them, a module, or a module's class",
        ) from None


def _run_file(path: Path) -> ModuleType:
    name = "__wrapperir_target__"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    guarded(path, spec.loader.exec_module, module)
    return module


def guarded(path: Path, run: Callable[..., Any], *args: Any) -> Any:
    """Return ``run(*args)``; its errors become diagnostics.

    Raises:
        DiagnosticError: WIR901 with the error and the place in the user's file; or WIR709,
            Inductor finds no C++ compiler.
    """
    try:
        return run(*args)
    except DiagnosticError:
        raise
    except (Exception, SystemExit) as error:
        raise DiagnosticError(_failure(path, error)) from None


def _failure(path: Path, error: BaseException) -> Diagnostic:
    resolved = str(path.resolve())
    places = [
        f"{path}:{frame.lineno}, in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if str(Path(frame.filename).resolve()) == resolved
    ]
    if isinstance(error, SyntaxError) and error.lineno is not None:
        places = [f"{error.filename}:{error.lineno}"]
    lines = [line for line in str(error).splitlines() if line.strip()]
    message = f"{type(error).__name__}: {' '.join(lines[:6])}"[:1000]
    return Diagnostic(
        Code.TARGET_FAILED,
        f"{path} failed: {message}",
        notes=tuple(Note(message=f"raised at {place}") for place in places[-1:]),
    )


def _arguments(path: Path, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    match inputs:
        case torch.Tensor():
            return (inputs,), {}
        case (tuple() | list(), dict()):
            args, kwargs = cast(tuple[tuple[Any, ...], dict[Any, Any]], inputs)
            return tuple(args), _keywords(kwargs)
        case tuple() | list():
            return tuple(cast(tuple[Any, ...], inputs)), {}
        case dict():
            return (), _keywords(cast(Mapping[Any, Any], inputs))
        case _:
            what = "gives no example inputs"
            if inputs is not None:
                what = f"gives a {type(inputs).__name__} as example inputs"
            raise Code.EXAMPLE_INPUTS.error(f"{path} {what}", hint=_FORMS)


def _keywords(kwargs: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in kwargs.items()}
