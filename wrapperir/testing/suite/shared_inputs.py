"""The probe of shared inputs: a caller gives a tensor twice, and the program writes it."""

from typing import TYPE_CHECKING

from wrapperir import ir as wir
from wrapperir.emit import Loaded, Value
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.conformance_case import MATRIX, SmallKernels
from wrapperir.testing.inputs import difference, example_inputs

if TYPE_CHECKING:
    import torch


def shared_program(language: wir.Language) -> wir.Program:
    """Return a program that writes two of three inputs, and reads the third afterwards."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, y, z = b.input(MATRIX, mutated=True), b.input(MATRIX), b.input(MATRIX, mutated=True)
    first = kernels.negate(b, y)
    kernels.subtract(b, x, first, x)
    kernels.subtract(b, z, x, z)
    last = kernels.negate(b, y, first)
    return b.build(last)


def sharing_fault(
    loaded: Loaded, program: wir.Program, given: wir.Program, *, is_copied: bool
) -> str | None:
    """Return what is wrong with a call that is given one tensor twice, if anything is.

    It has the results of the interpreter.  If inputs are copied, it may also raise an error
    and change nothing.
    """
    from wrapperir.interp import interpret

    for first, second in ((0, 1), (0, 2), (2, 1)):
        wanted, mine = example_inputs(program, 0), example_inputs(given, 0)
        wanted[second], mine[second] = wanted[first], mine[first]
        old = [_tensor(value).clone() for value in mine]
        where = f"given %{program.inputs[first].name} as %{program.inputs[second].name} too"
        results = (*interpret(program, list(wanted), {}), *wanted)
        try:
            outputs = loaded(list(mine))
        except Exception as error:
            if not is_copied:
                return f"{where}, an error was raised: {error}"
            if any(difference(a, b) for a, b in zip(mine, old, strict=True)):
                return f"{where}, an error was raised, and memory was changed"
            continue
        for got, result in zip((*outputs, *mine), results, strict=True):
            found = difference(got, result, any_device=True)
            if found is not None:
                return f"{where}, a result {found}"
    return None


def _tensor(value: Value) -> "torch.Tensor":
    import torch

    assert isinstance(value, torch.Tensor)
    return value
