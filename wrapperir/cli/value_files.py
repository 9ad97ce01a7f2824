"""Inputs and constants from files of ``torch.save`` or safetensors."""

import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value
from wrapperir.ir import Program

_REFUSED = re.compile(r"GLOBAL ([\w.]{1,200})", re.ASCII)
"""Matches the name of an object that torch refuses because loading may execute code."""


def load_inputs(path: str, program: Program) -> list[Value]:
    """Return the inputs of a program: a file's list in order, or its dict by name.

    Raises:
        DiagnosticError: WIR904, the file has another form or lacks an input.
        OSError: the file cannot be read.
    """
    found = _load(path)
    if isinstance(found, torch.Tensor):
        found = [found]
    if isinstance(found, list | tuple):
        values = list(cast(Sequence[object], found))
        if len(values) != len(program.inputs):
            raise _bad(path, f"holds {len(values)} values for {len(program.inputs)} inputs")
        named = zip((input.name for input in program.inputs), values, strict=True)
        return [_value(path, name, value) for name, value in named]
    if isinstance(found, Mapping):
        by_name = cast(Mapping[object, object], found)
        missing = [i.name for i in program.inputs if i.name not in by_name]
        if missing:
            raise _bad(path, f"lacks the inputs {', '.join(missing)}")
        return [_value(path, i.name, by_name[i.name]) for i in program.inputs]
    raise _bad(path, f"holds a {type(found).__name__}, neither a list nor a dict")


def load_constants(path: str) -> dict[str, torch.Tensor]:
    """Return tensors by key.

    Raises:
        DiagnosticError: WIR904, the file is not a dict of tensors.
        OSError: the file cannot be read.
    """
    found = _load(path)
    if not isinstance(found, Mapping):
        raise _bad(path, f"holds a {type(found).__name__}, not a dict of tensors")
    tensors: dict[str, torch.Tensor] = {}
    for key, value in cast(Mapping[object, object], found).items():
        if not isinstance(value, torch.Tensor):
            raise _bad(path, f"holds a {type(value).__name__} for {key!r:.80}")
        tensors[str(key)] = value
    return tensors


def _load(path: str) -> Any:
    """Read a file; nothing in it is executed."""
    with Path(path).open("rb") as file:
        head = file.read(9)
    if not zipfile.is_zipfile(path) and head[8:9] == b"{":
        return _load_safetensors(path)
    try:
        with warnings.catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # an unpickler raises anything at a file that is not its own
        named = _REFUSED.search(str(error))
        if named is not None:
            what = f"holds {named[1]}, which is neither tensor nor number"
        else:
            what = "is no file that torch.save or safetensors wrote"
        # torch's own message tells how to execute what is in the file.
        raise _bad(path, what) from None


def _load_safetensors(path: str) -> Any:
    try:
        from safetensors.torch import load_file  # pyright: ignore
    except ImportError:
        raise _bad(path, "needs the package safetensors to be read") from None
    try:
        return load_file(path)
    except OSError:
        raise
    except Exception as error:  # its own exception type is not public
        raise _bad(path, f"is no safetensors file: {error}") from None


def _value(path: str, name: str, value: object) -> Value:
    if value is None or isinstance(value, torch.Tensor | int | float | bool):
        return value
    raise _bad(path, f"holds a {type(value).__name__} for input {name}")


def _bad(path: str, what: str) -> DiagnosticError:
    return Code.VALUES_FILE.error(f"{path} {what}"[:500])
