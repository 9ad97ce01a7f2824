"""One program of the conformance kit, and the types that its programs share."""

from collections.abc import Callable

from attrs import frozen

from wrapperir.ir import Program, tensor
from wrapperir.ir.builder import ProgramBuilder

MATRIX = tensor("f32", (4, 8))
FLAT = tensor("f32", (32,))
BOOL = tensor("bool", ())
CELL = tensor("i64", ())


@frozen
class Case:
    """A program, and the seeds of the inputs to run it on.

    ``faults`` says that running it must end in an error.
    """

    name: str
    program: Program
    seeds: tuple[int, ...] = (0, 1)
    faults: bool = False


def built(fill: Callable[[ProgramBuilder], Program], *seeds: int) -> Case:
    """Return the case of the program that a function builds, named as the function."""
    name = fill.__name__.removeprefix("_")
    return Case(name, fill(ProgramBuilder()), seeds or (0, 1))
