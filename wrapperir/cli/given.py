"""The inputs and constants that a command runs a program on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from wrapperir.cli.source import notice
from wrapperir.cli.values import (
    load_constants,
    load_inputs,
    random_constants,
    random_inputs,
)
from wrapperir.emit import Value
from wrapperir.emit.constants import read_constants
from wrapperir.interp import check_inputs
from wrapperir.ir import Program
from wrapperir.loading import find_artifacts


def take_values(
    path: str, program: Program, inputs: str | None, constants: str | None, seed: int
) -> tuple[Sequence[Value], Mapping[str, torch.Tensor]]:
    """Return the inputs and constants of a program that was read from ``path``.

    They are those of the files ``inputs`` and ``constants``; without these, the constants
    beside the program, or random ones, and random inputs.  ``seed`` is also set as torch's.

    Raises:
        DiagnosticError: a file cannot be loaded, or the inputs are not the program's.
    """
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
    tensors = _constants(path, program, constants, seed)
    given = random_inputs(program, seed) if inputs is None else load_inputs(inputs, program)
    check_inputs(program, given)
    return given, tensors


def _constants(
    path: str, program: Program, file: str | None, seed: int
) -> Mapping[str, torch.Tensor]:
    if file is not None:
        return load_constants(file)
    for beside in find_artifacts(Path(path)):
        if found := read_constants(beside):
            return found
    if program.constants:
        notice("the constants are random")
    return random_constants(program, seed)
